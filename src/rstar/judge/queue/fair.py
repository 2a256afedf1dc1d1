"""The order in which waiting calls are done: clients take turns, so that nobody waits for all that another one asks.

Calls that must begin soon, and cells of sessions, go before calls that can wait. One turn in four is for the latter.
Among the calls of a client the one goes first whose time to begin runs out first. A client that has enough under way
is passed over.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from rstar.judge.queue.jobs import Job

SOON_SECONDS = 60.0
"""Calls that must begin within this time do not wait for those that have longer."""

_PATIENT_TURN = 4
_MOST_DISCARDED = 100

_Lane = OrderedDict[str, list[tuple[float, int, Job]]]


class FairQueue:
    """Jobs that wait.

    Args:
        has_enough: whether a client is to be passed over, until `resume` is called.
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
        """Add a job; `Job.client` says whose it is."""
        soon = job.kind == "cell" or job.expires - time.time() < SOON_SECONDS
        lane, passed = self._passed[not soon]
        clients = passed if job.client in passed else lane
        heapq.heappush(clients.setdefault(job.client, []), (job.expires, next(self._numbers), job))
        self._jobs[job.id] = job

    def discard(self, name: str) -> None:
        """Nobody waits for this job any more. Nothing is kept of what it says."""
        if (job := self._jobs.pop(name, None)) is not None:
            job.clear()
            self._discarded += 1
            if self._discarded > _MOST_DISCARDED + len(self._jobs):
                self._tidy()

    def _tidy(self) -> None:
        """Take out what was discarded."""
        for clients in itertools.chain.from_iterable(self._passed):
            for client, heap in list(clients.items()):
                heap[:] = [entry for entry in heap if entry[2].id in self._jobs]
                heapq.heapify(heap)
                if not heap:
                    del clients[client]
        self._discarded = 0

    def pop(self) -> Job | None:
        """Take the next job; None when there is none, or only of clients that have enough."""
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
        """Ask anew who has enough."""
        for lane, passed in self._passed:
            lane.update(passed)
            passed.clear()

    def expired(self, now: float) -> Iterator[Job]:
        """Take the jobs whose time has run out."""
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
