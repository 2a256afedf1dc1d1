"""Faults in the middle of a training: it ends with the curve and the weights of an undisturbed one."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rstar.rl.loop import train
from rstar.rl.settings import RLConfig
from rstar.sections import read_recipe
from rstar.tiny.generate import draw_set, write_set
from tests.judge.services import free_port, serving
from tests.rl.trainings import no_bar, without_times

WORLD = '''
from rstar.agent.environment import Mathematics

class Digits(Mathematics):
    """Rewards texts of certain lengths, as a program in the sandbox counts them."""

    async def reward(self, key, trajectory, sandbox, limits):
        result = await sandbox.run(f"print(len({trajectory.text!r}) % 3)", None, limits)
        assert result.ok
        return float(result.stdout == "0\\n")
'''

RECIPE = """
policy = "tiny"
algorithm = "grpo-roc"
groups = 2
rollouts = 6
keep = 4
draws = 3
evaluate_every = 3
evaluate_rollouts = 2
warmup_steps = 0
ahead = 1
problems = { file = "problems.jsonl" }
held_out = { file = "problems.jsonl" }
search = { method = "agent", environment = "rl_faults_world:Digits", max_turns = 1, max_turn_tokens = 12 }
engine = { processes = 0 }
train = { optimizer = "adamw", other_lr = 1e-4, bf16 = false, checkpoint_seconds = 1e-9 }
stage = [{ steps = 8 }]
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for _ in write_set(tmp_path / "problems.jsonl", draw_set(6, 5, "numbers", "1-2", ["word"])):
        pass
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "rl_faults_world.py").write_text(WORLD)
    return tmp_path / "recipe.toml"


def assert_equal(ours: Path, whole: Path) -> None:
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert without_times(ours / name) == without_times(whole / name)
    steps = without_times(whole / "metrics.jsonl")
    assert any(step["groups_trained"] for step in steps)
    name = "model/model.safetensors"
    assert (ours / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_killed_at_ten_places(recipe: Path, tmp_path: Path) -> None:
    def start(out: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rstar", "rl", "run", str(recipe), "--out", str(tmp_path / out)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def groups() -> int:
        file = tmp_path / "killed" / "rollouts.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    recipe.write_text(RECIPE.replace("steps = 8", "steps = 24"))
    assert start("whole").wait() == 0
    draw = random.Random(11)
    for _ in range(10):
        run, enough = start("killed"), groups() + draw.randint(1, 2)
        while run.poll() is None and groups() < enough:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.3))  # some kills fall into an update or an evaluation
        assert run.poll() is None
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert start("killed").wait() == 0
    assert_equal(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_sandboxes_that_die(recipe: Path, tmp_path: Path) -> None:
    settings = read_recipe(RLConfig, recipe, overrides=["groups=4", "rollouts=24"])
    train(settings, tmp_path / "whole", lambda text: None, no_bar)
    with sandboxes_dying(every=0.5) as deaths:
        train(settings, tmp_path / "disturbed", lambda text: None, no_bar)
    assert len(deaths) > 2
    assert_equal(tmp_path / "disturbed", tmp_path / "whole")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_judge_that_restarts(recipe: Path, tmp_path: Path) -> None:
    """Cells and rewards go through the service; a training with a sandbox of its own gives the same."""
    longer = ["search.max_turns=3", "search.max_turn_tokens=64", "search.max_response_tokens=300"]
    settings = read_recipe(RLConfig, recipe, overrides=longer)
    train(settings, tmp_path / "whole", lambda text: None, no_bar)
    assert any(step["calls"] > 0 for step in without_times(tmp_path / "whole" / "metrics.jsonl"))
    port = free_port()
    remote = read_recipe(RLConfig, recipe, overrides=[*longer, f"sandbox.place=http://127.0.0.1:{port}"])
    with judge_restarting(tmp_path, port, every=2.0) as starts:
        train(remote, tmp_path / "disturbed", lambda text: None, no_bar)
    assert len(starts) > 2
    assert_equal(tmp_path / "disturbed", tmp_path / "whole")


@contextmanager
def judge_restarting(folder: Path, port: int, every: float) -> Iterator[list[float]]:
    """A judge service that is stopped every so many seconds and started again; yields the times of its starts."""
    starts: list[float] = []
    serves, ended = threading.Event(), threading.Event()

    def serve() -> None:
        while not ended.is_set():
            with serving(folder, port=port):
                starts.append(time.monotonic())
                serves.set()
                ended.wait(every)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert serves.wait(60)
        yield starts
    finally:
        ended.set()
        thread.join()


@contextmanager
def sandboxes_dying(every: float) -> Iterator[list[int]]:
    """Kill one of the sandbox's own processes every so many seconds; yields the list of those killed.

    Only processes that have lived as long: one that is killed whenever it starts is no fault but a broken machine.
    """
    killed: list[int] = []
    seen: set[int] = set()
    ended, draw = threading.Event(), random.Random(3)

    def kill() -> None:
        while not ended.wait(every):
            found = {pid for pid in descendants(os.getpid()) if "rstar.sandbox" in command_line(pid)}
            if old := sorted(found & seen):
                killed.append(draw.choice(old))
                os.kill(killed[-1], signal.SIGKILL)
            seen.update(found)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def descendants(parent: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{parent}/task").iterdir():
            for pid in map(int, (task / "children").read_text().split()):
                found += [pid, *descendants(pid)]
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
