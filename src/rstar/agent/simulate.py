"""A simulator of rollouts on many replicas, to compare schedulers at a scale that no single machine has.

It replays traces of heavy-tailed rollouts (`rstar.agent.traces`) on replicas that behave like inference servers:

* All running turns of a replica advance together. A step takes a fixed time, plus some per turn and some per KV token.
* Computing the tokens of a prompt that are not cached (prefill) holds up the replica's other turns.
* A finished turn leaves its KV as a cache, which the replica drops, least recently used first, when it needs the room.
* A turn is admitted when its tokens fit and fewer than `max_turns` run; otherwise it waits in the replica's queue.
* When the running turns outgrow the memory, the last one is pre-empted: it loses its KV, and is computed again later.

Between two events of a replica, its step time is that of the earlier event. Times are in seconds of the simulation.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from rstar.agent.traces import Trace, draw_traces
from rstar.models.growth import Growth
from rstar.models.scheduler import Scheduler, Start
from rstar.seeds import derive

FIRST_GUESS = 2_500
"""Tokens per turn that the scheduler of rstar expects before it has seen any; three times what the traces have."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """A replica; by default, roughly a 14B model (164 kB of KV per token) on one accelerator of 80 GB and 3.35 TB/s.

    Attributes:
        capacity: KV tokens.
        max_turns: turns that run at a time.
        step: seconds of a step without anything.
        per_turn: further seconds per running turn.
        per_token: further seconds per KV token of the running turns.
        prefill: seconds per prompt token that is not cached.
    """

    capacity: int = 270_000
    max_turns: int = 256
    step: float = 0.009
    per_turn: float = 2e-5
    per_token: float = 5e-8
    prefill: float = 7e-5


@dataclass(slots=True)
class _Turn:
    rollout: int
    context: int
    left: float
    ends: float = 0.0
    started: int = 0


@dataclass(slots=True)
class _Replica:
    hardware: Hardware
    time: float = 0.0
    steps: float = 0.0
    prefill: float = 0.0
    tokens: float = 0.0
    running: dict[int, _Turn] = field(default_factory=dict)
    ends: list[tuple[float, int, int]] = field(default_factory=list)
    queue: deque[_Turn] = field(default_factory=deque)
    cached: OrderedDict[int, int] = field(default_factory=OrderedDict)
    cached_tokens: int = 0
    version: int = 0
    idle: float = 0.0
    samples: list[tuple[float, int]] = field(default_factory=list)

    def step_time(self) -> float:
        hardware = self.hardware
        return hardware.step + hardware.per_turn * len(self.running) + hardware.per_token * self.tokens

    def advance(self, now: float) -> None:
        """Do what the replica does until `now`."""
        passed = now - self.time
        self.time = now
        if not self.running:
            self.idle += passed
            return
        waited = min(self.prefill, passed)
        self.prefill -= waited
        steps = (passed - waited) / self.step_time()
        self.steps += steps
        self.tokens += steps * len(self.running)
        self.drop_cached()

    def next_event(self) -> float | None:
        """When the next turn ends, or the memory is full; None if nothing runs."""
        if not self.running:
            return None
        while self.ends[0][2] not in self.running or self.running[self.ends[0][2]].started != self.ends[0][1]:
            heapq.heappop(self.ends)
        steps = self.ends[0][0] - self.steps
        if len(self.running) > 1:
            steps = min(steps, (self.hardware.capacity - self.tokens) / len(self.running))
        return self.time + self.prefill + max(0.0, steps) * self.step_time()

    def drop_cached(self) -> None:
        """Drop cached turns, least recently used first, until what runs has room."""
        while self.cached and self.cached_tokens > self.hardware.capacity - self.tokens:
            self.cached_tokens -= self.cached.popitem(last=False)[1]


@dataclass(slots=True)
class Outcome:
    """What a scheduler made of a set of rollouts.

    Attributes:
        makespan: seconds until the last rollout ended.
        idle: share of the replicas' time until then without a running turn.
        preemptions: per turn.
        hits: share of the earlier tokens of further turns that were cached.
        running: for each replica, (seconds, running turns) over time.
    """

    makespan: float
    idle: float
    preemptions: float
    hits: float
    running: list[list[tuple[float, int]]]


class Router:
    """Decides where turns go; by default at once, to the replica that `place` names."""

    def begin(self, prompts: Sequence[int]) -> list[Start]:
        """All rollouts are there."""
        return [Start(rollout, self.place(rollout), False) for rollout in range(len(prompts))]

    def place(self, rollout: int) -> int:
        """The replica of a rollout's next turn."""
        raise NotImplementedError

    def turn_ended(self, rollout: int, tokens: int, *, last: bool) -> list[Start]:
        """A turn has ended; turns that start now."""
        return []

    def tool_answered(self, rollout: int, tokens: int) -> list[Start]:
        """A tool has answered; turns that start now."""
        return [Start(rollout, self.place(rollout), True)]


