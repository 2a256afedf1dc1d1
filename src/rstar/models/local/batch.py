"""Continuous batching: the assignment of samples to cache rows, and what each model step computes.

`Batch` is synchronous and single-threaded. `admit` reserves rows for samples of waiting jobs, `start` computes their
prompts, `step` generates one token for every sample in the batch, and finished jobs collect in `ended`.

Tensor shapes are bounded: rows are multiples of `ROW_STEP`, prompt lengths are taken from `PROMPT_STEPS`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rstar.models.decoder import Decoder
from rstar.models.engine import Completion, Request, StopReason
from rstar.models.local.cached_decoder import ROW_STEP, CachedDecoder
from rstar.models.local.prefix import PromptRing
from rstar.models.local.sampling import choose, stream_key, uniforms
from rstar.models.local.tokens import TokenText

PROMPT_ROWS = 8
"""Maximum number of prompts per forward call."""
PROMPT_STEPS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Padded prompt lengths in tokens; longer prompts take several calls."""

Ids = npt.NDArray[np.int32]


class Job:
    """A request in progress, and its finished completions."""

    def __init__(self, request: Request, limit: int) -> None:
        """`limit` is the request's max_tokens, capped by the room left in the context."""
        self.request, self.limit = request, limit
        self.stop = tuple(string.encode() for string in request.stop)
        self.completions: list[Completion | None] = [None] * request.n
        self.started = 0
        self.cancelled = False

    def results(self) -> list[Completion]:
        """All completions, once every sample has ended."""
        return [completion for completion in self.completions if completion is not None]


@dataclass(slots=True, eq=False)
class _Sample:
    """A completion being generated."""

    job: Job
    index: int
    version: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)


class _Prompt(NamedTuple):
    job: Job
    samples: int
    ids: Ids


class _Rows:
    """Per-row state as arrays (rows,). Free rows are all zeros."""

    def __init__(self, rows: int) -> None:
        self.last = np.zeros(rows, np.int64)
        """Next input token."""
        self.lengths = np.zeros(rows, np.int64)
        """Tokens held in the cache."""
        self.keys = np.zeros(rows, np.uint64)
        """Random stream key."""
        self.temperature = np.zeros(rows, np.float32)
        self.top_p = np.zeros(rows, np.float32)

    def put(self, row: int, other: _Rows, other_row: int) -> None:
        for name, values in vars(self).items():
            values[row] = vars(other)[name][other_row]

    def clear(self, row: int) -> None:
        for values in vars(self).values():
            values[row] = 0


