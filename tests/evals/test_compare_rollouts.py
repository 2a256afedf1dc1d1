"""Agents, compared by their single rollouts."""

from typing import Any

import pytest
from rich.console import Console

from rstar.evals.compare_rollouts import Rollouts, compare_rollouts, rollouts_by_problem, rollouts_table


def end(votes: int, correct: bool, error: str | None = None) -> dict[str, Any]:
    return {"votes": votes, "correct": correct, "error": error}


def result(
    name: str, *ends: dict[str, Any], failures: dict[str, int], with_error: int, checked: int, level: int = 1
) -> dict[str, Any]:
    """A line of ``results.jsonl`` of eight rollouts, with two turns and 50 tokens each."""
    agent = {"turns": 16, "with_error": with_error, "checked": checked}
    fields = {"rollouts": 8, "tokens_out": 400, "failures": failures, "agent": agent, "meta": {"level": level}}
    return {"id": name, "correct": True, "trajectories": list(ends), **fields}


START = [
    result("a", end(2, True), end(4, False), failures={"gave_up": 1, "length": 1}, with_error=2, checked=3),
    result("b", failures={"gave_up": 8}, with_error=8, checked=0, level=2),
]
AGENT = [
    result(
        "a",
        end(2, True),
        end(4, True, "AssertionError (line 1)"),
        end(1, False),
        failures={"no_answer": 1},
        with_error=5,
        checked=7,
    ),
    result("b", end(4, True, "KeyError: 1 (line 1)"), failures={"deadline": 4}, with_error=8, checked=4, level=2),
]
AGENTS = {"start": rollouts_by_problem(START), "agent": rollouts_by_problem(AGENT)}


def test_a_rollout_counts_once_for_each_vote() -> None:
    assert Rollouts.of(AGENT[0]) == Rollouts(8, 6, 5, 4, 7, 7, 0, 1, 16, 400, {"level": 1})
    assert Rollouts.of(START[1]) == Rollouts(8, 0, 8, 0, 0, 0, 8, 0, 16, 400, {"level": 2})


def test_problems_without_a_gold_answer_are_left_out() -> None:
    ungraded = {key: value for key, value in START[0].items() if key != "correct"}
    assert rollouts_by_problem([ungraded]) == {}


def test_rows_by_hand() -> None:
    start, agent = compare_rollouts(AGENTS)
    assert (start.k, start.problems, start.mean, start.pass_k, start.difference) == (8, 2, 2 / 16, 1 / 2, None)
    assert (start.repaired, start.given_up, start.unfinished) == (0.0, 9 / 16, 1 / 16)
    assert (agent.mean, agent.pass_k, agent.repaired) == (10 / 16, 1.0, 8 / 10)
    assert (agent.right_after_error, agent.right_without_error) == (8 / 13, 2 / 3)
    assert (start.right_after_error, start.right_without_error, start.checked) == (0.0, 2 / 6, 3 / 6)
    assert (agent.turns, agent.tokens) == (2.0, 50.0)
    assert agent.difference is not None
    assert agent.difference[0] == pytest.approx(1 / 2)  # 6 / 8 - 2 / 8, and 4 / 8 - 0
    assert start.low < start.mean < start.high


def test_rows_of_some_problems() -> None:
    start, agent = compare_rollouts(AGENTS, lambda meta: meta["level"] == 2)
    assert (start.problems, start.mean, agent.mean) == (1, 0.0, 1 / 2)
    assert compare_rollouts(AGENTS, lambda meta: False) == []


def test_the_table_names_k() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(rollouts_table(compare_rollouts(AGENTS), "rollouts"))
    text = shown.get()
    assert "mean@8" in text
    assert "pass@8" in text
    assert "+50.0 [" in text
