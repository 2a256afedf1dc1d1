"""The order in which waiting calls are done: clients take turns, so that nobody waits for all that another one asks.

Calls that must begin soon, and cells of sessions, go before calls that can wait. One turn in four is for the latter.
Among the calls of a client the one goes first whose time to begin runs out first.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import OrderedDict
from collections.abc import Iterator

from rstar.judge.jobs import Job

SOON_SECONDS = 60.0
"""Calls that must begin within this time do not wait for those that have longer."""

_PATIENT_TURN = 4

_Heap = list[tuple[float, int, Job]]


class FairQueue:
    """Jobs that wait."""

    def __init__(self) -> None:
        self._soon: OrderedDict[str, _Heap] = OrderedDict()
        self._patient: OrderedDict[str, _Heap] = OrderedDict()
        self._numbers = itertools.count()
        self._turns = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, job: Job) -> None:
        """Add a job; `Job.client` says whose it is."""
        soon = job.kind == "cell" or job.expires - time.time() < SOON_SECONDS
        clients = self._soon if soon else self._patient
        heapq.heappush(clients.setdefault(job.client, []), (job.expires, next(self._numbers), job))
        self._size += 1

    def pop(self) -> Job:
        """Take the next job. Raises `IndexError` when there is none."""
        if not self._size:
            raise IndexError("the queue is empty")
        self._turns += 1
        patient_first = not self._soon or (self._patient and self._turns % _PATIENT_TURN == 0)
        clients = self._patient if patient_first else self._soon
        client, heap = clients.popitem(last=False)
        job = heapq.heappop(heap)[2]
        if heap:
            clients[client] = heap
        self._size -= 1
        return job

    def expired(self, now: float) -> Iterator[Job]:
        """Take the jobs whose time has run out."""
        for clients in (self._soon, self._patient):
            for client in [client for client, heap in clients.items() if heap[0][0] < now]:
                heap = clients[client]
                while heap and heap[0][0] < now:
                    self._size -= 1
                    yield heapq.heappop(heap)[2]
                if not heap:
                    del clients[client]
