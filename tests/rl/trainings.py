"""Small trainings for the tests of this room."""

import json
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rstar.jsonl import read_lines
from rstar.rl.loop import train
from rstar.rl.settings import RLConfig
from tests.models.tiny_models import write_model

WORLD = '''
from rstar.agent.environment import Mathematics

class Digits(Mathematics):
    """Rewards texts of certain lengths: a thing that can be learnt."""

    async def reward(self, key, trajectory, sandbox, limits):
        return float(len(trajectory.text) % 3 == 0)


class Some(Digits):
    """The questions 0 to 2 are always answered right."""

    async def reward(self, key, trajectory, sandbox, limits):
        return float(key.answer == "easy") or await super().reward(key, trajectory, sandbox, limits)


class Stages(Digits):
    """No right answer, but better and worse ones."""

    async def reward(self, key, trajectory, sandbox, limits):
        return (await super().reward(key, trajectory, sandbox, limits) - 2) / 4
'''


@contextmanager
def no_bar(total: int, what: str) -> Any:
    yield lambda *_: None


def config(tmp_path: Path, **changes: Any) -> RLConfig:
    (tmp_path / "rl_world.py").write_text(WORLD)
    if not (model := tmp_path / "policy").exists():
        write_model(model, spread=0.05)
    problems = tmp_path / "problems.jsonl"
    problems.write_text(
        "".join(json.dumps({"id": str(i), "question": f"{i}?", "answer": "1"}) + "\n" for i in range(6))
    )
    plain: dict[str, Any] = {
        "policy": f"hf:{model}",
        "problems": {"file": problems},
        "held_out": {"file": problems},
        "search": {"method": "agent", "environment": "rl_world:Digits", "max_turns": 1, "max_turn_tokens": 6},
        "engine": {"processes": 0},
        "train": {"optimizer": "adamw", "other_lr": 3e-4, "bf16": False, "checkpoint_seconds": 1e9},
        "groups": 2,
        "rollouts": 8,
        "keep": 4,
        "evaluate_every": 2,
        "evaluate_rollouts": 2,
        "warmup_steps": 0,
        "decay": 0.0,
        "stages": [{"steps": 4}],
    }
    return RLConfig.model_validate(plain | changes)


def run(settings: RLConfig, out: Path, stop_after: int | None = None) -> list[dict[str, float]]:
    """Train; the metrics of each step that this call made."""
    seen: list[dict[str, float]] = []

    class StopError(Exception):
        pass

    def on_step(step: int, metrics: Mapping[str, float]) -> None:
        seen.append({"step": step, **metrics})
        if step == stop_after:
            raise StopError

    with suppress(StopError):
        train(settings, out, lambda text: None, no_bar, on_step)
    return seen


def without_times(file: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in line.items() if not key.startswith("seconds")}
        for line in read_lines(file, "step")
    ]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def some_easy(tmp_path: Path, names: str, **changes: Any) -> RLConfig:
    """A recipe where the problems whose ids are in `names` are always solved."""
    search = {"method": "agent", "environment": "rl_world:Some", "max_turns": 1, "max_turn_tokens": 6}
    settings = config(tmp_path, search=search, **changes)
    answers = {str(i): "easy" if str(i) in names else "1" for i in range(6)}
    lines = [json.dumps({"id": i, "question": f"{i}?", "answer": answer}) + "\n" for i, answer in answers.items()]
    (tmp_path / "problems.jsonl").write_text("".join(lines))
    return settings