class StaticSplit(Router):
    """Equal shares of the rollouts, in order, fixed up front."""

    def __init__(self, replicas: int, rollouts: int) -> None:
        self._replicas, self._rollouts = replicas, rollouts

    def place(self, rollout: int) -> int:
        """See `Router`."""
        return rollout * self._replicas // self._rollouts


class ConsistentHashing(Router):
    """A replica by a hash of the rollout."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def place(self, rollout: int) -> int:
        """See `Router`."""
        return random.Random(rollout).randrange(self._replicas)


class LeastRequests(Router):
    """Each turn to the replica with the fewest turns under way; `sticky`: only the first turn."""

    def __init__(self, replicas: int, *, sticky: bool = False) -> None:
        self._load = [0] * replicas
        self._sticky = sticky
        self._at: dict[int, int] = {}

    def place(self, rollout: int) -> int:
        """See `Router`."""
        if not (self._sticky and rollout in self._at):
            self._at[rollout] = min(range(len(self._load)), key=self._load.__getitem__)
        self._load[self._at[rollout]] += 1
        return self._at[rollout]

    def turn_ended(self, rollout: int, tokens: int, *, last: bool) -> list[Start]:
        """See `Router`."""
        self._load[self._at[rollout]] -= 1
        return []


class Scheduled(Router):
    """`rstar.models.scheduler.Scheduler`, which knows nothing of the traces."""

    def __init__(self, capacities: Sequence[int | None], growth: Growth, group: int) -> None:
        self._scheduler, self._group = Scheduler(capacities, growth), group

    def begin(self, prompts: Sequence[int]) -> list[Start]:
        """See `Router`."""
        for rollout, tokens in enumerate(prompts):
            self._scheduler.submit(rollout, tokens, rollout // self._group)
        return self._scheduler.dispatch()

    def turn_ended(self, rollout: int, tokens: int, *, last: bool) -> list[Start]:
        """See `Router`."""
        (self._scheduler.finish if last else self._scheduler.call_tool)(rollout, tokens)
        return self._scheduler.dispatch()

    def tool_answered(self, rollout: int, tokens: int) -> list[Start]:
        """See `Router`."""
        self._scheduler.resume(rollout, tokens)
        return self._scheduler.dispatch()


def simulate(traces: Sequence[Trace], replicas: int, router: Router, hardware: Hardware | None = None) -> Outcome:
    """Run all rollouts to their end."""
    return _Simulation(traces, replicas, router, hardware or Hardware()).run()


class _Simulation:
    def __init__(self, traces: Sequence[Trace], replicas: int, router: Router, hardware: Hardware) -> None:
        self._traces, self._router = traces, router
        self._replicas = [_Replica(hardware) for _ in range(replicas)]
        self._turn = [0] * len(traces)
        self._context = [trace.prompt for trace in traces]
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._turns = self._preempted = self._earlier = self._hit = 0

    def run(self) -> Outcome:
        now = 0.0
        self._begin(now, self._router.begin([trace.prompt for trace in self._traces]))
        while self._events:
            now, _, event = heapq.heappop(self._events)
            event(now)
        for replica in self._replicas:
            replica.advance(now)
        if any(self._turn[n] != len(trace.turns) for n, trace in enumerate(self._traces)):
            raise RuntimeError("the scheduler left rollouts waiting")
        return Outcome(
            makespan=now,
            idle=sum(replica.idle for replica in self._replicas) / (now * len(self._replicas)),
            preemptions=self._preempted / self._turns,
            hits=self._hit / max(1, self._earlier),
            running=[replica.samples for replica in self._replicas],
        )

    def _at(self, time: float, event: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), event))

    def _begin(self, now: float, starts: Sequence[Start]) -> None:
        """Queue turns at their replicas."""
        touched: dict[int, None] = {}
        for rollout, number, _ in starts:
            tokens = self._traces[rollout].turns[self._turn[rollout]][0]
            self._replicas[number].queue.append(_Turn(rollout, self._context[rollout], tokens))
            self._turns += 1
            touched[number] = None
        for number in touched:
            self._replicas[number].advance(now)
            self._refresh(now, number)

    def _refresh(self, now: float, number: int) -> None:
        """Admit what waits at a replica, and plan its next event."""
        replica = self._replicas[number]
        self._admit(replica)
        replica.version += 1
        replica.samples.append((now, len(replica.running)))
        if (time := replica.next_event()) is not None:
            version = replica.version
            self._at(time, lambda now: self._progress(now, number, version))

    def _admit(self, replica: _Replica) -> None:
        hardware = replica.hardware
        while replica.queue and len(replica.running) < hardware.max_turns:
            turn = replica.queue[0]
            if replica.running and replica.tokens + turn.context + 1 > hardware.capacity:
                return
            replica.queue.popleft()
            cached = replica.cached.pop(turn.rollout, 0)
            replica.cached_tokens -= cached
            if self._turn[turn.rollout]:
                self._earlier += turn.context
                self._hit += cached
            replica.prefill += (turn.context - cached) * hardware.prefill
            replica.tokens += turn.context
            replica.drop_cached()
            turn.ends, turn.started = replica.steps + turn.left, next(self._order)
            replica.running[turn.rollout] = turn
            heapq.heappush(replica.ends, (turn.ends, turn.started, turn.rollout))

    def _progress(self, now: float, number: int, version: int) -> None:
        """A replica's next event: turns end, or the memory is full."""
        replica = self._replicas[number]
        if version != replica.version:
            return
        replica.advance(now)
        ended = []
        while replica.ends and replica.ends[0][0] <= replica.steps + 1e-6:
            _, started, rollout = heapq.heappop(replica.ends)
            turn = replica.running.get(rollout)
            if turn is not None and turn.started == started:
                ended.append(self._end(replica, turn))
        if not ended and len(replica.running) > 1 and replica.tokens >= replica.hardware.capacity - 1e-6:
            self._preempt(replica)
        self._refresh(now, number)
        for rollout, tokens in ended:
            self._after(now, rollout, tokens)

    def _end(self, replica: _Replica, turn: _Turn) -> tuple[int, int]:
        rollout = turn.rollout
        tokens = self._traces[rollout].turns[self._turn[rollout]][0]
        del replica.running[rollout]
        self._context[rollout] += tokens
        replica.tokens = max(0.0, replica.tokens - self._context[rollout]) if replica.running else 0.0
        if self._turn[rollout] + 1 < len(self._traces[rollout].turns):
            replica.cached[rollout] = self._context[rollout]
            replica.cached_tokens += self._context[rollout]
            replica.drop_cached()
        return rollout, tokens

    def _preempt(self, replica: _Replica) -> None:
        """The turn that started last loses its KV and waits, first in the queue."""
        _, turn = replica.running.popitem()
        done = turn.left - (turn.ends - replica.steps)
        turn.context += round(done)
        turn.left -= round(done)
        replica.tokens -= turn.context
        replica.queue.appendleft(turn)
        self._preempted += 1

    def _after(self, now: float, rollout: int, tokens: int) -> None:
        """A turn has ended: if it is not the last, its tool runs."""
        trace, turn = self._traces[rollout], self._turn[rollout]
        self._turn[rollout] += 1
        last = self._turn[rollout] == len(trace.turns)
        if not last:
            _, response, seconds = trace.turns[turn]
            self._at(now + seconds, lambda now: self._answer(now, rollout, response))
        self._begin(now, self._router.turn_ended(rollout, tokens, last=last))

    def _answer(self, now: float, rollout: int, tokens: int) -> None:
        self._context[rollout] += tokens
        self._begin(now, self._router.tool_answered(rollout, tokens))


