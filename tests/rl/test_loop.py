"""A whole training: it learns, and an interrupted one ends as an uninterrupted one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rstar.agent.environment import Puzzles
from rstar.agent.solver import AgentSolver
from rstar.config import EngineConfig
from rstar.errors import ConfigError, DataError, EngineError, ResumeError, SandboxError
from rstar.jsonl import read_lines
from rstar.rl.groups import Group, Maker
from rstar.rl.guard import Guard
from rstar.rl.loop import train
from rstar.rl.settings import RLConfig
from rstar.sections import read_recipe
from rstar.train.loop import Trainer, Update
from tests.rl.trainings import config, here, no_bar, run, some_easy, without_times

__all__ = ["here"]


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("checkpoint_seconds", [1e9, 1e-9])
def test_an_interrupted_training_ends_like_an_uninterrupted_one(
    tmp_path: Path, ahead: int, checkpoint_seconds: float
) -> None:
    settings = config(tmp_path, ahead=ahead)
    settings = settings.model_copy(
        update={"train": settings.train.model_copy(update={"checkpoint_seconds": checkpoint_seconds})}
    )
    assert [line["staleness"] for line in run(settings, tmp_path / "whole")] == [0, *[ahead] * 3]
    for stop_after in (1, 2, 4):
        run(settings, tmp_path / "parts", stop_after)
    assert not (tmp_path / "parts" / "model").exists()
    run(settings, tmp_path / "parts")
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert without_times(tmp_path / "parts" / name) == without_times(tmp_path / "whole" / name)
    weights = [(tmp_path / out / "model" / "model.safetensors").read_bytes() for out in ("whole", "parts")]
    assert weights[0] == weights[1]
    stored = [
        sorted(line["id"] for line in read_lines(tmp_path / out / "rollouts.jsonl")) for out in ("whole", "parts")
    ]
    assert stored[0] == stored[1]


@pytest.mark.parametrize(
    ("ahead", "train_threads", "engine_threads", "expected"),
    [
        (1, None, None, (0, None)),  # one thread each: the model is small
        (1, 2, None, (1, 2)),
        (1, None, 2, (1, 2)),
        (1, 2, 1, (1, 1)),
        (0, 2, None, (0, None)),  # nothing is computed beside the updates
    ],
)
def test_an_engine_beside_updates_with_threads_has_a_process_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahead: int,
    train_threads: int | None,
    engine_threads: int | None,
    expected: tuple[int, int | None],
) -> None:
    """In one process, torch would round the same sums differently from run to run."""
    seen: list[EngineConfig] = []

    async def enter(self: AgentSolver) -> None:
        seen.append(self.config.engine)
        raise EngineError("enough")

    monkeypatch.setattr(AgentSolver, "__aenter__", enter)
    settings = config(tmp_path, ahead=ahead, engine={"processes": 0, "threads": engine_threads})
    settings = settings.model_copy(update={"train": settings.train.model_copy(update={"threads": train_threads})})
    with pytest.raises(EngineError, match="enough"):
        run(settings, tmp_path / "out")
    assert [(engine.processes, engine.threads) for engine in seen] == [expected]


def test_all_updates_run_in_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread that has updated once keeps gigabytes of its own."""
    threads: list[tuple[int, int]] = []
    step = Trainer.step

    def watched(self: Trainer[Any], *args: Any) -> Update:
        threads.append((threading.get_ident(), torch.get_num_threads()))
        return step(self, *args)

    monkeypatch.setattr(Trainer, "step", watched)
    run(config(tmp_path, ahead=1), tmp_path / "out")
    assert len(threads) > 2
    assert len(set(threads)) == 1


