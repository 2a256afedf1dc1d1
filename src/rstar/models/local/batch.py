"""Continuous batching: the assignment of samples to cache rows, and what each model step computes.

`Batch` is synchronous and single-threaded. `admit` takes waiting jobs, `start` computes their prompts, `step` generates
one token for every sample in the batch, and finished jobs collect in `ended`.

Samples that start together from equal contexts share a row as long as their tokens are equal: a *branch*. Each sample
draws from its own random stream, so it gets the tokens that it would get alone; where they differ, the branch splits. A
branch without a free row pauses and later continues from its tokens.

The prompts of jobs, and the rows of samples that have ended, are held (`rstar.models.local.prompts`), so a request that
continues one of them computes only the tokens behind it.

A request can name completions that it need not get again. Then at every token the probability of those that go on with
it is taken away, so the sample is drawn from the others (sampling without replacement).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rstar.models.decoder import Decoder
from rstar.models.engine import Completion, Request, StopReason
from rstar.models.local.cached_decoder import ROW_STEP, CachedDecoder
from rstar.models.local.prompts import Prompts
from rstar.models.local.sampling import Taken, choose, stream_key, uniforms
from rstar.models.local.tokens import TokenText

Ids = npt.NDArray[np.int32]


class Job:
    """A request in progress, and its finished completions."""

    def __init__(self, request: Request, limit: int) -> None:
        """`limit` is the request's max_tokens, capped by the room left in the context."""
        self.request, self.limit = request, limit
        self.stop = tuple(string.encode() for string in request.stop)
        self.completions: list[Completion | None] = [None] * request.n
        self.missing = request.n
        self.cancelled = False

    def results(self) -> list[Completion]:
        """All completions, once every sample has ended."""
        return [completion for completion in self.completions if completion is not None]

    @property
    def rows(self) -> int:
        """Estimated number of rows that its samples take; half of them share a row with another."""
        return -(-self.request.n // 2) if self.request.temperature > 0 else 1


class _Member(NamedTuple):
    """A sample of a job: its number, and the key of its random stream."""

    job: Job
    number: int
    key: int


@dataclass(slots=True, eq=False)
class _Branch:
    """Samples with equal contexts and settings, and the same tokens so far.

    Attributes:
        version: of the weights.
        members: at least one.
        ids, logprobs, data: tokens, their log-probabilities and their text.
        known: completions that begin with the tokens so far and must not come again: the rest of their tokens, and the
            log-probability of the rest from each of its tokens on.
    """

    version: int
    members: list[_Member]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)
    known: list[tuple[tuple[int, ...], tuple[float, ...]]] = field(default_factory=list)

    @property
    def job(self) -> Job:
        """A job whose context and settings are those of all members."""
        return self.members[0].job

    @property
    def context(self) -> Ids:
        """Ids of the context and of the tokens so far."""
        return np.array((*self.job.request.context.ids, *self.ids), np.int32)

    def part(self, members: list[_Member]) -> _Branch:
        """A copy with other members."""
        return _Branch(self.version, members, self.ids.copy(), self.logprobs.copy(), self.data.copy(), self.known)


class _Rows:
    """Per-row state as arrays (rows,). Free rows are all zeros."""

    def __init__(self, rows: int) -> None:
        self.last = np.zeros(rows, np.int64)
        """Next input token."""
        self.lengths = np.zeros(rows, np.int64)
        """Tokens held in the cache."""

    def clear(self, row: int) -> None:
        self.last[row] = self.lengths[row] = 0

    def move(self, source: int, target: int) -> None:
        self.last[target], self.lengths[target] = self.last[source], self.lengths[source]
        self.clear(source)


