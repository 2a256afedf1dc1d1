"""Training on stored rollouts alone: the same updates, without an engine that makes rollouts."""

import json
from pathlib import Path

import pytest
import torch

from rstar.errors import DataError
from rstar.jsonl import read_lines
from rstar.rl.groups import Maker
from rstar.train.checkpoint import CHECKPOINT
from tests.rl.trainings import config, here, run, without_times

__all__ = ["here"]


def weights(folder: Path) -> dict[str, list[float]]:
    """Those after the last step, which need not be the best ones."""
    model = torch.load(folder / CHECKPOINT, weights_only=True)["model"]
    return {name: weight.flatten().tolist() for name, weight in model.items()}


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_weights_are_those_of_the_training_that_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    run(config(tmp_path, ahead=ahead), tmp_path / "first")
    stored, make = tmp_path / "first" / "rollouts.jsonl", Maker.make

    async def only_evaluations(self: Maker, step: int | str, name: str, draw: int = 0) -> object:
        assert isinstance(step, str), "a training rollout is made"
        return await make(self, step, name, draw)

    monkeypatch.setattr(Maker, "make", only_evaluations)
    settings = config(tmp_path, stored=stored)
    run(settings, tmp_path / "again", stop_after=2)
    run(settings, tmp_path / "again")
    assert weights(tmp_path / "again") == weights(tmp_path / "first")
    first, again = (without_times(tmp_path / name / "metrics.jsonl") for name in ("first", "again"))
    assert [line["loss"] for line in first] == [line["loss"] for line in again]
    assert [line["mean"] for line in read_lines(tmp_path / "first" / "evaluations.jsonl", "step")] == [
        line["mean"] for line in read_lines(tmp_path / "again" / "evaluations.jsonl", "step")
    ]

    run(config(tmp_path, stored=stored, algorithm="gspo"), tmp_path / "other")
    assert weights(tmp_path / "other") != weights(tmp_path / "first")


def test_what_cannot_be_trained_on_is_said_before_any_work(tmp_path: Path) -> None:
    run(config(tmp_path, stages=[{"steps": 1}], evaluate_every=1), tmp_path / "first")
    stored = tmp_path / "first" / "rollouts.jsonl"
    for changes, message in (
        ({"ahead": 1}, "ahead: has no effect"),
        ({"stages": [{"steps": 1, "skip_solved": 8}]}, "skip_solved: has no effect"),
    ):
        with pytest.raises(ValueError, match=message):
            config(tmp_path, stored=stored, **changes)
    with pytest.raises(DataError, match=r"stored: no file .*nowhere\.jsonl"):
        run(config(tmp_path, stored=tmp_path / "nowhere.jsonl"), tmp_path / "out")
    with pytest.raises(DataError, match=r"rollouts\.jsonl: holds no rollouts of step 2; the recipe has 4 steps"):
        run(config(tmp_path, stored=stored), tmp_path / "out")
    assert not (tmp_path / "out" / "metrics.jsonl").exists()
    run(config(tmp_path), tmp_path / "broken", stop_after=3)
    lines = (tmp_path / "broken" / "rollouts.jsonl").read_text().splitlines(keepends=True)
    line = json.loads(lines[-1]) | {"id": "4/99", "step": 4, "draw": 99}
    (tmp_path / "broken" / "rollouts.jsonl").write_text("".join([*lines, json.dumps(line) + "\n"]))
    with pytest.raises(DataError, match=r"its run has finished 3 steps, .*; the recipe has 4 steps"):
        run(config(tmp_path, stored=tmp_path / "broken" / "rollouts.jsonl"), tmp_path / "out")
    lines = [json.loads(line) for line in stored.read_text().splitlines()]
    lines[0]["prompt"]["ids"][0] = 1_000_000
    stored.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = config(tmp_path, stored=stored, stages=[{"steps": 1}])
    with pytest.raises(DataError, match=r"step 1: token 1000000, but the policy knows \d+: .* another model"):
        run(settings, tmp_path / "out2")
