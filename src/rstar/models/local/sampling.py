"""Token sampling with per-row temperature, nucleus and random stream.

A row's token depends on its own logits, settings, key and position alone. The random number of a position is a hash of
(seed, sample index, position in the context), so batching and splitting into requests do not matter: a completion that
is cut and continued with the same seed and index equals the uncut one.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_ROUNDING = 1e-6
"""Probability left in a row that may be the rounding of nothing."""


def stream_key(seed: int, index: int) -> int:
    """64-bit key of the random stream of sample `index` in a request with `seed`."""
    return int.from_bytes(blake2b(b"%d/%d" % (seed, index), digest_size=8).digest(), "little")


def uniforms(keys: npt.NDArray[np.uint64], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """One number per row in [0, 1), a multiple of 2**-24: the splitmix64 stream of each key at each position."""
    mixed = keys + (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(40)) * 2.0**-24, np.float32)


class Taken(NamedTuple):
    """Probability that samples of a row must not take: rows and tokens (K,) int64, probabilities (K,) float32.

    In each row, the probabilities of tokens are reduced by what is taken there (sampling without replacement; the trie
    of arXiv 2002.09067, section 3).
    """

    rows: Tensor
    tokens: Tensor
    probabilities: Tensor


def choose(
    logits: Tensor,
    temperature: Tensor,
    top_p: Tensor,
    uniform: Tensor,
    row_of: Tensor,
    taken: Taken | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw a token for each of S samples, with its log-probability under the untempered distribution.

    Args:
        logits: (R, V) float32.
        temperature: (R,) on the CPU; 0 takes the most probable token.
        top_p: (R,) on the CPU; samples from the smallest set of most probable tokens with at least this mass.
        uniform: (S,) on the CPU, in [0, 1).
        row_of: (S,) int64 on the CPU: the row of each sample.
        taken: of rows with temperature 1 and top_p 1, on the CPU. A row of which all is taken is sampled as it is.

    Returns:
        Tokens (S,) int64 and log-probabilities (S,) float32, on the CPU.
    """
    warm_rows, device = temperature > 0, logits.device
    chosen = torch.zeros(len(uniform), dtype=torch.int64)
    if not warm_rows.all():
        chosen = _argmax(logits)[row_of]
    if warm_rows.any():
        warm = torch.where(warm_rows, temperature, 1.0).clamp_(min=1e-4).to(device)
        probabilities = torch.softmax(logits / warm[:, None], dim=-1)
        if taken is not None:
            _take(probabilities, taken)
        drawn = _draw(probabilities.cumsum(-1)[row_of.to(device)], uniform.to(device))
        narrow = torch.nonzero((warm_rows & (top_p < 1))[row_of])[:, 0]
        if len(narrow):
            rows = row_of[narrow]
            settings = top_p[rows].to(device), uniform[narrow].to(device)
            drawn[narrow.to(device)] = _draw_nucleus(probabilities[rows.to(device)], *settings)
        chosen = torch.where(warm_rows[row_of], drawn.cpu(), chosen)
    logprobs = torch.log_softmax(logits, dim=-1)[row_of.to(device), chosen.to(device)]
    return chosen, logprobs.cpu()


def _take(probabilities: Tensor, taken: Taken) -> None:
    rows, tokens, shares = (part.to(probabilities.device) for part in taken)
    left = probabilities.clone()
    left.index_put_((rows, tokens), -shares, accumulate=True)
    left.clamp_(min=0.0)
    some = left.sum(-1, keepdim=True) > _ROUNDING
    probabilities.copy_(torch.where(some, left, probabilities))


def _argmax(logits: Tensor) -> Tensor:
    """Most probable token of each row; on a CPU numpy measured ten times as fast as torch."""
    return torch.from_numpy(logits.numpy().argmax(1)) if logits.device.type == "cpu" else logits.argmax(-1).cpu()


def _draw(sums: Tensor, uniform: Tensor) -> Tensor:
    """First index where the cumulative `sums` (R, V) exceed `uniform` (R,) times the total."""
    whole = sums[:, -1]
    # If the product rounded up to the total, the index would lie behind the last nonzero weight.
    aim = torch.minimum(whole * uniform, torch.nextafter(whole, torch.zeros_like(whole)))
    return torch.searchsorted(sums, aim[:, None], right=True)[:, 0]


def _draw_nucleus(probabilities: Tensor, top_p: Tensor, uniform: Tensor) -> Tensor:
    ordered, index = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.where(before < top_p[:, None], ordered, 0.0)
    return index.gather(-1, _draw(kept.cumsum(-1), uniform)[:, None])[:, 0]
