"""The scheduler of rollouts as a state machine: what holds whatever happens, and how it decides."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.models.growth import Growth
from rstar.models.scheduler import FIRST_WINDOW, FULL, Scheduler, Start


class Driver:
    """Plays the model and the tools, in random order, and checks each step."""

    def __init__(self, capacities: list[int | None], rollouts: int, seed: int, drops: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.capacities = capacities
        self.scheduler = Scheduler(capacities, Growth(4, 300), migrate_below=self.rng.choice((0, 200)))
        self.prompts = [self.rng.randint(1, 400) for _ in range(rollouts)]
        self.tokens = dict(enumerate(self.prompts))
        self.left = [self.rng.randint(1, 5) for _ in range(rollouts)]
        self.drops = drops
        self.running: dict[int, int] = {}
        self.at_tool: set[int] = set()
        self.kv: dict[int, int] = {}
        self.available = [True] * len(capacities)
        self.finished: set[int] = set()
        self.dropped: set[int] = set()

    def play(self) -> None:
        for rollout, tokens in enumerate(self.prompts):
            self.scheduler.submit(rollout, tokens, rollout // 4)
            if self.rng.random() < 0.3:
                self.start(self.scheduler.dispatch())
        self.start(self.scheduler.dispatch())
        while len(self.finished) + len(self.dropped) < len(self.prompts):
            assert self.running or self.at_tool, "somebody waits while nothing is under way"
            self.step()
            self.start(self.scheduler.dispatch())
        assert self.scheduler.dispatch() == []

    def step(self) -> None:
        if self.rng.random() < self.drops:
            rollout = self.rng.choice([n for n in range(len(self.prompts)) if n not in self.finished | self.dropped])
            self.scheduler.drop(rollout)
            self.dropped.add(rollout)
            self.running.pop(rollout, None)
            self.at_tool.discard(rollout)
        elif self.rng.random() < 0.05:
            self.scheduler.overloaded(self.rng.randrange(len(self.capacities)))
        elif self.rng.random() < 0.05:
            self.switch(self.rng.randrange(len(self.capacities)))
        elif self.at_tool and self.rng.random() < 0.05:
            self.fork(self.rng.choice(sorted(self.at_tool)))
        elif self.running and self.rng.random() < 0.1:
            self.scheduler.join(self.rng.choice(sorted(self.running)), self.rng.randint(1, 3))
        elif self.at_tool and (not self.running or self.rng.random() < 0.5):
            rollout = self.rng.choice(sorted(self.at_tool))
            self.at_tool.remove(rollout)
            response = self.rng.randint(0, 100)
            self.tokens[rollout] += response
            self.scheduler.resume(rollout, response)
        elif self.running:
            rollout = self.rng.choice(sorted(self.running))
            self.kv[rollout] = self.running.pop(rollout)
            self.left[rollout] -= 1
            tokens = self.rng.choice((1, 50, 900))
            self.tokens[rollout] += tokens
            if self.left[rollout]:
                self.scheduler.call_tool(rollout, tokens)
                self.at_tool.add(rollout)
            else:
                self.scheduler.finish(rollout, tokens)
                self.finished.add(rollout)

    def switch(self, replica: int) -> None:
        """Take a replica away, or give it back; one is always there."""
        if sum(self.available) > 1 or not self.available[replica]:
            self.available[replica] = not self.available[replica]
            self.scheduler.set_available(replica, self.available[replica])
            if not self.available[replica]:
                self.kv = {rollout: place for rollout, place in self.kv.items() if place != replica}

    def fork(self, rollout: int) -> None:
        """One more rollout that has what this one has."""
        child = len(self.prompts)
        self.prompts.append(self.prompts[rollout])
        self.left.append(self.rng.randint(1, 3))
        self.tokens[child] = self.prompts[rollout] + 50
        self.scheduler.fork(rollout, child, self.tokens[child])
        self.at_tool.add(child)
        if rollout in self.kv:
            self.kv[child] = self.kv[rollout]

    def start(self, starts: list[Start]) -> None:
        for rollout, replica, warm in starts:
            assert self.available[replica]
            assert rollout not in self.finished | self.dropped | self.at_tool | self.running.keys()
            assert not warm or self.kv[rollout] == replica, "KV is only where the last turn was"
            self.running[rollout] = replica
        if starts:
            for number, one in enumerate(self.scheduler._replicas):
                assert one.running == sum(replica == number for replica in self.running.values())
                assert one.held >= 0
                if one.capacity is not None and len(one.resident) > 1 and number in {start.replica for start in starts}:
                    assert one.held <= FULL * one.capacity + 1e-6
                    assert sum(self.tokens[rollout] for rollout in one.resident) <= one.held + 1e-6


@given(
    st.lists(st.integers(500, 20_000) | st.none(), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.1]),
)
def test_every_turn_of_every_rollout_starts_once(
    capacities: list[int | None], rollouts: int, seed: int, drops: float
) -> None:
    driver = Driver(capacities, rollouts, seed, drops)
    driver.play()
    for rollout in driver.finished:
        assert driver.left[rollout] == 0
    for replica in driver.scheduler._replicas:
        assert (replica.held, replica.reserved, replica.running, len(replica.resident)) == (0, 0, 0, 0)
    assert driver.scheduler._waiting == 0
    assert not driver.scheduler._groups
    assert driver.scheduler._growth._under_way == Growth(4, 300)._under_way


def test_new_rollouts_go_where_most_is_free_and_ties_take_turns() -> None:
    scheduler = Scheduler([10_000, 10_000, 20_000], Growth(4, 500))
    for rollout in range(4):
        scheduler.submit(rollout, 100, rollout)
    assert [start.replica for start in scheduler.dispatch()] == [0, 1, 2, 2]
    alike = Scheduler([10_000] * 3, Growth(4, 500))
    places = []
    for rollout in range(6):
        alike.submit(rollout, 100)
        places += [start.replica for start in alike.dispatch()]
        alike.finish(rollout, 10)
    assert places == [0, 1, 2, 0, 1, 2], "not always the first"


def test_a_rollout_stays_where_its_kv_is() -> None:
    scheduler = Scheduler([10_000, 10_000], Growth(4, 500))
    scheduler.submit(1, 100)
    (first,) = scheduler.dispatch()
    assert not first.warm
    scheduler.submit(2, 100)
    assert [start.replica for start in scheduler.dispatch()] == [1 - first.replica]
    scheduler.finish(2, 5)
    scheduler.call_tool(1, 3_000)
    scheduler.resume(1, 50)
    assert scheduler.dispatch() == [Start(1, first.replica, True)]


def test_turns_under_way_come_before_new_rollouts() -> None:
    scheduler = Scheduler([4_000], Growth(4, 600))
    for rollout in range(4):
        scheduler.submit(rollout, 1_000)
    started = [start.rollout for start in scheduler.dispatch()]
    assert started == [0]
    scheduler.call_tool(0, 500)
    scheduler.resume(0, 10)
    assert [start.rollout for start in scheduler.dispatch()] == [0]
    scheduler.finish(0, 10)
    assert scheduler.dispatch()[0].rollout == 1


def test_what_a_rollout_holds_stays_reserved_while_its_tool_runs() -> None:
    scheduler = Scheduler([8_000], Growth(4, 200))
    for rollout in range(4):
        scheduler.submit(rollout, 2_000)
    running = [start.rollout for start in scheduler.dispatch()]
    assert 2 <= len(running) < 4
    scheduler.call_tool(running[0], 500)
    assert scheduler.dispatch() == []
    for rollout in running[1:]:
        scheduler.call_tool(rollout, 500)
    (start,) = scheduler.dispatch()
    assert start.rollout not in running, "but no new rollout waits for an idle replica"
    scheduler.finish(start.rollout, 10)
    scheduler.resume(running[0], 10)
    assert running[0] in [start.rollout for start in scheduler.dispatch()]


def test_after_two_of_each_group_the_longest_group_comes_first() -> None:
    scheduler = Scheduler([6_000], Growth(4, 500))
    for rollout in range(9):
        scheduler.submit(rollout, 2_000, rollout // 3)
    order = []
    while starts := scheduler.dispatch():
        order += [start.rollout for start in starts]
        for rollout, _, _ in starts:
            scheduler.finish(rollout, [10, 100, 3_000][rollout // 3])
    assert sorted(order[:6]) == [0, 1, 3, 4, 6, 7]
    assert order[6:] == [8, 5, 2]


def test_a_rollout_larger_than_a_replica_runs_alone() -> None:
    scheduler = Scheduler([1_000], Growth(4, 100))
    scheduler.submit(0, 5_000)
    scheduler.submit(1, 10)
    assert [start.rollout for start in scheduler.dispatch()] == [0]
    scheduler.call_tool(0, 100)
    scheduler.resume(0, 1)
    assert [start.rollout for start in scheduler.dispatch()] == [0]


def test_full_replicas_release_the_kv_of_the_smallest_that_waits() -> None:
    """All have called tools and grown: no turn fits until one of them gives up its place."""
    scheduler = Scheduler([10_000], Growth(4, 200))
    for rollout in range(4):
        scheduler.submit(rollout, 100)
    assert len(scheduler.dispatch()) == 4
    for rollout, tokens in enumerate((2_500, 2_400, 2_300, 2_200)):
        scheduler.call_tool(rollout, tokens)
    for rollout in range(4):
        scheduler.resume(rollout, 0)
    assert scheduler.dispatch() == [Start(0, 0, True), Start(1, 0, True), Start(2, 0, True)]
    scheduler.finish(0, 1)
    assert scheduler.dispatch() == [Start(3, 0, False)], "its KV was released"


def test_a_window_grows_by_one_for_each_window_of_turns_and_halves_when_overloaded() -> None:
    scheduler = Scheduler([None], Growth(4, 100))
    for rollout in range(200):
        scheduler.submit(rollout, 10)
    running = [start.rollout for start in scheduler.dispatch()]
    assert len(running) == FIRST_WINDOW
    for rollout in running:
        scheduler.finish(rollout, 1)
    running = [start.rollout for start in scheduler.dispatch()]
    assert len(running) == FIRST_WINDOW + 1 - 1, "grows a little slower than by one: the window is larger each time"
    scheduler.overloaded(0)
    for rollout in running[:6]:
        scheduler.finish(rollout, 1)
    assert scheduler.dispatch() == [], "ten run, and the window is about nine"
    for rollout in running[6:]:
        scheduler.finish(rollout, 1)
    assert FIRST_WINDOW // 2 < len(scheduler.dispatch()) < FIRST_WINDOW


def test_new_rollouts_wait_while_a_replica_has_as_many_as_it_may() -> None:
    scheduler = Scheduler([None], Growth(4, 100), window=8, residents=2)
    for rollout in range(4):
        scheduler.submit(rollout, 10)
    assert {start.rollout for start in scheduler.dispatch()} == {0, 1}
    scheduler.call_tool(0, 5)
    scheduler.fork(0, 9, 15)
    scheduler.resume(9, 5)
    assert [start.rollout for start in scheduler.dispatch()] == [9], "forks go on"
    scheduler.finish(1, 5)
    assert scheduler.dispatch() == [], "a fork and its origin are two"
    scheduler.end(0)
    assert len(scheduler.dispatch()) == 1
    alone = Scheduler([None], Growth(4, 100), window=8, residents=1)
    for rollout in range(2):
        alone.submit(rollout, 10)
    assert len(alone.dispatch()) == 1
    alone.call_tool(0, 5)
    assert len(alone.dispatch()) == 1, "nothing runs, so another one begins"


def test_what_does_not_fit_the_phase_is_refused() -> None:
    scheduler = Scheduler([1_000], Growth(4, 100))
    scheduler.submit(7, 10)
    with pytest.raises(ValueError, match="rollout 7: submitted before"):
        scheduler.submit(7, 10)
    with pytest.raises(ValueError, match="rollout 7: expected one that is running, and it is waiting"):
        scheduler.finish(7, 1)
    with pytest.raises(ValueError, match="rollout 8: expected one that is at a tool, and it is unknown"):
        scheduler.resume(8, 1)
    with pytest.raises(ValueError, match="rollout 8: unknown"):
        scheduler.drop(8)
    with pytest.raises(ValueError, match="capacities"):
        Scheduler([], Growth(4, 100))
    with pytest.raises(ValueError, match="capacities"):
        Scheduler([5, 0], Growth(4, 100))
