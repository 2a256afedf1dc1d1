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

URGENT_SECONDS = 60.0
"""Calls that must begin within this time are urgent."""

_PATIENT_TURN = 4
_MAX_DISCARDED = 100

_Heaps = OrderedDict[str, list[tuple[float, int, Job]]]


class FairQueue:
    """Waiting jobs.

    Args:
        is_skipped: whether to skip a client until `resume` is called.
    """

    def __init__(self, is_skipped: Callable[[str], bool] = lambda client: False) -> None:
        self._is_skipped = is_skipped
        self._urgent, self._patient = _Heaps(), _Heaps()
        self._lanes: tuple[tuple[_Heaps, _Heaps], ...] = ((self._urgent, _Heaps()), (self._patient, _Heaps()))
        self._numbers = itertools.count()
        self._turns = 0
        self._jobs: dict[str, Job] = {}
        self._discarded = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def push(self, job: Job) -> None:
        """Add a job of `Job.client`."""
        urgent = job.kind == "cell" or job.expires - time.time() < URGENT_SECONDS
        lane, skipped = self._lanes[not urgent]
        clients = skipped if job.client in skipped else lane
        heapq.heappush(clients.setdefault(job.client, []), (job.expires, next(self._numbers), job))
        self._jobs[job.id] = job

    def discard(self, name: str) -> None:
        """Cancel a job and free its contents."""
        if (job := self._jobs.pop(name, None)) is not None:
            job.clear()
            self._discarded += 1
            if self._discarded > _MAX_DISCARDED + len(self._jobs):
                self._remove_discarded()

    def _remove_discarded(self) -> None:
        for clients in itertools.chain.from_iterable(self._lanes):
            for client, heap in list(clients.items()):
                heap[:] = [entry for entry in heap if entry[2].id in self._jobs]
                heapq.heapify(heap)
                if not heap:
                    del clients[client]
        self._discarded = 0

    def pop(self) -> Job | None:
        """Take the next job; None if there is none, or only of skipped clients."""
        turn = self._turns + 1
        while self._urgent or self._patient:
            patient_first = not self._urgent or (self._patient and turn % _PATIENT_TURN == 0)
            lane, skipped = self._lanes[bool(patient_first)]
            client, heap = lane.popitem(last=False)
            if self._is_skipped(client):
                skipped[client] = heap
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
        for lane, skipped in self._lanes:
            lane.update(skipped)
            skipped.clear()

    def expired(self, now: float) -> Iterator[Job]:
        """Remove and yield the jobs past their deadline."""
        for clients in itertools.chain.from_iterable(self._lanes):
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
