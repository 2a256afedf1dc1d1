"""Batched scoring with a process preference model.

On an accelerator, waiting problems are batched. On a CPU each is scored alone, so that the last bits of a score, which
can change the course of a search, do not depend on the other problems waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from rstar.models.decoder_files import read_tokenizer
from rstar.models.device import few_threads, open_device, resolve_device
from rstar.models.ppm.inputs import Row, SolutionEncoder, collate_rows, join, pieces
from rstar.models.ppm.model import load_ppm
from rstar.trajectories import Step


@dataclass(slots=True, eq=False)
class _Queued:
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
        self.model = load_ppm(folder, getattr(torch, dtype), device)
        self.encoder = SolutionEncoder(tokenizer, self.model.inputs)
        self._batch_tokens = 0 if device == "cpu" else batch_tokens
        # A dedicated thread, because torch's thread count is a setting of the calling thread.
        self._thread = ThreadPoolExecutor(1, "rstar-ppm")
        self._queue: list[_Queued] = []
        self._worker: asyncio.Task[None] | None = None

    async def score(self, prompt: str, solutions: Sequence[Sequence[Step]]) -> list[float | None]:
        """Score each solution of a problem at its last step, in [-1, 1]; None if it is too long."""
        encoded = [self.encoder.encode(prompt, pieces(steps)) for steps in solutions]
        fits = [n for n, solution in enumerate(encoded) if len(solution) <= self.model.config.max_position_embeddings]
        scores: list[float | None] = [None] * len(encoded)
        if fits:
            queued = _Queued(join([encoded[n] for n in fits]), asyncio.get_running_loop().create_future())
            self._queue.append(queued)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.create_task(self._score_queued())
            for n, score in zip(fits, await queued.scores, strict=True):
                scores[n] = score
        return scores

    async def _score_queued(self) -> None:
        while self._queue:
            batch = self._next_batch()
            try:
                rows = [request.row for request in batch]
                scores = await asyncio.get_running_loop().run_in_executor(self._thread, self.score_rows, rows)
            except Exception as error:
                for queued in batch:
                    if not queued.scores.done():
                        queued.scores.set_exception(error)
                continue
            for queued, row_scores in zip(batch, scores, strict=True):
                if not queued.scores.done():
                    queued.scores.set_result(row_scores)

    def _next_batch(self) -> list[_Queued]:
        """Take the next batch from the queue: as many as fit, in order."""
        count, longest = 1, len(self._queue[0].row)
        for queued in self._queue[1:]:
            longest = max(longest, len(queued.row))
            if longest * (count + 1) > self._batch_tokens:
                break
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        return batch

    @torch.inference_mode()
    def score_rows(self, rows: Sequence[Row]) -> list[list[float]]:
        """Score the solutions of each row in one forward pass, in this thread."""
        with few_threads(self.model):
            scores = iter(self.model(collate_rows(rows).to(self.model.device)).tolist())
        return [list(islice(scores, len(row.trie.last))) for row in rows]
