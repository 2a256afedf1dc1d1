"""Metric trackers: ``metrics.jsonl`` always, TensorBoard and Weights & Biases if configured.

A resumed training repeats the steps since its last checkpoint; their metrics are recorded only once.
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
    """A destination of metrics."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Record the metrics of `step` (from 1; in rising order)."""
        ...

    def close(self) -> None:
        """Flush and close."""
        ...


class JsonLines:
    """``metrics.jsonl``: one line per logged step."""

    def __init__(self, folder: Path, step: int) -> None:
        """Open the file, dropping the lines of an interrupted training after `step`."""
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
    """Step of a line; infinity for a torn or damaged line, so that it is dropped."""
    try:
        return float(json.loads(line)["step"]) if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


class TensorBoard:
    """Event files in ``tensorboard/``. On resume, a new file makes readers discard the steps after the checkpoint."""

    def __init__(self, folder: Path, step: int) -> None:
        writer = _module("tensorboardX", "tensorboard").SummaryWriter
        # Event file names have a resolution of seconds; the suffix avoids overwriting one of the same second.
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
    """A W&B run, its id stored in the folder. The service keeps the first value of a step, which is the same."""

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
    """Raise `ConfigError` if a configured tracker is not installed."""
    if config.tensorboard:
        _module("tensorboardX", "tensorboard")
    if config.wandb is not None:
        _module("wandb", "wandb")


@contextmanager
def opened_trackers(config: TrainConfig, folder: Path, step: int, main: bool = True) -> Iterator[list[Tracker]]:
    """Open the trackers of a training resumed after `step`; none in processes other than the main one."""
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
