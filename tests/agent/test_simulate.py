"""The simulator of rollouts: it does what it says, and every scheduler ends every rollout in it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.agent.simulate import (
    SCHEDULERS,
    Hardware,
    LeastRequests,
    Outcome,
    Router,
    Scheduled,
    StaticSplit,
    compare_schedulers,
    simulate,
)
from rstar.agent.traces import Trace, draw_traces
from rstar.models.growth import Growth
from rstar.models.scheduler import Start
from tests.cli.commands import rstar

PLAIN = Hardware(capacity=1_000, max_turns=4, step=1.0, per_turn=0.0, per_token=0.0, prefill=0.1)


def test_one_rollout_by_hand() -> None:
    """Prefill of 10 tokens, 20 steps, 3 s of the tool, prefill of its 5 tokens, 7 steps."""
    trace = Trace(10, ((20, 5, 3.0), (7, 0, 0.0)))
    found = simulate([trace], 1, StaticSplit(1, 1), PLAIN)
    assert found.makespan == pytest.approx(1 + 20 + 3 + 0.5 + 7)
    assert found.idle == pytest.approx(3 / found.makespan)
    assert found.hits == pytest.approx(30 / 35)
    assert found.preemptions == 0
    assert [turns for _, turns in found.running[0]] == [1, 0, 1, 0]


def test_turns_of_a_replica_advance_together() -> None:
    """The prefill of both comes first; the longer turn goes on alone."""
    traces = [Trace(10, ((20, 0, 0.0),)), Trace(10, ((30, 0, 0.0),))]
    assert simulate(traces, 1, StaticSplit(1, 2), PLAIN).makespan == pytest.approx(2 + 30)
    costly = Hardware(capacity=1_000, step=1.0, per_turn=0.5, per_token=0.0, prefill=0.0)
    assert simulate(traces, 1, StaticSplit(1, 2), costly).makespan == pytest.approx(20 * 2.0 + 10 * 1.5)


def test_turns_that_outgrow_the_memory_are_pre_empted_and_computed_again() -> None:
    """Two turns of 100 prompt tokens grow to 150 each: after 25 steps of both, the second loses its place."""
    small = Hardware(capacity=250, max_turns=4, step=1.0, per_turn=0.0, per_token=0.0, prefill=0.1)
    traces = [Trace(100, ((50, 0, 0.0),)), Trace(100, ((50, 0, 0.0),))]
    found = simulate(traces, 1, StaticSplit(1, 2), small)
    assert found.preemptions == 1 / 2
    assert found.makespan == pytest.approx(20 + 50 + 12.5 + 25)


def test_a_cache_that_gave_way_is_a_miss() -> None:
    small = Hardware(capacity=150, max_turns=4, step=1.0, per_turn=0.0, per_token=0.0, prefill=0.1)
    traces = [Trace(50, ((10, 5, 100.0), (10, 0, 0.0))), Trace(100, ((40, 0, 0.0),))]
    assert simulate(traces[:1], 1, StaticSplit(1, 1), small).hits == pytest.approx(60 / 65)
    assert simulate(traces, 1, StaticSplit(1, 2), small).hits == 0


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 10**6), st.integers(2_000, 40_000))
def test_every_scheduler_ends_every_rollout(replicas: int, rollouts: int, seed: int, capacity: int) -> None:
    traces = draw_traces(rollouts, 2, seed)
    hardware = Hardware(capacity=capacity)
    routers: list[Router] = [
        router(replicas, len(traces), 2, Growth(10, 1_000)) for name, router in SCHEDULERS.items() if name != "rstar"
    ]
    routers.append(Scheduled([capacity] * replicas, Growth(10, 1_000), 2))
    for router in routers:
        found = simulate(traces, replicas, router, hardware)
        assert found.makespan > 0
        assert 0 <= found.idle < 1
        assert 0 <= found.hits <= 1


def test_a_scheduler_that_forgets_rollouts_is_noticed() -> None:
    class Forgetful(StaticSplit):
        def begin(self, prompts: list[int]) -> list[Start]:  # type: ignore[override]
            return super().begin(prompts)[:-1]

    with pytest.raises(RuntimeError, match="left rollouts waiting"):
        simulate(draw_traces(2, 2, 1), 2, Forgetful(2, 4))


def test_memory_is_the_point_of_the_scheduler() -> None:
    """At a quarter of the paper's scale: hardly any pre-emption, most prefixes kept, and a shorter makespan."""
    count = 0

    def done() -> None:
        nonlocal count
        count += 1

    found = compare_schedulers(1, 3, replicas=8, problems=64, group=32, done=done)
    assert count == len(found) == 5
    one: dict[str, Outcome] = {name: outcomes[0] for name, outcomes in found.items()}
    ours = one.pop("rstar")
    assert ours.preemptions < 0.02 < min(other.preemptions for other in one.values())
    assert ours.hits > 0.7 > max(other.hits for other in one.values())
    assert ours.makespan < min(other.makespan for other in one.values())


def test_least_requests_counts_what_is_under_way() -> None:
    router = LeastRequests(2)
    assert [router.place(n) for n in range(3)] == [0, 1, 0]
    router.turn_ended(0, 1, last=False)
    router.turn_ended(2, 1, last=True)
    assert router.place(0) == 0
    sticky = LeastRequests(2, sticky=True)
    assert [sticky.place(n) for n in (0, 1, 0, 0, 2)] == [0, 1, 0, 0, 1]


def test_the_command_prints_a_table_and_draws_a_timeline_of_each_scheduler(tmp_path: Path) -> None:
    page = tmp_path / "timeline.html"
    small = ("--traces", "2", "--seed", "3", "--replicas", "3", "--problems", "4", "--group", "4")
    found = json.loads(rstar("bench", "rollout", *small, "--report", str(page), "--json").stdout)
    assert list(found) == list(SCHEDULERS)
    assert found["rstar"]["share"] == 1
    expected = compare_schedulers(2, 3, replicas=3, problems=4, group=4, done=lambda *_: None)
    assert found["static split"]["makespan"] == pytest.approx(fmean(one.makespan for one in expected["static split"]))
    table = rstar("bench", "rollout", *small).stdout
    assert all(name in table and name in page.read_text() for name in SCHEDULERS)
    assert page.read_text().count("<svg") == len(SCHEDULERS)
