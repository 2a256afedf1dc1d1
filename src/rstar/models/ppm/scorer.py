"""Scoring with a process preference model during a search.

The model's cache holds earlier solutions (`rstar.models.local.prompts`), so a solution that continues one costs only
its new step. Problems that wait are computed together. In float32 on a CPU this changes no bit of a score
(`rstar.models.local.cached_decoder`), so the course of a search does not depend on the other problems.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rstar.models.decoder_files import read_tokenizer
from rstar.models.device import few_threads, open_device, resolve_device
from rstar.models.local.cached_decoder import ROW_STEP, CachedDecoder
from rstar.models.local.prefix import Ids
from rstar.models.local.prompts import GROUP, Prompts
from rstar.models.ppm.inputs import NUMBERS, Encoded, SolutionEncoder, features_of, pieces
from rstar.models.ppm.model import load_ppm
from rstar.trajectories import Step

CACHE_BYTES, MAX_ROWS = 1 << 30, 256
"""Most memory, and most rows, of the cache of earlier solutions; it always has room for two groups."""


@dataclass(slots=True, eq=False)
class _Queued:
    solutions: list[Encoded]
    scores: asyncio.Future[list[float]]


class Scorer:
    """A PPM and its tokenizer.

    Args:
        folder: written by `rstar.models.ppm.model.save_ppm`, with the policy's tokenizer.
        device: a torch device, or ``auto``: an accelerator if available.

    Raises:
        ConfigError: the folder has no PPM or no tokenizer, or the device does not exist.
    """

    def __init__(self, folder: Path, device: str = "auto") -> None:
        tokenizer = read_tokenizer(folder)
        device, dtype_name = resolve_device(device, "auto")
        place, dtype = open_device(device), getattr(torch, dtype_name)
        self.model = load_ppm(folder, dtype, device)
        self.encoder = SolutionEncoder(tokenizer, self.model.inputs)
        config = self.model.config
        per_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * dtype.itemsize
        affordable = CACHE_BYTES // (per_token * config.max_position_embeddings)
        rows = max(2 * GROUP, min(MAX_ROWS, affordable))
        cached = CachedDecoder(self.model.backbone, rows, dtype, place)
        self._prompts = Prompts(cached, 0, rows)
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
            queued = _Queued([encoded[n] for n in fits], asyncio.get_running_loop().create_future())
            self._queue.append(queued)
            if self._worker is None or self._worker.done():
                self._worker = asyncio.create_task(self._score_queued())
            for n, score in zip(fits, await queued.scores, strict=True):
                scores[n] = score
        return scores

    async def _score_queued(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            solutions = [solution for queued in batch for solution in queued.solutions]
            try:
                scores = await asyncio.get_running_loop().run_in_executor(self._thread, self.compute, solutions)
            except Exception as error:
                for queued in batch:
                    if not queued.scores.done():
                        queued.scores.set_exception(error)
                continue
            left = iter(scores)
            for queued in batch:
                own = [next(left) for _ in queued.solutions]
                if not queued.scores.done():
                    queued.scores.set_result(own)

    @torch.inference_mode()
    def compute(self, solutions: Sequence[Encoded]) -> list[float]:
        """Score encoded solutions, in this thread."""
        scores = [0.0] * len(solutions)
        keys = [_keys(solution) for solution in solutions]
        with few_threads(self.model):
            for group in self._prompts.groups(range(len(solutions)), key=keys.__getitem__):
                tokens = [np.asarray(solutions[number].ids, np.int32) for number in group]
                added = [self._added(solutions[number]) for number in group]
                _, states = self._prompts.compute([keys[number] for number in group], tokens, added)
                found = torch.tanh((states.float() * self.model.score.weight.float()).sum(-1)).tolist()
                for number, score in zip(group, found, strict=False):
                    scores[number] = score
        return scores

    def _added(self, solution: Encoded) -> Tensor | None:
        """What the optional inputs add to the token embeddings: (T, D); None without such inputs."""
        features, numbers = torch.from_numpy(features_of(solution)), torch.tensor(solution.numbers)
        padded = F.pad(features, (0, 0, 0, -len(features) % ROW_STEP))  # so that its length changes no bit
        added = self.model.added(padded.to(self.model.device), F.pad(numbers, (0, -len(numbers) % ROW_STEP)))
        return None if added is None else added[: len(numbers)]


def _keys(solution: Encoded) -> Ids:
    """Token and mark of each position as one number: a number's mark depends on all its digits."""
    return np.asarray(solution.ids, np.int32) * NUMBERS + np.asarray(solution.numbers, np.int32)
