"""Fair queue: clients take turns, so no client waits for another's whole backlog.

Urgent calls and session cells go before patient calls, which get one turn in four. A client's calls are ordered by
deadline, earliest first. A client with enough running jobs is skipped.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from rstar.judge.queue.jobs import Job

SOON_SECONDS = 60.0
"""Calls that must begin within this time are urgent."""

_PATIENT_TURN = 4
_MOST_DISCARDED = 100

_Lane = OrderedDict[str, list[tuple[float, int, Job]]]


class FairQueue:
    """Waiting jobs.

    Args:
        has_enough: whether to skip a client until `resume` is called.
    """

    def __init__(self, has_enough: Callable[[str], bool] = lambda client: False) -> None:
        self._has_enough = has_enough
        self._soon, self._patient = _Lane(), _Lane()
        self._passed: tuple[tuple[_Lane, _Lane], ...] = ((self._soon, _Lane()), (self._patient, _Lane()))
        self._numbers = itertools.count()
        self._turns = 0
        self._jobs: dict[str, Job] = {}
        self._discarded = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def push(self, job: Job) -> None:
        """Add a job of `Job.client`."""
        soon = job.kind == "cell" or job.expires - time.time() < SOON_SECONDS
        lane, passed = self._passed[not soon]
        clients = passed if job.client in passed else lane
        heapq.heappush(clients.setdefault(job.client, []), (job.expires, next(self._numbers), job))
        self._jobs[job.id] = job

    def discard(self, name: str) -> None:
        """Cancel a job and free its contents."""
        if (job := self._jobs.pop(name, None)) is not None:
            job.clear()
            self._discarded += 1
            if self._discarded > _MOST_DISCARDED + len(self._jobs):
                self._tidy()

    def _tidy(self) -> None:
        """Remove discarded jobs from the heaps."""
        for clients in itertools.chain.from_iterable(self._passed):
            for client, heap in list(clients.items()):
                heap[:] = [entry for entry in heap if entry[2].id in self._jobs]
                heapq.heapify(heap)
                if not heap:
                    del clients[client]
        self._discarded = 0

    def pop(self) -> Job | None:
        """Take the next job; None if there is none, or only of skipped clients."""
        turn = self._turns + 1
        while self._soon or self._patient:
            patient_first = not self._soon or (self._patient and turn % _PATIENT_TURN == 0)
            lane, passed = self._passed[bool(patient_first)]
            client, heap = lane.popitem(last=False)
            if self._has_enough(client):
                passed[client] = heap
                continue
            job = heapq.heappop(heap)[2]
            if job.id not in self._jobs:
                self._discarded -= 1
                if heap:
                    lane[client] = heap
                    lane.move_to_end(client, last=False)
                continue
            if heap:
                lane[client] = heap
            del self._jobs[job.id]
            self._turns = turn
            return job
        return None

    def resume(self) -> None:
        """Reconsider the skipped clients."""
        for lane, passed in self._passed:
            lane.update(passed)
            passed.clear()

    def expired(self, now: float) -> Iterator[Job]:
        """Remove and yield the jobs past their deadline."""
        for clients in itertools.chain.from_iterable(self._passed):
            for client in [client for client, heap in clients.items() if heap[0][0] < now]:
                heap = clients[client]
                while heap and heap[0][0] < now:
                    job = heapq.heappop(heap)[2]
                    if self._jobs.pop(job.id, None) is not None:
                        yield job
                    else:
                        self._discarded -= 1
                if not heap:
                    del clients[client]
