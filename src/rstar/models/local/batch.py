"""Continuous batching: which sample lies in which cache row, and what each step of the model computes.

`Batch` is synchronous and knows no threads: `admit` finds room for samples of waiting jobs, `start` computes their
prompts, `step` gives every sample in the batch one more token, and jobs whose samples have all ended gather in `ended`.

Shapes are bounded: rows in steps of `ROW_STEP`, prompts in the lengths of `PROMPT_STEPS`.
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
"""Most prompts that are computed in one call."""
PROMPT_STEPS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Numbers of tokens by which prompts are computed; longer ones take several calls."""

Ids = npt.NDArray[np.int32]


class Job:
    """A request on its way, and its completions as they end."""

    def __init__(self, request: Request, limit: int) -> None:
        """`limit` is the request's max_tokens as far as the context leaves room."""
        self.request, self.limit = request, limit
        self.stop = tuple(string.encode() for string in request.stop)
        self.completions: list[Completion | None] = [None] * request.n
        self.started = 0
        self.cancelled = False

    def results(self) -> list[Completion]:
        """All completions, once they have ended."""
        return [completion for completion in self.completions if completion is not None]


@dataclass(slots=True, eq=False)
class _Sample:
    """A completion being written."""

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
    """What the model needs to know of each row, as arrays (rows,). Free rows are all zeros."""

    def __init__(self, rows: int) -> None:
        self.last = np.zeros(rows, np.int64)
        """The token to be fed next."""
        self.lengths = np.zeros(rows, np.int64)
        """Tokens of the sequence that the cache holds."""
        self.keys = np.zeros(rows, np.uint64)
        """Random stream."""
        self.temperature = np.zeros(rows, np.float32)
        self.top_p = np.zeros(rows, np.float32)

    def put(self, row: int, other: _Rows, other_row: int) -> None:
        for name, values in vars(self).items():
            values[row] = vars(other)[name][other_row]

    def clear(self, row: int) -> None:
        for values in vars(self).values():
            values[row] = 0


class Batch:
    """At most `size` samples in the first rows of a model's cache, the `ring` of prompts behind them."""

    def __init__(self, model: CachedDecoder, ring: PromptRing, tokens: TokenText, size: int) -> None:
        """An empty batch; `size` is a multiple of `ROW_STEP`."""
        self.model, self.ring, self.tokens, self.size = model, ring, tokens, size
        self.version = 0
        self.clear()

    def clear(self) -> None:
        """Forget every sample."""
        self.ended: list[Job] = []
        self._samples: list[_Sample | None] = [None] * self.size
        self._rows = _Rows(self.size)
        self._active = 0

    @property
    def busy(self) -> bool:
        """Some sample is being written."""
        return self._active > 0

    def load(self, decoder: Decoder, version: int) -> None:
        """Take the weights of `decoder`; the batch must not be busy."""
        self.version = version
        self.model.load(decoder)
        self.ring.clear()

    def drop_cancelled(self) -> None:
        """Free the rows of cancelled jobs."""
        for row, sample in enumerate(self._samples):
            if sample is not None and sample.job.cancelled:
                self._free(row)

    def admit(self, waiting: deque[Job]) -> list[tuple[Job, int]]:
        """Jobs of `waiting` for which rows are free, and how many of their samples; for `start`.

        Jobs that will have started completely leave `waiting`.
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
        # Prompts of about the same length in one call: less padding.
        prompts.sort(key=lambda prompt: len(prompt.ids) - self._reusable(prompt.ids)[1])
        for start in range(0, len(prompts), PROMPT_ROWS):
            group = prompts[start : start + PROMPT_ROWS]
            first = self.ring.take(len(group))
            for i, logits in enumerate(self._compute(first, [prompt.ids for prompt in group])):
                self.ring.hold(first + i, group[i].ids)
                self._start_samples(group[i], first + i, logits)

    def step(self) -> None:
        """One token for every sample in the batch."""
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
        """Row and length of the longest prefix that need not be computed; the last token always is."""
        return self.ring.longest(ids[:-1])

    def _compute(self, first: int, prompts: list[Ids]) -> list[Tensor]:
        """Compute `prompts` into the cache rows from `first` on: the logits (V,) behind each."""
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
            # The row of a prompt that has ended idles behind its last token.
            starts, left = starts + np.clip(left, 0, width), left - width
        return logits

    def _start_samples(self, prompt: _Prompt, source: int, logits: Tensor) -> None:
        """The first tokens of a prompt's samples; samples that go on get a row."""
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
        """A token and its log-probability for each row of `logits`, to stand at position `lengths` of its context."""
        count = len(logits)
        settings = (rows.temperature, rows.top_p, uniforms(rows.keys, rows.lengths))
        tokens, logprobs = choose(logits, *(torch.from_numpy(values[:count]) for values in settings))
        return list(zip(tokens.tolist(), logprobs.tolist(), strict=True))

    def _accept(self, sample: _Sample, token: int, logprob: float) -> bool:
        """Add a token to `sample`; True when the sample has ended with it."""
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
        """One more than the last row in use."""
        return max((row + 1 for row, sample in enumerate(self._samples) if sample is not None), default=0)

    def _compact(self) -> None:
        """Move samples from the last rows into free ones while that saves computing `ROW_STEP` rows."""
        while (top := self._top()) > self._active + -self._active % ROW_STEP:
            free = self._samples.index(None)
            self.model.copy(top - 1, free, int(self._rows.lengths[top - 1]))
            self._rows.put(free, self._rows, top - 1)
            self._samples[free], self._samples[top - 1] = self._samples[top - 1], None
            self._rows.clear(top - 1)
