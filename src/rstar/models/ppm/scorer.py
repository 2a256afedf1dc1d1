"""Batched scoring with a process preference model.

On an accelerator, waiting problems are batched. On a CPU each is scored alone, so that the last bits of a score, which
can change the course of a search, do not depend on the other problems waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from rstar.models.decoder_files import read_tokenizer
from rstar.models.device import few_threads, open_device, resolve_device
from rstar.models.ppm.inputs import Reader, Row, collate_rows, join, pieces
from rstar.models.ppm.model import load_ppm
from rstar.trajectories import Step


@dataclass(slots=True, eq=False)
class _Waiting:
    row: Row
    scores: asyncio.Future[list[float]]


class Scorer:
    """A PPM and its tokenizer.

    Args:
        folder: written by `rstar.models.ppm.model.save_ppm`, with the policy's tokenizer.
        batch_tokens: on an accelerator, maximum tokens per forward pass, padding included (a longer row runs alone).
        device: a torch device, or ``auto``: an accelerator if available.

    Raises:
        ConfigError: the folder has no PPM or no tokenizer, or the device does not exist.
    """

    def __init__(self, folder: Path, batch_tokens: int = 8192, device: str = "auto") -> None:
        tokenizer = read_tokenizer(folder)
        device, dtype = resolve_device(device, "auto")
        open_device(device)
        self._model = load_ppm(folder, getattr(torch, dtype), device)
        self._reader = Reader(tokenizer, self._model.inputs)
        self._batch_tokens = 0 if device == "cpu" else batch_tokens
        # A dedicated thread, because torch's thread count is a setting of the calling thread.
        self._thread = ThreadPoolExecutor(1, "rstar-ppm")
        self._waiting: list[_Waiting] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def reads_logprobs(self) -> bool:
        """Whether the model needs the policy's log-probabilities."""
        return "logprobs" in self._model.inputs

    async def score(self, prompt: str, solutions: Sequence[Sequence[Step]]) -> list[float | None]:
        """Score each solution of a problem at its last step, in [-1, 1]; None if it is too long."""
        encoded = [self._reader.encode(prompt, pieces(steps)) for steps in solutions]
        fits = [n for n, one in enumerate(encoded) if len(one) <= self._model.config.max_position_embeddings]
        scores: list[float | None] = [None] * len(encoded)
        if fits:
            waiting = _Waiting(join([encoded[n] for n in fits]), asyncio.get_running_loop().create_future())
            self._waiting.append(waiting)
            if self._working is None or self._working.done():
                self._working = asyncio.create_task(self._work())
            for n, score in zip(fits, await waiting.scores, strict=True):
                scores[n] = score
        return scores

    async def _work(self) -> None:
        while self._waiting:
            batch = self._take()
            try:
                rows = [one.row for one in batch]
                scores = await asyncio.get_running_loop().run_in_executor(self._thread, self._forward, rows)
            except Exception as error:
                for one in batch:
                    if not one.scores.done():
                        one.scores.set_exception(error)
                continue
            for one, found in zip(batch, scores, strict=True):
                if not one.scores.done():
                    one.scores.set_result(found)

    def _take(self) -> list[_Waiting]:
        """Take the next batch from the queue: as many as fit, in order."""
        count, longest = 1, len(self._waiting[0].row)
        for one in self._waiting[1:]:
            longest = max(longest, len(one.row))
            if longest * (count + 1) > self._batch_tokens:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    @torch.inference_mode()
    def _forward(self, rows: Sequence[Row]) -> list[list[float]]:
        batch = collate_rows(rows, 16).to(self._model.device)
        with few_threads(self._model):
            scores = self._model(batch).tolist()
        found: list[list[float]] = []
        for row in rows:
            count = len(row.trie.last)
            found.append(scores[:count])
            scores = scores[count:]
        return found
