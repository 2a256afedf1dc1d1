"""Fair queue: clients take turns, so no client waits for another's whole backlog.

Urgent calls and session cells go before patient calls, which get one turn in four. A client's calls are ordered by
deadline, earliest first. A client with enough running jobs is skipped. Jobs for one worker take the same turns there as
all others: the client whose last turn is longest ago goes first.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator

from rstar.judge.queue.jobs import Job

URGENT_SECONDS = 60.0
"""Calls that must begin within this time are urgent."""

_PATIENT_TURN = 4
_MAX_DISCARDED = 100

_Entry = tuple[float, int, Job]  # deadline, number, job


class _Lane:
    """Clients in the order of their turns, each with a heap of its jobs, and those that are skipped for now."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, list[_Entry]] = OrderedDict()
        self._skipped: dict[str, list[_Entry]] = {}
        self._since: dict[str, int] = {}  # number from which a client has been waiting for its turn

    def __bool__(self) -> bool:
        return bool(self._clients)

    @property
    def client(self) -> str:
        """The next client."""
        return next(iter(self._clients))

    @property
    def since(self) -> float:
        """Number from which the next client has been waiting; infinite if there is none."""
        return self._since[self.client] if self._clients else math.inf

    def push(self, entry: _Entry) -> None:
        """Add a job of `Job.client`."""
        client = entry[2].client
        clients = self._skipped if client in self._skipped else self._clients
        if client not in clients:
            self._since[client] = entry[1]
        heapq.heappush(clients.setdefault(client, []), entry)

    def pop(self) -> Job:
        """Take the next client's earliest job. The client keeps its turn until `put_last`."""
        client, heap = next(iter(self._clients.items()))
        job = heapq.heappop(heap)[2]
        if not heap:
            del self._clients[client], self._since[client]
        return job

    def put_last(self, client: str, number: int) -> None:
        """Put a client behind the others, if it has jobs here."""
        if client in self._clients:
            self._clients.move_to_end(client)
            self._since[client] = number

    def skip(self) -> None:
        """Skip the next client until `resume`."""
        client, heap = self._clients.popitem(last=False)
        self._skipped[client] = heap

    def resume(self, number: int) -> None:
        """Put the skipped clients behind the others."""
        self._clients.update(self._skipped)
        self._since.update(dict.fromkeys(self._skipped, number))
        self._skipped.clear()

    def expired(self, now: float) -> Iterator[Job]:
        """Remove and yield the jobs past their deadline."""
        for clients in (self._clients, self._skipped):
            for client in [client for client, heap in clients.items() if heap[0][0] < now]:
                heap = clients[client]
                while heap and heap[0][0] < now:
                    yield heapq.heappop(heap)[2]
                if not heap:
                    del clients[client], self._since[client]

    def retain(self, is_wanted: Callable[[Job], bool]) -> None:
        """Remove all other jobs."""
        for clients in (self._clients, self._skipped):
            for client, heap in list(clients.items()):
                heap[:] = [entry for entry in heap if is_wanted(entry[2])]
                heapq.heapify(heap)
                if not heap:
                    del clients[client], self._since[client]

    def entries(self) -> list[_Entry]:
        """All jobs, the next clients' first."""
        return [entry for heap in (*self._clients.values(), *self._skipped.values()) for entry in heap]


class FairQueue:
    """Waiting jobs.

    Args:
        is_skipped: whether to skip a client until `resume` is called.
    """

    def __init__(self, is_skipped: Callable[[str], bool] = lambda client: False) -> None:
        self._is_skipped = is_skipped
        self._urgent, self._patient = _Lane(), _Lane()
        self._directed: dict[str, _Lane] = {}
        self._numbers = itertools.count()
        self._turns = 0
        self._jobs: dict[str, Job] = {}
        self._discarded = 0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def _lanes(self) -> list[_Lane]:
        return [self._urgent, self._patient, *self._directed.values()]

    def push(self, job: Job, worker: str = "") -> None:
        """Add a job of `Job.client`, which only `worker` may take if given."""
        if worker:
            lane = self._directed.setdefault(worker, _Lane())
        else:
            urgent = job.kind == "cell" or job.expires - time.time() < URGENT_SECONDS
            lane = self._urgent if urgent else self._patient
        lane.push((job.expires, next(self._numbers), job))
        self._jobs[job.id] = job

    def release(self, worker: str) -> None:
        """Let any worker take the jobs of this one."""
        if (lane := self._directed.pop(worker, None)) is not None:
            for entry in lane.entries():
                self._urgent.push(entry)

    def discard(self, name: str) -> None:
        """Cancel a job and free its contents."""
        if (job := self._jobs.pop(name, None)) is not None:
            job.clear()
            self._discarded += 1
            if self._discarded > _MAX_DISCARDED + len(self._jobs):
                for lane in self._lanes:
                    lane.retain(lambda job: job.id in self._jobs)
                self._discarded = 0

    def pop(self, worker: str = "") -> Job | None:
        """Take the next job for a worker; None if there is none, or only of skipped clients."""
        turn = self._turns + 1
        directed = self._directed.get(worker)
        urgent = (self._urgent,) if directed is None else (self._urgent, directed)
        while True:
            lane = min(urgent, key=lambda lane: lane.since)
            if self._patient and (not lane or turn % _PATIENT_TURN == 0):
                lane = self._patient
            if not lane:
                return None
            client = lane.client
            if self._is_skipped(client):
                lane.skip()
                continue
            job = lane.pop()
            if job.id not in self._jobs:
                self._discarded -= 1
                continue
            for other in urgent if lane is not self._patient else (lane,):
                other.put_last(client, next(self._numbers))
            del self._jobs[job.id]
            self._turns = turn
            return job

    def resume(self) -> None:
        """Reconsider the skipped clients."""
        number = next(self._numbers)
        for lane in self._lanes:
            lane.resume(number)

    def expired(self, now: float) -> Iterator[Job]:
        """Remove and yield the jobs past their deadline."""
        for job in itertools.chain.from_iterable(lane.expired(now) for lane in self._lanes):
            if self._jobs.pop(job.id, None) is not None:
                yield job
            else:
                self._discarded -= 1
