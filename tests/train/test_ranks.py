"""Several processes train as one does."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rstar.errors import ConfigError
from rstar.models.decoder_files import load_decoder
from rstar.models.ppm.model import load_ppm
from rstar.train.ranks import LAUNCHER, Ranks, computes_bf16, process_group
from tests.train.trainings import prepare, train

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which two processes of an ordinary launcher have trained, the last time until the main one failed."""
    home = tmp_path_factory.mktemp("two")
    prepare(home)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    script = str(Path(__file__).with_name("trainings.py"))
    with (home / "log").open("w") as log:
        group = subprocess.Popen(
            [*launcher, "--nproc-per-node", "2", script, str(home)], stdout=log, stderr=log, start_new_session=True
        )
        try:
            group.wait(150)
        finally:
            stop_all(group.pid)
    assert "StopError" in (home / "log").read_text()
    assert group.returncode == 1
    return home


def stop_all(launcher: int) -> None:
    """End a launcher; what it started ends with it, or is ended here."""
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(launcher)], capture_output=True, text=True, check=False
    )
    for pid in [launcher, *map(int, children.stdout.split())]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def checkpoint(folder: Path) -> dict:
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def assert_same_state(first: Path, second: Path) -> None:
    one, other = checkpoint(first), checkpoint(second)
    assert one["step"] == other["step"] > 0
    assert one["model"].keys() == other["model"].keys()
    for name, tensor in one["model"].items():
        assert torch.allclose(tensor, other["model"][name], atol=2e-5), name
    states = one["optimizers"]["state"], other["optimizers"]["state"]
    assert states[0].keys() == states[1].keys() == one["model"].keys()
    for name, state in states[0].items():
        for key, tensor in state.items():
            assert torch.allclose(tensor, states[1][name][key], atol=2e-5), (name, key)


@pytest.mark.parametrize("kind", ["sft", "ppm"])
def test_two_processes_train_as_one(two: Path, kind: str) -> None:
    alone = train(kind, two, two / f"{kind}-one")
    together = json.loads((two / f"{kind}-two.json").read_text())
    assert len(alone) > 4
    assert together == pytest.approx(alone, abs=1e-5)
    assert_same_state(two / f"{kind}-one", two / f"{kind}-two")
    rows = [(two / f"{kind}-{name}" / "metrics.jsonl").read_text().splitlines() for name in ("one", "two")]
    assert len(rows[0]) == len(rows[1])
    norms = [json.loads(lines[-1])["grad_norm"] for lines in rows]
    assert norms[1] == pytest.approx(norms[0], abs=2e-5)  # the optimizers do not mind its scale, and it may be clipped
    load = load_decoder if kind == "sft" else load_ppm
    models = [load(two / f"{kind}-{name}" / "model", torch.float32) for name in ("one", "two")]
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(one, other, atol=1e-2)  # stored in bfloat16


def test_what_two_began_one_ends(two: Path) -> None:
    """An objective that draws random numbers, stopped by a failure of the main process."""
    assert checkpoint(two / "noisy-parts")["step"] == 3
    whole = train("noisy", two, two / "noisy-one")
    rest = train("noisy", two, two / "noisy-parts")
    assert rest == pytest.approx(whole[3:], abs=1e-5)
    assert_same_state(two / "noisy-one", two / "noisy-parts")


def test_each_number_is_shared_out_once_and_rounds_are_equal() -> None:
    for count, items in ((1, 3), (2, 3), (4, 8), (4, 1), (3, 7)):
        shares = [Ranks(rank, count, CPU).share(items) for rank in range(count)]
        assert len({len(share) for share in shares}) == 1
        assert sorted(n for share in shares for n in share if n is not None) == list(range(items))


def test_a_launcher_that_says_too_little_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in LAUNCHER:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT"), process_group("cpu"):
        pass


@pytest.mark.parametrize(
    ("abilities", "able"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, True),
        ({"bf16": True, "sve_bf16": False}, True),
        ({"avx512_f": True, "avx512_bf16": False}, False),
    ],
)
def test_bf16_is_for_processors_that_have_it(
    monkeypatch: pytest.MonkeyPatch, abilities: dict[str, bool], able: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: abilities)
    assert computes_bf16(CPU) is able


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="device 'cuda:77'"), process_group("cuda:77"):
        pass
