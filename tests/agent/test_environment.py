"""Environments: by name, or a user's own class; rewards from the answer alone."""

import asyncio
import sys
from pathlib import Path

import pytest

from rstar.agent.environment import ENVIRONMENTS, Environment, Mathematics, open_environment
from rstar.answers import AnswerKey
from rstar.errors import ConfigError
from rstar.sandbox.api import Limits
from rstar.trajectories import Segment, Trajectory
from tests.search.plain import PlainSandbox


@pytest.mark.parametrize("name", list(ENVIRONMENTS))
def test_bundled_environments_are_complete(name: str) -> None:
    environment = open_environment(name)
    assert isinstance(environment, Environment)
    assert environment.tools
    assert environment.max_turns > 1


def rewarded(environment: Environment, key: AnswerKey, trajectory: Trajectory) -> float:
    return asyncio.run(environment.reward(key, trajectory, PlainSandbox(), Limits()))


@pytest.mark.parametrize(("answer", "reward"), [("1/2", 1.0), ("0.5", 1.0), ("2", 0.0), (None, 0.0)])
def test_the_reward_is_the_answers(answer: str | None, reward: float) -> None:
    trajectory = Trajectory(Segment("q", "template"), (), None if answer is None else "answer", answer)
    assert rewarded(Mathematics(), AnswerKey("\\frac{1}{2}"), trajectory) == reward


def test_a_check_replaces_the_comparison() -> None:
    key = AnswerKey("", {"kind": "expression", "numbers": [4, 7, 8, 8], "target": 24})
    right, wrong = (Trajectory(Segment("q", "template"), (), "answer", a) for a in ("(7-8/8)*4", "4+7+8+8"))
    assert [rewarded(Mathematics(), key, one) for one in (right, wrong)] == [1.0, 0.0]


def test_an_own_class_is_named_by_module_and_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_world.py").write_text(
        "from rstar.agent.environment import Mathematics\n"
        "class World(Mathematics):\n    max_turns = 3\n"
        "class Half:\n    tools = ()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert open_environment("own_world:World").max_turns == 3
    with pytest.raises(
        ConfigError, match=r"'own_world:Half': the class has no system, max_turns, start, answer, reward"
    ):
        open_environment("own_world:Half")
    with pytest.raises(ConfigError, match="own_world:Nobody"):
        open_environment("own_world:Nobody")
    with pytest.raises(ConfigError, match="nowhere_at_all"):
        open_environment("nowhere_at_all:World")
    (tmp_path / "broken_world.py").write_text("class World(\n")
    with pytest.raises(ConfigError, match=r"'broken_world:World': .*broken_world\.py, line 1"):
        open_environment("broken_world:World")
    (tmp_path / "failing_world.py").write_text("class World:\n    def __init__(self):\n        self.size = int('x')\n")
    with pytest.raises(ConfigError, match=r"'failing_world:World': ValueError: invalid literal"):
        open_environment("failing_world:World")


def test_an_unknown_environment_names_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"expected mathematics, puzzles, programs, workup, verifiers:NAME, or module:Class"
    ):
        open_environment("chess")


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(ConfigError, match=r"environment 'verifiers:gsm8k': .*; install rstar\[verifiers\]"):
        open_environment("verifiers:gsm8k")