def test_rounding_is_fixed_when_the_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``bf16 = "auto"`` keeps its value on another machine, so a resumed run is the same run."""
    settings = config(tmp_path, stages=[{"steps": 2}])
    settings = settings.model_copy(update={"train": settings.train.model_copy(update={"bf16": "auto"})})
    for name, stops in (("whole", [None]), ("parts", [1, None])):
        monkeypatch.setattr("rstar.train.folder.computes_bf16", lambda device: False)
        for stop_after in stops:
            run(settings, tmp_path / name, stop_after)
            monkeypatch.setattr("rstar.train.folder.computes_bf16", lambda device: True)
        identity = json.loads((tmp_path / name / "config.json").read_text())["identity"]
        assert identity["train"]["bf16"] is False
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_reward_rises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rstar.rl.evaluation.can_draw", lambda: True)
    settings = config(
        tmp_path,
        policy="tiny",
        groups=4,
        rollouts=16,
        keep=16,
        stages=[{"steps": 12}],
        evaluate_every=12,
        evaluate_rollouts=32,
    )
    run(settings, tmp_path / "out")
    before, after = (line["mean"] for line in read_lines(tmp_path / "out" / "evaluations.jsonl", "step"))
    assert after > before + 0.2
    assert "Reward of the training rollouts" in (tmp_path / "out" / "report.html").read_text()
    assert (tmp_path / "out" / "report.png").is_file()


def test_rewards_below_0_teach_and_are_no_collapse(tmp_path: Path) -> None:
    search = {"method": "agent", "environment": "rl_world:Stages", "max_turns": 1, "max_turn_tokens": 6}
    settings = config(tmp_path, search=search, stages=[{"steps": 11}], evaluate_every=11)
    metrics = run(settings, tmp_path / "out")
    assert len(metrics) == 11
    assert all(-0.5 <= line["reward"] <= -0.25 for line in metrics)
    assert any(line["groups_trained"] == 2 for line in metrics)
    assert [line["mean"] for line in read_lines(tmp_path / "out" / "evaluations.jsonl", "step")] == [0, 0]


def test_groups_are_divided_into_minibatches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    step = Trainer.step

    def watched(self: Trainer[Any], *args: Any) -> Update:
        sizes.append(len(args[0]))
        return step(self, *args)

    monkeypatch.setattr(Trainer, "step", watched)
    run(config(tmp_path, minibatches=2, stages=[{"steps": 2}]), tmp_path / "out")
    metrics = list(read_lines(tmp_path / "out" / "metrics.jsonl", "step"))
    assert len(sizes) == sum(line["groups_trained"] for line in metrics) == 4


def test_a_majority_can_take_the_place_of_gold_answers(tmp_path: Path) -> None:
    """The rollouts of this policy never answer, so no answer has a majority; by length, some would be right."""
    metrics = run(config(tmp_path, reward="majority", stages=[{"steps": 2}]), tmp_path / "out")
    assert [line["reward"] for line in metrics] == [0, 0]
    assert next(iter(read_lines(tmp_path / "out" / "evaluations.jsonl", "step")))["mean"] > 0


def test_majority_rewards_need_no_gold_answers(tmp_path: Path) -> None:
    unlabelled = tmp_path / "unlabelled.jsonl"
    unlabelled.write_text("".join(json.dumps({"id": str(i), "question": f"{i}?"}) + "\n" for i in range(6)))
    changes = {"problems": {"file": unlabelled}, "stages": [{"steps": 1}]}
    with pytest.raises(DataError, match=r"gold answer"):
        run(config(tmp_path, **changes), tmp_path / "verified")
    assert len(run(config(tmp_path, reward="majority", **changes), tmp_path / "majority")) == 1
    settings = config(tmp_path, reward="majority", held_out={"file": unlabelled}, stages=[{"steps": 1}])
    with pytest.raises(DataError, match=r"gold answer"):
        run(settings, tmp_path / "held_out")


def test_a_step_without_groups_to_train_on_has_all_figures(tmp_path: Path) -> None:
    settings = some_easy(tmp_path, "012345", stages=[{"steps": 1}])
    run(settings, tmp_path / "out")
    run(config(tmp_path, stages=[{"steps": 1}]), tmp_path / "mixed")
    (empty,), (mixed,) = (read_lines(tmp_path / out / "metrics.jsonl", "step") for out in ("out", "mixed"))
    assert empty["groups_trained"] == 0
    assert mixed["groups_trained"] == 2
    assert mixed.keys() - empty.keys() == {"loss", "grad_norm", "lr_factor"}
    assert empty["mismatch"] == empty["masked_share"] == 0


@pytest.mark.parametrize("ahead", [0, 1])
def test_every_token_has_the_version_of_the_weights_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """Evaluations have those after their step, training rollouts those before it, or one older."""
    made: list[tuple[int | str, set[int]]] = []
    make = Maker.make

    async def noted(self: Maker, step: int | str, name: str, draw: int = 0) -> Group:
        group = await make(self, step, name, draw)
        made.append((step, {turn.version for trajectory, _ in group.ends for turn in trajectory.steps}))
        return group

    monkeypatch.setattr(Maker, "make", noted)
    run(config(tmp_path, ahead=ahead, evaluate_every=1, stages=[{"steps": 3}]), tmp_path / "out")
    evaluated = [versions for step, versions in made if step == "evaluation"]
    assert evaluated == [{step} for step in range(4) for _ in range(6)]
    for step, versions in made:
        if isinstance(step, int):
            assert versions == {max(0, step - 1 - ahead)}


def test_several_processes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def two(device: str) -> Iterator[Any]:
        yield SimpleNamespace(count=2, device=torch.device("cpu"))

    monkeypatch.setattr("rstar.rl.loop.process_group", two)
    with pytest.raises(ConfigError, match="without torchrun"):
        run(config(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_question_that_fills_the_context_ends_no_training(tmp_path: Path) -> None:
    settings = config(tmp_path, stages=[{"steps": 3}])
    with (tmp_path / "problems.jsonl").open("a") as file:
        file.write(json.dumps({"id": "long", "question": "why " * 3000, "answer": "1"}) + "\n")
    run(settings, tmp_path / "out")
    assert (tmp_path / "out" / "model").is_dir()
    lines = [line for line in read_lines(tmp_path / "out" / "rollouts.jsonl") if line["problem"] == "long"]
    assert [(line["nodes"][0]["finish"], len(line["rewards"])) for line in lines] == [("length", 1)]


def test_a_collapse_ends_the_training_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewards: dict[int, float] = {}

    def add(self: Guard, step: int, reward: float) -> None:
        rewards[step] = reward
        self.collapsed |= step == 2

    monkeypatch.setattr(Guard, "add", add)
    settings = config(tmp_path)
    run(settings, tmp_path / "out")
    assert list(rewards) == [1, 2]
    assert (tmp_path / "out" / "model").is_dir()
    assert run(settings, tmp_path / "out") == []


def test_rollouts_that_fail_beside_an_update_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The update before them counts as never made: repeated later, they need weights one version older than its."""
    settings = config(tmp_path, ahead=1)
    run(settings, tmp_path / "whole")
    make, failing = Maker.make, [3]

    async def make_or_fail(self: Maker, step: int | str, name: str, draw: int = 0) -> Group:
        if step in failing:
            raise SandboxError("gone")
        return await make(self, step, name, draw)

    monkeypatch.setattr(Maker, "make", make_or_fail)
    with pytest.raises(SandboxError, match="gone"):
        run(settings, tmp_path / "parts")
    failing.clear()
    run(settings, tmp_path / "parts")
    metrics = [without_times(tmp_path / out / "metrics.jsonl") for out in ("whole", "parts")]
    assert metrics[0] == metrics[1]
    weights = [(tmp_path / out / "model" / "model.safetensors").read_bytes() for out in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_bad_recipes_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only 8 rollouts"):
        config(tmp_path, keep=9)
    with pytest.raises(ValueError, match="expected one of grpo-roc, grpo"):
        config(tmp_path, algorithm="ppo")
    with pytest.raises(ValueError, match=r"train\.epochs: has no effect here"):
        config(tmp_path, train={"epochs": 2})
    with pytest.raises(ValueError, match=r"search\.samples: has no effect here"):
        config(tmp_path, search={"method": "agent", "samples": 4})
    with pytest.raises(ValueError, match=r"search\.concurrency: has no effect here; set `groups`"):
        config(tmp_path, search={"method": "agent", "concurrency": 4})
    with pytest.raises(ValueError, match=r"search\.top_p = 0\.9: training needs rollouts sampled with top_p = 1"):
        config(tmp_path, search={"method": "agent", "top_p": 0.9})
    with pytest.raises(ValueError, match=r"train\.wandb: has no effect here"):
        config(tmp_path, train={"wandb": "mine"})
    with pytest.raises(ValueError, match="trainable model"):
        config(tmp_path, policy="fake:steps")
    with pytest.raises(DataError, match="no file"):
        train(config(tmp_path, held_out={"file": tmp_path / "none.jsonl"}), tmp_path / "out", print, no_bar)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("search", "stage", "message"),
    [
        ({"environment": "rl_world:None_"}, {}, "rl_world:None_"),
        ({"turns": "chat"}, {}, "the model has no chat template"),
        ({"environment": "workup"}, {}, "has no record of its topics"),
        ({}, {"environment": "rl_world:None_"}, "rl_world:None_"),
    ],
)
def test_a_refused_recipe_leaves_the_folder_to_the_corrected_one(
    tmp_path: Path, search: dict[str, Any], stage: dict[str, Any], message: str
) -> None:
    good = {"method": "agent", "environment": "rl_world:Digits", "max_turns": 1, "max_turn_tokens": 6}
    with pytest.raises((ConfigError, DataError), match=message):
        run(config(tmp_path, search=good | search, stages=[{"steps": 1, **stage}]), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert run(config(tmp_path, stages=[{"steps": 1}]), tmp_path / "out")


def test_rollouts_survive_an_error_of_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker.make

    async def fail(self: Maker, step: int | str, name: str, draw: int = 0) -> Group:
        if step == 2:
            raise ConfigError("the environment failed")
        return await make(self, step, name, draw)

    monkeypatch.setattr(Maker, "make", fail)
    with pytest.raises(ConfigError, match="the environment failed"):
        run(config(tmp_path), tmp_path / "out")
    monkeypatch.setattr(Maker, "make", make)
    assert [line["step"] for line in run(config(tmp_path), tmp_path / "out")] == [1, 2, 3, 4]
    assert next(read_lines(tmp_path / "out" / "rollouts.jsonl"))["step"] == 1


def test_the_bundled_agents_train_on_puzzles_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    async def stop(self: Maker, step: int | str, name: str, draw: int = 0) -> Group:
        seen.append(self.solver.environment)
        raise SandboxError("stop")

    monkeypatch.setattr(Maker, "make", stop)
    search = {"method": "agent", "max_turn_tokens": 6}
    with pytest.raises(SandboxError, match="stop"):
        run(config(tmp_path, policy="tiny:agent-start", search=search), tmp_path / "out")
    assert type(seen[0]) is Puzzles


def test_one_level_may_be_a_number(tmp_path: Path) -> None:
    drawn = config(tmp_path, problems={"n": 4, "levels": 2}).problems
    assert drawn.levels == "2"


def test_another_recipe_is_refused(tmp_path: Path) -> None:
    run(config(tmp_path), tmp_path / "out", stop_after=1)
    with pytest.raises(ResumeError, match="seed"):
        run(config(tmp_path, seed=5), tmp_path / "out")
    with pytest.raises(ResumeError, match=r"sandbox\.seconds"):
        run(config(tmp_path, sandbox={"seconds": 1}), tmp_path / "out")
    file = tmp_path / "out" / "config.json"
    stored = json.loads(file.read_text())
    del stored["identity"]["train"]  # as in a run of another kind
    file.write_text(json.dumps(stored))
    with pytest.raises(ResumeError, match="another configuration"):
        run(config(tmp_path), tmp_path / "out")


def test_held_out_problems_that_are_trained_on_are_told(tmp_path: Path) -> None:
    said: list[str] = []
    train(config(tmp_path, stages=[{"steps": 1}]), tmp_path / "out", said.append, no_bar)
    assert "warning: 6 of the 6 held-out problems are training problems, too" in said


def test_damaged_rollouts_are_named(tmp_path: Path) -> None:
    settings = config(tmp_path)
    run(settings, tmp_path / "out", stop_after=1)
    file = tmp_path / "out" / "rollouts.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("".join(line.replace('"draw"', '"drew"') + "\n" for line in lines))
    with pytest.raises(DataError, match=r"rollouts\.jsonl: damaged, or written by another version"):
        run(settings, tmp_path / "out")


def test_a_recipe_without_smoke_says_so(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('policy = "tiny"\n')
    with pytest.raises(ConfigError, match=r"\[smoke\] is missing"):
        read_recipe(RLConfig, tmp_path / "r.toml", smoke=True)


@pytest.mark.parametrize(
    ("name", "steps", "smoke_steps"),
    [("tiny/agent", 24, 2), ("agent/rstar2-14b", 510, 3), ("agent/rlinf-7b", 200, 1)],
)
def test_the_recipes_are_valid(name: str, steps: int, smoke_steps: int) -> None:
    file = Path(__file__).parents[2] / f"recipes/{name}.toml"
    assert [read_recipe(RLConfig, file, smoke).steps for smoke in (False, True)] == [steps, smoke_steps]
