"""Prompts in cache rows: equal beginnings are computed once.

Some rows of the model's cache hold prompts (`rstar.models.local.prefix`). What they hold of new prompts is copied into
`GROUP` adjacent rows, where the rest is computed. Prompt lengths are padded to `WIDTHS`, so tensor shapes are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from rstar.models.local.cached_decoder import ROW_STEP, CachedDecoder
from rstar.models.local.prefix import Ids, PromptRows

GROUP = 8
"""Maximum number of prompts per forward call."""
WIDTHS = (8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)
"""Padded prompt lengths in tokens; longer prompts take several calls. An odd number of prompts cannot have all of them,
because a call computes a multiple of `ROW_STEP` tokens."""

T = TypeVar("T")


class Prompts:
    """Computes prompts in `rows` cache rows of a model, from row `first` on; the first `GROUP` are for computing."""

    def __init__(self, model: CachedDecoder, first: int, rows: int) -> None:
        self._model, self._first, self._rows = model, first, PromptRows(first + GROUP, rows - GROUP)

    def clear(self) -> None:
        """Forget all prompts, because the weights changed."""
        self._rows.clear()

    def longest(self, ids: Ids) -> tuple[int, int]:
        """Row and length of the longest prefix of `ids` that is held; the last token is always computed again."""
        return self._rows.longest(ids[:-1])

    def hold(self, row: int, ids: Ids) -> None:
        """Hold `ids`, which are in cache row `row`: in the row that holds their beginning and nothing else, if any."""
        target, length = self._rows.longest(ids)
        if not self._rows.holds_only(target, length):
            target, length = self._rows.take(), 0
        self._model.copy(row, target, length, len(ids))
        self._rows.hold(target, ids)

    def groups(self, prompts: Sequence[T], key: Callable[[T], Ids]) -> Iterator[list[T]]:
        """Divide prompts into groups to compute; a group needs about as many new tokens of each."""
        ordered = sorted(prompts, key=lambda prompt: len(key(prompt)) - self.longest(key(prompt))[1])
        return (ordered[start : start + GROUP] for start in range(0, len(ordered), GROUP))

    def compute(
        self, prompts: Sequence[Ids], tokens: Sequence[Ids] | None = None, added: Sequence[Tensor | None] = ()
    ) -> tuple[int, Tensor]:
        """Compute and hold up to `GROUP` prompts.

        Args:
            prompts: R token sequences, not empty.
            tokens: what the model reads, if a prompt is known by more than its tokens.
            added: (T, D) per prompt, or None: added to its token embeddings.

        Returns:
            The row of the first prompt, which the others follow until the next call, and the state after each prompt's
            last token, padded to (`ROW_STEP`, D).
        """
        model, first = self._model, self._first
        starts = np.zeros(len(prompts), np.int64)
        for i, ids in enumerate(prompts):
            source, starts[i] = self.longest(ids)
            model.copy(source, first + i, 0, int(starts[i]))
        states = torch.zeros((ROW_STEP, model.config.hidden_size), dtype=model.dtype, device=model.device)
        left = np.array([len(ids) for ids in prompts]) - starts
        possible = [width for width in WIDTHS if len(prompts) * width % ROW_STEP == 0]
        while (left > 0).any():
            width = next((width for width in possible if width >= left.max()), possible[-1])
            block = np.zeros((len(prompts), width), np.int64)
            more = (
                states.new_zeros((len(prompts), width, states.shape[1])) if any(a is not None for a in added) else None
            )
            for i, ids in enumerate(tokens or prompts):
                span = slice(int(starts[i]), int(starts[i]) + width)
                part = ids[span]
                block[i, : len(part)] = part
                if more is not None and (of_prompt := added[i]) is not None:
                    more[i, : len(part)] = of_prompt[span]
            last = torch.from_numpy(np.clip(left, 1, width) - 1)
            computed = model.hidden(first, torch.from_numpy(block), torch.from_numpy(starts), last, more)
            done = np.flatnonzero((left > 0) & (left <= width))
            states[done] = computed[done]
            # Rows of finished prompts write padding behind their last token.
            starts, left = starts + np.clip(left, 0, width), left - width
        for i, ids in enumerate(prompts):
            self.hold(first + i, ids)
        return first, states
