"""Stages of a training: what each changes, and what it leaves to the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from rstar.jsonl import read_lines
from rstar.rl.settings import Stage
from rstar.train.loop import Trainer
from tests.rl.trainings import config, here, run, some_easy

__all__ = ["here"]


def test_stages_drop_what_is_always_solved(tmp_path: Path) -> None:
    settings = some_easy(tmp_path, "012", stages=[{"steps": 1}, {"steps": 1, "skip_solved": 8}])
    run(settings, tmp_path / "out")
    kept = set(json.loads((tmp_path / "out" / "stage2.json").read_text())["problems"])
    assert kept
    assert kept <= set("345")
    second = {line["problem"] for line in read_lines(tmp_path / "out" / "rollouts.jsonl") if line["step"] == 2}
    assert second
    assert second <= kept


@pytest.mark.parametrize("stop_after", [None, 1])
def test_a_stage_whose_problems_are_all_solved_is_left_out(tmp_path: Path, stop_after: int | None) -> None:
    stages = [{"steps": 1}, {"steps": 2, "skip_solved": 2}, {"steps": 1}]
    settings = some_easy(tmp_path, "012345", stages=stages)
    if stop_after:
        run(settings, tmp_path / "out", stop_after)
    run(settings, tmp_path / "out")
    assert [line["step"] for line in read_lines(tmp_path / "out" / "metrics.jsonl", "step")] == [1, 4]
    assert (tmp_path / "out" / "model").is_dir()


@pytest.mark.parametrize(("reset", "trainers"), [(False, 1), (True, 2)])
def test_a_stage_can_begin_with_a_fresh_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reset: bool, trainers: int
) -> None:
    made: list[Trainer[Any]] = []

    class Counted(Trainer[Any]):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr("rstar.rl.loop.Trainer", Counted)
    run(config(tmp_path, stages=[{"steps": 1}, {"steps": 1, "reset_optimizer": reset}]), tmp_path / "out")
    assert len(made) == trainers


@pytest.mark.parametrize("stop_after", [None, 3])
def test_a_stage_has_its_own_problems_and_environment(tmp_path: Path, stop_after: int | None) -> None:
    """Each list of problems has an order of its own, which goes on in the next stage that has the same list."""
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps({"id": f"b{i}", "question": f"{i}!", "answer": "1"}) + "\n" for i in range(40)))
    second = {"problems": {"file": other}, "environment": "rl_world:Stages"}
    settings = config(tmp_path, stages=[{"steps": 1}, {"steps": 2} | second, {"steps": 1}])
    if stop_after:
        run(settings, tmp_path / "out", stop_after)
    run(settings, tmp_path / "out")
    lines = list(read_lines(tmp_path / "out" / "rollouts.jsonl"))
    by_step = {step: [line for line in lines if line["step"] == step] for step in range(1, 5)}
    assert {line["problem"][0] for line in by_step[2] + by_step[3]} == {"b"}
    assert not {line["problem"][0] for line in by_step[1] + by_step[4]} & {"b"}
    assert {reward for line in by_step[2] for reward in line["rewards"]} <= {-0.5, -0.25}
    draws = [line["draw"] for line in sorted(by_step[2] + by_step[3], key=lambda line: (line["step"], line["draw"]))]
    assert draws == list(range(len(draws)))
    draws = [line["draw"] for line in sorted(by_step[1] + by_step[4], key=lambda line: (line["step"], line["draw"]))]
    assert draws == list(range(len(draws)))
    names = [line["problem"] for line in by_step[2] + by_step[3]]
    assert len(set(names)) == len(names), "none is drawn twice before all were drawn"


@pytest.mark.parametrize("stop_after", [None, 1])
def test_the_token_limit_of_a_stage_is_for_its_training_rollouts_alone(tmp_path: Path, stop_after: int | None) -> None:
    stages = [{"steps": 1, "max_response_tokens": 2}, {"steps": 1}]
    settings = config(tmp_path, stages=stages, evaluate_every=1, evaluate_rollouts=8)
    if stop_after is not None:
        run(settings, tmp_path / "out", stop_after)
    run(settings, tmp_path / "out")
    metrics = list(read_lines(tmp_path / "out" / "metrics.jsonl", "step"))
    assert metrics[0]["response_tokens"] <= 2 < metrics[1]["response_tokens"]
    evaluations = list(read_lines(tmp_path / "out" / "evaluations.jsonl", "step"))
    assert [line["step"] for line in evaluations] == [0, 1, 2]
    assert all(line["response_tokens"] > 2 for line in evaluations)


def test_a_stage_says_only_what_it_changes() -> None:
    assert Stage(steps=1).limits() == {}
    assert Stage(steps=1, max_repeats=0, max_response_tokens=9).limits() == {"max_response_tokens": 9, "max_repeats": 0}