class Batch:
    """Branches in the first `size` rows of the model's cache; `prompts` has the rows behind them."""

    def __init__(self, model: CachedDecoder, prompts: Prompts, tokens: TokenText, size: int) -> None:
        """Create an empty batch; `size` is a multiple of `ROW_STEP`."""
        self.model, self.prompts, self.tokens, self.size = model, prompts, tokens, size
        self.version = 0
        self.clear()

    def clear(self) -> None:
        """Drop all samples."""
        self.ended: list[Job] = []
        self._branches: list[_Branch | None] = [None] * self.size
        self._paused: deque[_Branch] = deque()
        self._rows = _Rows(self.size)
        self._active = 0

    @property
    def busy(self) -> bool:
        """Whether any sample is being generated."""
        return self._active > 0 or bool(self._paused)

    def load(self, decoder: Decoder, version: int) -> None:
        """Load the weights of `decoder`; the batch must not be busy."""
        self.version = version
        self.model.load(decoder)
        self.prompts.clear()

    def drop_cancelled(self) -> None:
        """Free the rows of cancelled jobs."""
        for branch in (*self._branches, *self._paused):
            if branch is not None and any(member.job.cancelled for member in branch.members):
                branch.members = [member for member in branch.members if not member.job.cancelled]
        for row, branch in enumerate(self._branches):
            if branch is not None and not branch.members:
                self._free(row)
        self._paused = deque(branch for branch in self._paused if branch.members)

    def admit(self, waiting: deque[Job]) -> list[Job]:
        """Take jobs to `start` from `waiting`, as many as probably find rows. Paused branches come first."""
        free = self.size - self._active - len(self._paused)
        admitted: list[Job] = []
        while waiting and (waiting[0].cancelled or free > 0):
            job = waiting.popleft()
            if not job.cancelled:
                admitted.append(job)
                free -= job.rows
        return admitted

    def start(self, admitted: Sequence[Job]) -> None:
        """Compute the prompts of paused branches and of admitted jobs, and the first tokens of their samples."""
        resumed = [self._paused.popleft() for _ in range(min(len(self._paused), self.size - self._active))]
        prompts: list[tuple[_Branch, Ids]] = []
        for branch in (*resumed, *self._joined(admitted)):
            ids = branch.context
            source, held = self.prompts.longest(ids)
            if 0 < held == len(ids) - 1 and self._active < self.size:  # the next step computes its last token
                self._place(branch, source, held, int(ids[-1]))
            else:
                prompts.append((branch, ids))
        for group in self.prompts.groups(prompts, key=lambda prompt: prompt[1]):
            first, hidden = self.prompts.compute([ids for _, ids in group])
            lengths = np.array([len(ids) for _, ids in group])
            chosen = self._choose([branch for branch, _ in group], self.model.logits(hidden)[: len(group)], lengths)
            for i, ((branch, ids), drawn) in enumerate(zip(group, chosen, strict=True)):
                self._advance(branch, drawn, first + i, len(ids), own=False)

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
        used = [row for row in range(top) if self._branches[row] is not None]
        branches = [branch for branch in self._branches[:top] if branch is not None]
        chosen = self._choose(branches, logits if len(used) == top else logits[used], rows.lengths[used])
        for row, branch, drawn in zip(used, branches, chosen, strict=True):
            self._advance(branch, drawn, row, int(rows.lengths[row]), own=True)

    def _joined(self, jobs: Sequence[Job]) -> list[_Branch]:
        """Branches of new jobs: one for all that have equal contexts and settings."""
        branches: dict[tuple[object, ...], _Branch] = {}
        for job in jobs:
            request = job.request
            known = _rests(request)
            alike = (request.context.ids, request.temperature, request.top_p, request.stop, job.limit, tuple(known))
            members = [
                _Member(job, number, stream_key(request.seed, request.first + number)) for number in range(request.n)
            ]
            branches.setdefault(alike, _Branch(self.version, [], known=known)).members += members
        return list(branches.values())

    def _choose(
        self, branches: Sequence[_Branch], logits: Tensor, lengths: npt.NDArray[np.int64]
    ) -> list[tuple[list[int], list[float]]]:
        """Tokens and log-probabilities of the members of each branch, at position `lengths` of each row of `logits`."""
        sizes = [len(branch.members) for branch in branches]
        row_of = np.repeat(np.arange(len(branches)), sizes)
        keys = np.array([member.key for branch in branches for member in branch.members], np.uint64)
        numbers = uniforms(keys, lengths[row_of])
        temperature = torch.tensor([branch.job.request.temperature for branch in branches])
        top_p = torch.tensor([branch.job.request.top_p for branch in branches])
        draws, rows = torch.from_numpy(numbers), torch.from_numpy(row_of)
        tokens, logprobs = choose(logits, temperature, top_p, draws, rows, _taken(branches))
        ends = np.cumsum(sizes).tolist()
        all_tokens, all_logprobs = tokens.tolist(), logprobs.tolist()
        spans = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        return [(all_tokens[span], all_logprobs[span]) for span in spans]

    def _advance(
        self, branch: _Branch, drawn: tuple[list[int], list[float]], source: int, length: int, own: bool
    ) -> None:
        """Append their next tokens to the members of a branch, which splits where they differ.

        Args:
            branch: its members have the same tokens so far.
            drawn: the next token of each member, and its log-probability.
            source: cache row that holds the branch's context.
            length: of that context, in tokens.
            own: `source` is the branch's own row, which one of its parts keeps; otherwise it holds a prompt.
        """
        tokens, logprobs = drawn
        parts = [(branch, tokens[0], logprobs[0])]
        if any(token != tokens[0] for token in tokens):
            of_token: dict[int, list[_Member]] = {}
            for member, token in zip(branch.members, tokens, strict=True):
                of_token.setdefault(token, []).append(member)
            parts = [(branch.part(of), token, logprobs[tokens.index(token)]) for token, of in of_token.items()]
        going_on = [(part, token) for part, token, logprob in parts if not self._accept(part, token, logprob)]
        if own and len(going_on) < len(parts):
            self._hold(branch, source, length)
        if own and not going_on:
            self._free(source)
        for number, (part, token) in enumerate(going_on):
            if own and number == 0:
                self._branches[source], self._rows.last[source] = part, token
            elif self._active < self.size:
                self._place(part, source, length, token)
            else:
                self._paused.append(part)

    def _place(self, branch: _Branch, source: int, length: int, last: int) -> None:
        """Give a branch a free row, with the first `length` positions of row `source`; `last` is its next input."""
        row = self._free_row()
        self.model.copy(source, row, 0, length)
        self._branches[row] = branch
        self._rows.last[row], self._rows.lengths[row] = last, length
        self._active += 1

    def _free_row(self) -> int:
        """The first row that is not in use."""
        return next(row for row, branch in enumerate(self._branches) if branch is None)

    def _hold(self, branch: _Branch, row: int, length: int) -> None:
        """Hold the first `length` tokens of a branch, which are in `row`, as a prompt."""
        self.prompts.hold(row, branch.context[:length])

    def _accept(self, branch: _Branch, token: int, logprob: float) -> bool:
        """Append a token to the samples of `branch`; returns whether they have ended."""
        job, data = branch.job, branch.data
        before = len(data)
        data += self.tokens.piece(token)
        ends = [
            (at + len(string), string)
            for string in job.stop
            if (at := data.find(string, max(0, before - len(string) + 1))) >= 0
        ]
        if token in self.tokens.eos_ids and not ends:
            del data[before:]
            self._end(branch, "eos", None, (token, logprob))
            return True
        branch.ids.append(token)
        branch.logprobs.append(logprob)
        branch.known = [(ids[1:], sums[1:]) for ids, sums in branch.known if len(ids) > 1 and ids[0] == token]
        if ends:
            end, string = min(ends)
            del data[end:]
            self._end(branch, "stop", string.decode())
        elif len(branch.ids) >= job.limit:
            self._end(branch, "length", None)
        else:
            return False
        return True

    def _end(self, branch: _Branch, reason: StopReason, stop: str | None, end: tuple[int, float] | None = None) -> None:
        text, ids, logprobs = branch.data.decode(errors="replace"), tuple(branch.ids), tuple(branch.logprobs)
        completion = Completion(text, ids, logprobs, reason, stop, version=branch.version, end=end)
        for job, number, _ in branch.members:
            job.completions[number] = completion
            job.missing -= 1
            if not job.missing:
                self.ended.append(job)

    def _free(self, row: int) -> None:
        self._branches[row] = None
        self._rows.clear(row)
        self._active -= 1

    def _top(self) -> int:
        """One past the last row in use."""
        return max((row + 1 for row, branch in enumerate(self._branches) if branch is not None), default=0)

    def _compact(self) -> None:
        """Move branches from the last rows into free ones while that saves computing `ROW_STEP` rows."""
        while (top := self._top()) > self._active + -self._active % ROW_STEP:
            length = int(self._rows.lengths[top - 1])
            free = self._free_row()
            self.model.copy(top - 1, free, 0, length)
            self._rows.move(top - 1, free)
            self._branches[free], self._branches[top - 1] = self._branches[top - 1], None


def _rests(request: Request) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """The known completions of a request as in `_Branch.known`; none if the request cannot avoid them."""
    if request.temperature != 1.0 or request.top_p < 1.0:
        return []
    rests = []
    for completion in request.known:
        ids, logprobs = completion.ids, completion.logprobs
        if completion.end is not None:
            ids, logprobs = (*ids, completion.end[0]), (*logprobs, completion.end[1])
        if ids and len(ids) == len(logprobs) and (completion.end is not None or completion.stop_reason != "eos"):
            rests.append((ids, tuple(accumulate(reversed(logprobs)))[::-1]))
    return rests


def _taken(branches: Sequence[_Branch]) -> Taken | None:
    """What the next tokens of each branch must not take for its known completions."""
    found = [(row, ids[0], math.exp(sums[0])) for row, branch in enumerate(branches) for ids, sums in branch.known]
    if not found:
        return None
    rows, tokens, probabilities = zip(*found, strict=True)
    return Taken(torch.tensor(rows), torch.tensor(tokens), torch.tensor(probabilities, dtype=torch.float32))