SCHEDULERS: dict[str, Callable[[int, int, int, Growth], Router]] = {
    "rstar": lambda replicas, rollouts, group, growth: Scheduled([Hardware().capacity] * replicas, growth, group),
    "sticky, least requests": lambda replicas, rollouts, group, growth: LeastRequests(replicas, sticky=True),
    "least requests": lambda replicas, rollouts, group, growth: LeastRequests(replicas),
    "consistent hashing": lambda replicas, rollouts, group, growth: ConsistentHashing(replicas),
    "static split": lambda replicas, rollouts, group, growth: StaticSplit(replicas, rollouts),
}
"""Name → router for (replicas, rollouts, rollouts per group, expectations of growth)."""


def compare_schedulers(
    traces: int, seed: int, *, replicas: int = 64, problems: int = 512, group: int = 32, done: Callable[[], None]
) -> dict[str, list[Outcome]]:
    """Outcomes of all schedulers on the same traces; `done` is called after each.

    The scheduler of rstar keeps what it has learnt about the growth of rollouts from trace to trace, as a trainer does
    from step to step.
    """
    growth = Growth(turns=10, tokens=FIRST_GUESS)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in SCHEDULERS}
    for number in range(traces):
        rollouts = draw_traces(problems, group, derive(seed, "trace", number))
        for name, router in SCHEDULERS.items():
            outcomes[name].append(simulate(rollouts, replicas, router(replicas, len(rollouts), group, growth)))
            done()
    return outcomes