class Batch:
    """Up to `size` samples in the first rows of the model's cache; the prompt `ring` takes the rows behind them."""

    def __init__(self, model: CachedDecoder, ring: PromptRing, tokens: TokenText, size: int) -> None:
        """Create an empty batch; `size` is a multiple of `ROW_STEP`."""
        self.model, self.ring, self.tokens, self.size = model, ring, tokens, size
        self.version = 0
        self.clear()

    def clear(self) -> None:
        """Drop all samples."""
        self.ended: list[Job] = []
        self._samples: list[_Sample | None] = [None] * self.size
        self._rows = _Rows(self.size)
        self._active = 0

    @property
    def busy(self) -> bool:
        """Whether any sample is being generated."""
        return self._active > 0

    def load(self, decoder: Decoder, version: int) -> None:
        """Load the weights of `decoder`; the batch must not be busy."""
        self.version = version
        self.model.load(decoder)
        self.ring.clear()

    def drop_cancelled(self) -> None:
        """Free the rows of cancelled jobs."""
        for row, sample in enumerate(self._samples):
            if sample is not None and sample.job.cancelled:
                self._free(row)

    def admit(self, waiting: deque[Job]) -> list[tuple[Job, int]]:
        """Admit waiting jobs while rows are free: (job, number of its samples to `start`).

        Jobs with all samples admitted, and cancelled ones, leave `waiting`.
        """
        free = self.size - self._active
        admitted: list[tuple[Job, int]] = []
        while waiting and free:
            job = waiting[0]
            count = 0 if job.cancelled else min(free, job.request.n - job.started)
            if count:
                admitted.append((job, count))
                free -= count
            if job.cancelled or job.started + count == job.request.n:
                waiting.popleft()
        return admitted

    def start(self, admitted: list[tuple[Job, int]]) -> None:
        """Compute the prompts of admitted jobs and the first tokens of their samples."""
        prompts = [_Prompt(job, count, np.array(job.request.context.ids, np.int32)) for job, count in admitted]
        # Group prompts of similar length to reduce padding.
        prompts.sort(key=lambda prompt: len(prompt.ids) - self._reusable(prompt.ids)[1])
        for start in range(0, len(prompts), PROMPT_ROWS):
            group = prompts[start : start + PROMPT_ROWS]
            first = self.ring.take(len(group))
            for i, logits in enumerate(self._compute(first, [prompt.ids for prompt in group])):
                self.ring.hold(first + i, group[i].ids)
                self._start_samples(group[i], first + i, logits)

    def step(self) -> None:
        """Generate one token for every sample in the batch."""
        self._compact()
        top = self._top()
        if not top:
            return
        rows, computed = self._rows, top + -top % ROW_STEP
        last, lengths = torch.from_numpy(rows.last[:computed, None]), torch.from_numpy(rows.lengths[:computed])
        logits = self.model.forward(0, last, lengths)[:top]
        rows.lengths += rows.lengths > 0
        for row, (token, logprob) in enumerate(self._choose(logits, rows)):
            sample = self._samples[row]
            if sample is None:
                continue
            rows.last[row] = token
            if self._accept(sample, token, logprob):
                self._free(row)

    def _reusable(self, ids: Ids) -> tuple[int, int]:
        """Row and length of the longest cached prefix of `ids`; the last token is always recomputed."""
        return self.ring.longest(ids[:-1])

    def _compute(self, first: int, prompts: list[Ids]) -> list[Tensor]:
        """Compute `prompts` into the cache rows starting at `first`; returns the next-token logits (V,) of each."""
        starts = np.zeros(len(prompts), np.int64)
        for i, ids in enumerate(prompts):
            source, starts[i] = self._reusable(ids)
            self.model.copy(source, first + i, int(starts[i]))
        logits: list[Tensor] = [torch.empty(0)] * len(prompts)
        left = np.array([len(ids) for ids in prompts]) - starts
        while (left > 0).any():
            width = next((step for step in PROMPT_STEPS if step >= left.max()), PROMPT_STEPS[-1])
            block = np.zeros((len(prompts), width), np.int64)
            for i, ids in enumerate(prompts):
                part = ids[starts[i] : starts[i] + width]
                block[i, : len(part)] = part
            last = torch.from_numpy(np.clip(left, 1, width) - 1)
            computed = self.model.forward(first, torch.from_numpy(block), torch.from_numpy(starts), last)
            for row in np.flatnonzero((left > 0) & (left <= width)):
                logits[row] = computed[row]
            # Rows of finished prompts write padding behind their last token.
            starts, left = starts + np.clip(left, 0, width), left - width
        return logits

    def _start_samples(self, prompt: _Prompt, source: int, logits: Tensor) -> None:
        """Choose the first token of a prompt's samples; unfinished samples get a row."""
        job, length = prompt.job, len(prompt.ids)
        indices = range(job.started, job.started + prompt.samples)
        job.started += prompt.samples
        new = _Rows(prompt.samples)
        new.temperature[:], new.top_p[:] = job.request.temperature, job.request.top_p
        new.keys[:] = [stream_key(job.request.seed, index) for index in indices]
        new.lengths[:] = length
        for i, (token, logprob) in enumerate(self._choose(logits.expand(prompt.samples, -1), new)):
            new.last[i] = token
            sample = _Sample(job, indices[i], self.version)
            if not self._accept(sample, token, logprob):
                row = self._samples.index(None)
                self.model.copy(source, row, length)
                self._samples[row] = sample
                self._rows.put(row, new, i)
                self._active += 1

    def _choose(self, logits: Tensor, rows: _Rows) -> list[tuple[int, float]]:
        """Choose a token, with its log-probability, for position `lengths` of each row of `logits`."""
        count = len(logits)
        settings = (rows.temperature, rows.top_p, uniforms(rows.keys, rows.lengths))
        tokens, logprobs = choose(logits, *(torch.from_numpy(values[:count]) for values in settings))
        return list(zip(tokens.tolist(), logprobs.tolist(), strict=True))

    def _accept(self, sample: _Sample, token: int, logprob: float) -> bool:
        """Append a token to `sample`; returns whether the sample has ended."""
        job, data = sample.job, sample.data
        before = len(data)
        data += self.tokens.piece(token)
        ends = [
            (at + len(string), string)
            for string in job.stop
            if (at := data.find(string, max(0, before - len(string) + 1))) >= 0
        ]
        if token in self.tokens.eos_ids and not ends:
            del data[before:]
            self._end(sample, "eos", None)
            return True
        sample.ids.append(token)
        sample.logprobs.append(logprob)
        if ends:
            end, string = min(ends)
            del data[end:]
            self._end(sample, "stop", string.decode())
        elif len(sample.ids) >= job.limit:
            self._end(sample, "length", None)
        else:
            return False
        return True

    def _end(self, sample: _Sample, reason: StopReason, stop: str | None) -> None:
        job = sample.job
        text = sample.data.decode(errors="replace")
        job.completions[sample.index] = Completion(
            text, tuple(sample.ids), tuple(sample.logprobs), reason, stop, version=sample.version
        )
        if None not in job.completions:
            self.ended.append(job)

    def _free(self, row: int) -> None:
        self._samples[row] = None
        self._rows.clear(row)
        self._active -= 1

    def _top(self) -> int:
        """One past the last row in use."""
        return max((row + 1 for row, sample in enumerate(self._samples) if sample is not None), default=0)

    def _compact(self) -> None:
        """Move samples from the last rows into free ones while that saves computing `ROW_STEP` rows."""
        while (top := self._top()) > self._active + -self._active % ROW_STEP:
            free = self._samples.index(None)
            self.model.copy(top - 1, free, int(self._rows.lengths[top - 1]))
            self._rows.put(free, self._rows, top - 1)
            self._samples[free], self._samples[top - 1] = self._samples[top - 1], None
            self._rows.clear(top - 1)
