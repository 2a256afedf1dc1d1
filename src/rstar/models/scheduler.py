"""Which rollout takes its next turn now, and on which replica: a pure state machine without clock or input/output.

A rollout alternates between turns of the model and calls of tools. Meanwhile a replica of the model keeps its keys and
values (KV), so that the next turn computes only what is new. `rstar.models.replicas` drives the scheduler with real
engines, where a rollout is a search tree or a branch of an agent's rollouts, and a turn is what it asks for at a time.
`rstar.agent.simulate` drives it with traces. Four decisions keep KV cheap:

* *Admission.* The ledger of a replica holds, for every rollout on it, the tokens that it has and part of the tokens
  that it is still expected to add (`rstar.models.growth`). A new rollout starts only where these fit. The others wait
  here and not in the queue of a replica, so none is bound to a busy replica when another becomes free.
* *Placement.* A new rollout goes to the replica with the most free tokens; ties take turns. Further turns stay on the
  replica that has their KV and come before new rollouts, because rollouts under way free memory soonest.
* *Order.* Rollouts of one group (one problem) have similar lengths. After two of every group, new rollouts come from
  the group that is expected to be longest: a long rollout that starts last keeps all others waiting at the end.
* *Migration.* A rollout that waits for its replica and has few tokens may go to another one, if `migrate_below` allows
  it. At the end, when no new rollouts wait, a turn also moves to a replica that holds far less: a rollout of any length
  where capacities are known, one of few tokens elsewhere.

A replica whose capacity is unknown, such as a remote server, has a window instead: the number of samples at a time. It
grows by one sample for each window of turns that end well, and halves when the server reports overload (additive
increase, multiplicative decrease). Local workers also have a maximum number of rollouts, because each rollout's prompt
takes a row of their cache, however short it is.

Invariants: the tokens of the rollouts on a replica, expected growth of the running turns included, never exceed its
capacity when a turn starts, except for a rollout that alone is larger. Every submitted rollout starts, and each of its
turns starts once. No rollout waits while its replica is idle, and no new one while any is.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rstar.models.growth import Growth
from rstar.models.ledger import PROBES, Group, Phase, Replica, Rollout

FULL = 0.88
"""Share of a replica's capacity that the ledger gives out."""
FIRST_WINDOW = 16
"""Samples at a time on a replica of unknown capacity, at first."""
MOST_SHARE = 4.0
"""A group reserves at most so many times what an average rollout holds, however long its rollouts seem."""
STALLED_BELOW = 0.5
"""If fewer than this share of a replica's rollouts run and a turn does not fit, idle rollouts lose their KV."""
REBALANCE_BELOW = 0.5
"""At the end, turns move to replicas that hold less than this share of what their own holds."""


class Start(NamedTuple):
    """A turn to start now.

    Attributes:
        rollout: its number.
        replica: index of the replica.
        warm: whether the replica has the KV of the earlier turns.
    """

    rollout: int
    replica: int
    warm: bool


