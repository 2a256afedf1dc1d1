"""Where the metrics of a training go: ``metrics.jsonl`` always, TensorBoard and Weights & Biases as the settings say.

A training that is continued makes the steps behind its last checkpoint again. Their metrics stand everywhere once.
"""

from __future__ import annotations

import importlib
import json
import math
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from rstar.errors import ConfigError
from rstar.train.settings import TrainConfig

METRICS, EVENTS, WANDB_ID = "metrics.jsonl", "tensorboard", "wandb_id"


class Tracker(Protocol):
    """One place that metrics go to."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Record what was measured at `step` (from 1; in rising order)."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class JsonLines:
    """``metrics.jsonl``: a line for each step that is logged."""

    def __init__(self, folder: Path, step: int) -> None:
        """Open, and drop what an interrupted training wrote about the steps after `step`."""
        file = folder / METRICS
        if file.exists():
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            kept = [line for line in lines if _step(line) <= step]
            part = file.with_suffix(".part")
            part.write_text("".join(kept), encoding="utf-8")
            part.replace(file)
        self._out = file.open("a", encoding="utf-8")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._out.write(json.dumps({"step": step, **values}) + "\n")
        self._out.flush()

    def close(self) -> None:
        """See `Tracker`."""
        self._out.close()


def _step(line: str) -> float:
    """Which step a line is of; a torn or damaged one is of none that was finished."""
    try:
        return float(json.loads(line)["step"]) if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


class TensorBoard:
    """Event files in ``tensorboard/``. A new one tells readers to forget the steps after the one it goes on from."""

    def __init__(self, folder: Path, step: int) -> None:
        writer = _module("tensorboardX", "tensorboard").SummaryWriter
        # The names of event files count seconds: the suffix keeps one of the same second from being overwritten.
        self._writer: Any = writer(
            str(folder / EVENTS), purge_step=step + 1, flush_secs=10, filename_suffix=f".{step:09d}"
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """See `Tracker`."""
        self._writer.close()


class WeightsAndBiases:
    """A run of a project; its id lies in the folder. The service keeps the first value of a step, which is the same."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        file = folder / WANDB_ID
        if not file.exists():
            file.write_text(uuid.uuid4().hex, encoding="utf-8")
        self._run: Any = _module("wandb", "wandb").init(
            project=config.wandb,
            id=file.read_text(encoding="utf-8"),
            name=folder.resolve().name,
            dir=str(folder),
            resume="allow",
            config=config.model_dump(mode="json"),
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """See `Tracker`."""
        self._run.finish()


def check_trackers(config: TrainConfig) -> None:
    """Raise `ConfigError` where what the settings ask for is not installed."""
    if config.tensorboard:
        _module("tensorboardX", "tensorboard")
    if config.wandb is not None:
        _module("wandb", "wandb")


@contextmanager
def opened_trackers(config: TrainConfig, folder: Path, step: int, main: bool = True) -> Iterator[list[Tracker]]:
    """The trackers of a training that goes on after `step`; none in a process that is not the main one."""
    if not main:
        yield []
        return
    with ExitStack() as stack:
        trackers: list[Tracker] = []

        def add(tracker: Tracker) -> None:
            stack.callback(tracker.close)
            trackers.append(tracker)

        add(JsonLines(folder, step))
        if config.tensorboard:
            add(TensorBoard(folder, step))
        if config.wandb is not None:
            add(WeightsAndBiases(folder, config))
        yield trackers


def _module(name: str, setting: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        where = "rstar[local]" if name == "tensorboardX" else name
        raise ConfigError(f"{setting}: needs {error.name}; install {where}, or leave `{setting}` out") from error
