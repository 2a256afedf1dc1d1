"""Metrics arrive once, wherever they go, also when a training is continued."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from rstar.errors import ConfigError
from rstar.train.settings import TrainConfig
from rstar.train.trackers import EVENTS, METRICS, check_trackers, json_lines, opened_trackers


def log(config: TrainConfig, folder: Path, after: int, last: int, name: str = "loss") -> None:
    """Steps `after` + 1 to `last` of a training."""
    with opened_trackers(config, folder, after) as trackers:
        for step in range(after + 1, last + 1):
            for record in trackers:
                record(step, {name: step + after / 10})


def events(file: Path) -> Iterator[Event]:
    """The records of an event file: length, checksum, data, checksum."""
    data = file.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]


def points(folder: Path) -> list[tuple[int, float]]:
    """What TensorBoard shows: a session's start makes it forget what it read of that step and later ones."""
    found: list[tuple[int, float]] = []
    for file in sorted((folder / EVENTS).iterdir()):
        for event in events(file):
            if event.session_log.status == SessionLog.START:
                found = [point for point in found if point[0] < event.step]
            found += [(event.step, round(value.simple_value, 3)) for value in event.summary.value]
    return found


def test_steps_made_again_are_there_once(tmp_path: Path) -> None:
    config = TrainConfig()
    log(config, tmp_path, 0, 5)
    with (tmp_path / METRICS).open("a") as file:
        file.write('{"step": 6, "lo')  # killed while writing
    log(config, tmp_path, 3, 7)
    wanted = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.3), (5, 5.3), (6, 6.3), (7, 7.3)]
    assert points(tmp_path) == wanted
    rows = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    assert [(row["step"], row["loss"]) for row in rows] == wanted


def test_damaged_metrics_do_not_stop_a_training(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"st\xff\n[]\n{"step": 2}\n{"step": 3')
    with json_lines(tmp_path, 3):
        pass
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n'


def test_tensorboard_can_be_left_out(tmp_path: Path) -> None:
    log(TrainConfig(tensorboard=False), tmp_path, 0, 1)
    assert [file.name for file in tmp_path.iterdir()] == [METRICS]


def test_only_the_main_process_writes(tmp_path: Path) -> None:
    with opened_trackers(TrainConfig(), tmp_path, 0, main=False) as trackers:
        assert trackers == []
    assert not list(tmp_path.iterdir())


class FakeRun:
    def __init__(self, **settings: object) -> None:
        self.settings, self.logged, self.finished = settings, [], False

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.finished = True


def test_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[FakeRun] = []
    fake = ModuleType("wandb")
    fake.init = lambda **settings: runs.append(FakeRun(**settings)) or runs[-1]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    config = TrainConfig(wandb="sums", tensorboard=False)
    check_trackers(config)
    log(config, tmp_path, 0, 2)
    log(config, tmp_path, 1, 2)
    assert [run.logged for run in runs] == [[(1, {"loss": 1.0}), (2, {"loss": 2.0})], [(2, {"loss": 2.1})]]
    assert all(run.finished and run.settings["project"] == "sums" for run in runs)
    assert runs[0].settings["id"] == runs[1].settings["id"]
    assert runs[1].settings["resume"] == "allow"


@pytest.mark.parametrize(
    ("config", "missing", "message"),
    [
        (TrainConfig(wandb="sums", tensorboard=False), "wandb", "wandb: needs wandb; install wandb"),
        (TrainConfig(), "tensorboardX", r"tensorboard: needs tensorboardX; install rstar\[local\]"),
    ],
)
def test_what_is_asked_for_and_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, config: TrainConfig, missing: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=message):
        check_trackers(config)
