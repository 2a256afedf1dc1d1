"""Faults in the middle of a training: it ends with the curve and the weights of an undisturbed one."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rstar.rl.loop import train
from rstar.rl.settings import RLConfig
from rstar.sections import read_recipe
from rstar.tiny.generate import draw_set, write_set
from tests.rl.test_loop import no_bar, without_times

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
search = { method = "agent", environment = "mathematics", max_turns = 3, max_turn_tokens = 96 }
engine = { processes = 0 }
train = { optimizer = "adamw", other_lr = 1e-4, bf16 = false, checkpoint_seconds = 1e-9 }
stage = [{ steps = 6 }]
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for _ in write_set(tmp_path / "problems.jsonl", draw_set(6, 5, "numbers", "1-2", ["word"])):
        pass
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path / "recipe.toml"


def assert_equal(ours: Path, whole: Path) -> None:
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        assert without_times(ours / name) == without_times(whole / name)
    name = "model/model.safetensors"
    assert (ours / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_killed_at_ten_places(recipe: Path, tmp_path: Path) -> None:
    def start(out: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rstar", "rl", "run", str(recipe), "--out", str(tmp_path / out)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    assert start("whole").wait() == 0
    draw, kills = random.Random(11), 0
    while kills < 10:
        run = start("killed")
        try:
            assert run.wait(draw.uniform(2, 12)) == 0
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.wait()
            kills += 1
        else:
            break
    assert kills > 2
    assert start("killed").wait() == 0
    assert_equal(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_sandboxes_that_die(recipe: Path, tmp_path: Path) -> None:
    settings = read_recipe(RLConfig, recipe, overrides=["groups=4", "rollouts=12"])
    train(settings, tmp_path / "whole", lambda text: None, no_bar)
    with sandboxes_dying(every=1.0) as deaths:
        train(settings, tmp_path / "disturbed", lambda text: None, no_bar)
    assert len(deaths) > 2
    assert_equal(tmp_path / "disturbed", tmp_path / "whole")


@contextmanager
def sandboxes_dying(every: float) -> Iterator[list[int]]:
    """Kill one of the sandbox's own processes every so many seconds; yields the list of those killed."""
    killed: list[int] = []
    ended, draw = threading.Event(), random.Random(3)

    def kill() -> None:
        while not ended.wait(every):
            if found := [pid for pid in children(os.getpid()) if "rstar.sandbox" in command_line(pid)]:
                killed.append(draw.choice(found))
                os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