class Scheduler:
    """Admits and places the turns of rollouts.

    Args:
        capacities: KV tokens of each replica; None where unknown.
        growth: expectations of how rollouts grow. A trainer keeps them from step to step.
        migrate_below: a waiting rollout of fewer tokens may move to another replica; 0: none may.
        window: samples at a time where the capacity is unknown, at first.
        residents: number of rollouts on a replica of unknown capacity from which on new ones wait; forks never do.

    Raises:
        ValueError: no capacities, or one below 1; later, a call that does not fit the phase of its rollout.
    """

    def __init__(
        self,
        capacities: Sequence[int | None],
        growth: Growth,
        migrate_below: float = 0,
        window: float = FIRST_WINDOW,
        residents: float = math.inf,
    ) -> None:
        if not capacities or any(capacity is not None and capacity < 1 for capacity in capacities):
            raise ValueError(f"capacities {list(capacities)}: expected at least one, and none below 1")
        self._replicas = [Replica(capacity, window) for capacity in capacities]
        self._growth, self._migrate_below, self._residents = growth, migrate_below, residents
        self._rollouts: dict[int, Rollout] = {}
        self._cold: deque[int] = deque()  # lost their KV
        self._groups: dict[int, Group] = {}
        self._last = -1  # replica that got the last new rollout
        self._waiting = 0
        self._changed = set(range(len(capacities)))

    def submit(self, rollout: int, tokens: int, group: int = 0, samples: int = 1) -> None:
        """Add a rollout with a prompt of `tokens`, whose first turn has `samples`; those of a group have similar
        lengths.
        """
        if rollout in self._rollouts:
            raise ValueError(f"rollout {rollout}: submitted before")
        of_group = self._groups.setdefault(group, Group())
        of_group.members += 1
        self._rollouts[rollout] = Rollout(tokens, group, of_group, tokens, samples)
        of_group.waiting.append(rollout)
        self._waiting += 1
        self._changed.update(range(len(self._replicas)))

    def join(self, rollout: int, samples: int) -> None:
        """The running turn gets further `samples`, which start at once: they share its KV."""
        one = self._of_phase(rollout, Phase.RUNNING)
        assert one.replica is not None
        one.samples += samples
        self._replicas[one.replica].samples += samples

    def call_tool(self, rollout: int, tokens: int) -> None:
        """The running turn added `tokens` and ended with a call of a tool."""
        one = self._of_phase(rollout, Phase.RUNNING)
        number = one.replica
        self._end_turn(rollout, one)
        one.tokens += tokens
        one.added, one.phase = tokens / one.samples, Phase.AT_TOOL
        assert number is not None
        if self._replicas[number].available:
            one.replica = number
            self._keep(rollout, one, one.tokens)

    def resume(self, rollout: int, tokens: int, samples: int = 1) -> None:
        """The tool's response has `tokens`; the rollout wants its next turn."""
        one = self._of_phase(rollout, Phase.AT_TOOL)
        self._growth.end(one.turn, one.added + tokens, last=False)
        one.tokens += tokens
        self._count(one, max(one.tokens - one.prompt, one.counted))
        one.turn += 1
        one.phase, one.samples = Phase.WAITING, samples
        if one.replica is None:  # its KV was released meanwhile
            self._cold.append(rollout)
            self._changed.update(range(len(self._replicas)))
        else:
            self._replicas[one.replica].ready.append(rollout)
            self._changed.add(one.replica)

    def finish(self, rollout: int, tokens: int) -> None:
        """The running turn added `tokens` and ended the rollout."""
        self.call_tool(rollout, tokens)
        self.end(rollout)

    def fork(self, rollout: int, child: int, tokens: int) -> None:
        """A rollout that has called a tool splits: `child` has its KV, `tokens` in all, and calls a tool by itself."""
        if child in self._rollouts:
            raise ValueError(f"rollout {child}: submitted before")
        one = self._of_phase(rollout, Phase.AT_TOOL)
        one.forked = True
        new = self._rollouts[child] = replace(one, tokens=tokens, replica=None, held=0.0, counted=0.0, forked=False)
        new.of_group.members += 1
        new.of_group.begun += 1
        self._count(new, max(tokens - new.prompt, 1))
        self._growth.begin(new.turn)
        if one.replica is not None:
            new.replica = one.replica
            self._keep(child, new, tokens)

    def end(self, rollout: int) -> None:
        """The rollout that called a tool needs no further turn."""
        one = self._of_phase(rollout, Phase.AT_TOOL)
        if one.forked:
            self._growth.abandon(one.turn)  # its forks tell how it went on
        else:
            self._growth.end(one.turn, one.added, last=True)
        self._count(one, one.tokens - one.prompt)
        self._release(rollout, one)
        self._forget(rollout, one)

    def drop(self, rollout: int) -> None:
        """Forget a rollout, whatever it is doing: it failed, or its time is up."""
        one = self._rollouts.get(rollout)
        if one is None:
            raise ValueError(f"rollout {rollout}: unknown")
        if not one.counted:
            self._waiting -= 1
        elif one.phase is not Phase.WAITING:
            self._growth.abandon(one.turn)
        for queue in (one.of_group.waiting, self._cold, *(replica.ready for replica in self._replicas)):
            if rollout in queue:
                queue.remove(rollout)
        if one.phase is Phase.RUNNING:
            self._end_turn(rollout, one)
        else:
            self._release(rollout, one)
        self._forget(rollout, one)

    def _forget(self, rollout: int, one: Rollout) -> None:
        del self._rollouts[rollout]
        one.of_group.members -= 1
        if not one.of_group.members:
            del self._groups[one.group]

    def overloaded(self, replica: int) -> None:
        """The replica refused a turn, or reports that it has too many: halve its window."""
        one = self._replicas[replica]
        one.window = max(1.0, one.window / 2)

    def set_available(self, replica: int, available: bool) -> None:
        """Whether turns may start on the replica from now on. Rollouts that wait there go elsewhere, without KV."""
        one = self._replicas[replica]
        if one.available == available:
            return
        one.available = available
        self._changed.update(range(len(self._replicas)))
        for rollout in [] if available else list(one.resident):
            if self._rollouts[rollout].phase is not Phase.RUNNING:
                self._send_off(rollout, one)

    def samples(self, replica: int) -> int:
        """Number of samples of running turns on the replica."""
        return self._replicas[replica].samples

    def dispatch(self) -> list[Start]:
        """Turns that start now."""
        starts: list[Start] = []
        # Only where something has changed can a turn fit now that did not fit before.
        changed, self._changed = sorted(self._changed), set()
        for number in changed:
            if self._replicas[number].ready:
                self._dispatch_ready(number, self._replicas[number], starts)
        while any(self._may_admit(self._replicas[number]) for number in changed) and (queue := self._next_queue()):
            one = self._rollouts[queue[0]]
            if (place := self._place(one, changed)) is None and (place := self._idle(one, changed)) is None:
                break
            starts.append(self._start(queue.popleft(), place, warm=False))
        return starts

    def _next_queue(self) -> deque[int] | None:
        """The queue whose first rollout starts next: those without KV first, then the group of longest rollouts."""
        if self._cold:
            return self._cold
        mean = self._growth.mean()
        groups = (group for group in self._groups.values() if group.waiting)
        longest = max(groups, key=lambda group: (group.expected(mean), -group.begun), default=None)
        return None if longest is None else longest.waiting

    def _dispatch_ready(self, number: int, replica: Replica, starts: list[Start]) -> None:
        """Start the ready rollouts of a replica while they fit; if it is idle, make room for one."""
        while replica.ready and replica.available:
            rollout = replica.ready[0]
            one = self._rollouts[rollout]
            if (place := self._emptier(replica, one)) is not None:
                replica.ready.popleft()
                starts.append(self._start(rollout, place, warm=False))
                continue
            if not self._fits(replica, one) and replica.running < STALLED_BELOW * len(replica.resident):
                self._make_room(replica, one)
            if self._fits(replica, one):
                replica.ready.popleft()
                starts.append(self._start(rollout, number, warm=True))
                continue
            if one.tokens >= self._migrate_below or (place := self._place(one, range(len(self._replicas)))) is None:
                return
            replica.ready.popleft()
            self._release(rollout, one)
            starts.append(self._start(rollout, place, warm=False))

    def _emptier(self, replica: Replica, one: Rollout) -> int | None:
        """When no new rollouts wait: a replica that would hold far less, so that turns run faster there; if any."""
        if self._waiting or (replica.capacity is None and one.tokens >= self._migrate_below):
            return None
        loads = {number: other.load for number, other in enumerate(self._replicas) if other.available}
        number = min(loads, key=loads.__getitem__)
        other = self._replicas[number]
        more = one.samples if other.capacity is None else one.tokens
        emptier = loads[number] + more < REBALANCE_BELOW * replica.load
        return number if emptier and not other.ready and self._fits(other, one) else None

    def _idle(self, one: Rollout, numbers: Sequence[int]) -> int | None:
        """Among these replicas, one that runs nothing, after making room for a rollout there; if any."""
        for number in numbers:
            replica = self._replicas[number]
            if self._may_admit(replica) and not replica.running:
                self._make_room(replica, one)
                return number
        return None

    def _make_room(self, replica: Replica, one: Rollout) -> None:
        """Release the KV of the smallest other rollouts until this one fits."""
        idle = [rollout for rollout in replica.resident if self._rollouts[rollout].phase is not Phase.RUNNING]
        for rollout in sorted(idle, key=lambda rollout: self._rollouts[rollout].tokens):
            if self._fits(replica, one):
                return
            if self._rollouts[rollout] is not one:
                self._send_off(rollout, replica)

    def _send_off(self, rollout: int, replica: Replica) -> None:
        """Release the KV of a rollout that is not running; if it waits for a turn, it may take it anywhere."""
        one = self._rollouts[rollout]
        if one.phase is Phase.WAITING:
            replica.ready.remove(rollout)
            self._cold.append(rollout)
            self._changed.update(range(len(self._replicas)))
        self._release(rollout, one)

    def _place(self, one: Rollout, numbers: Sequence[int]) -> int | None:
        """Among these replicas, the one with the most free tokens that has room for a rollout without KV, if any."""
        best, most = None, 0.0
        for number in sorted(numbers, key=lambda number: (number <= self._last, number)):  # ties take turns
            replica = self._replicas[number]
            if not (self._may_admit(replica) and self._fits(replica, one)):
                continue
            if replica.capacity is None:
                free = 1 - replica.samples / replica.window
            elif replica.resident and self._reserve(one) + replica.reserved > FULL * replica.capacity:
                continue
            else:
                free = 1 - replica.reserved / replica.capacity
            if best is None or free > most:
                best, most = number, free
        if best is not None:
            self._last = best
        return best

    def _may_admit(self, replica: Replica) -> bool:
        """Whether the replica may have room for a rollout without KV; its own ready turns come first."""
        if replica.capacity is None:
            full = len(replica.resident) >= self._residents
        else:
            full = replica.reserved > FULL * replica.capacity
        return replica.available and not replica.ready and not (full and replica.running)

    def _fits(self, replica: Replica, one: Rollout) -> bool:
        """Whether the rollout's next turn fits beside what the replica holds; alone, everything fits."""
        if replica.capacity is None:
            return not replica.running or replica.samples + one.samples <= replica.window
        here = one.replica is not None and self._replicas[one.replica] is replica
        held = replica.held + one.tokens + self._grows(one) - (one.held if here else 0.0)
        return held <= FULL * replica.capacity or len(replica.resident) == here

    def _reserve(self, one: Rollout) -> float:
        """What a rollout counts for when new ones are admitted: what it holds, and at least what its group holds on
        average, because young rollouts will soon have that.
        """
        mean = self._growth.mean()
        share = min(one.of_group.expected(mean) / mean, MOST_SHARE) if one.of_group.begun >= PROBES else 1.0
        return max(one.held, one.prompt + share * self._growth.of_rollout())

    def _of_phase(self, rollout: int, phase: Phase) -> Rollout:
        one = self._rollouts.get(rollout)
        if one is None or one.phase is not phase:
            is_now = "unknown" if one is None else one.phase.value
            raise ValueError(f"rollout {rollout}: expected one that is {phase.value}, and it is {is_now}")
        return one

    def _start(self, rollout: int, number: int, *, warm: bool) -> Start:
        one, replica = self._rollouts[rollout], self._replicas[number]
        self._release(rollout, one)
        if not one.counted:
            self._waiting -= 1
            one.of_group.begun += 1
            self._count(one, self._growth.mean())
        one.replica, one.phase = number, Phase.RUNNING
        replica.running += 1
        replica.samples += one.samples
        self._keep(rollout, one, one.tokens + self._grows(one))
        self._growth.begin(one.turn)
        return Start(rollout, number, warm)

    def _grows(self, one: Rollout) -> float:
        """Tokens that the next turn has added at a random moment."""
        return one.samples * self._growth.of_turn(one.turn)

    def _count(self, one: Rollout, added: float) -> None:
        """Count a rollout for its group with the tokens that it has added, or is expected to add."""
        one.of_group.added += added - one.counted
        one.counted = added

    def _end_turn(self, rollout: int, one: Rollout) -> None:
        assert one.replica is not None
        replica = self._replicas[one.replica]
        replica.running -= 1
        replica.samples -= one.samples
        replica.window += 1 / replica.window
        self._release(rollout, one)

    def _keep(self, rollout: int, one: Rollout, held: float) -> None:
        """Enter a rollout into its replica's ledger."""
        if one.replica is not None:
            one.held = held
            one.reserved = self._reserve(one)
            self._replicas[one.replica].enter(rollout, one)

    def _release(self, rollout: int, one: Rollout) -> None:
        """Remove a rollout from its replica's ledger: it has no KV any more."""
        if one.replica is not None:
            self._changed.add(one.replica)
            self._replicas[one.replica].remove(rollout, one)
            one.replica, one.held, one.reserved = None, 0.0, 0.0
