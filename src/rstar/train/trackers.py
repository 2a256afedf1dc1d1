"""Metric trackers: ``metrics.jsonl`` always, TensorBoard and Weights & Biases if configured.

A resumed training repeats the steps since its last checkpoint; their metrics are recorded only once.
"""

from __future__ import annotations

import importlib
import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from rstar.errors import ConfigError
from rstar.train.settings import TrainConfig

METRICS, EVENTS, WANDB_ID = "metrics.jsonl", "tensorboard", "wandb_id"


Log = Callable[[int, Mapping[str, float]], object]
"""Records the metrics of a step (from 1; in rising order)."""


@contextmanager
def json_lines(folder: Path, step: int) -> Iterator[Log]:
    """``metrics.jsonl``: one line per logged step. Lines of an interrupted training after `step` are dropped."""
    file = folder / METRICS
    if file.exists():
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        part = file.with_suffix(".part")
        part.write_text("".join(line for line in lines if _step(line) <= step), encoding="utf-8")
        part.replace(file)
    with file.open("a", encoding="utf-8", buffering=1) as out:
        yield lambda step, values: out.write(json.dumps({"step": step, **values}) + "\n")


def _step(line: str) -> float:
    """Step of a line; infinity for a torn or damaged line, so that it is dropped."""
    try:
        return float(json.loads(line)["step"]) if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


@contextmanager
def tensorboard(folder: Path, step: int) -> Iterator[Log]:
    """Event files in ``tensorboard/``. On resume, a new file makes readers discard the steps after the checkpoint."""
    open_writer = _module("tensorboardX", "tensorboard").SummaryWriter
    # Event file names have a resolution of seconds; the suffix avoids overwriting one of the same second.
    suffix = f".{step:09d}"
    with open_writer(str(folder / EVENTS), purge_step=step + 1, flush_secs=10, filename_suffix=suffix) as writer:
        yield lambda step, values: [writer.add_scalar(name, value, step) for name, value in values.items()]


@contextmanager
def weights_and_biases(folder: Path, config: TrainConfig) -> Iterator[Log]:
    """A W&B run, its id stored in the folder. The service keeps the first value of a step, which is the same."""
    file = folder / WANDB_ID
    if not file.exists():
        file.write_text(uuid.uuid4().hex, encoding="utf-8")
    run: Any = _module("wandb", "wandb").init(
        project=config.wandb,
        id=file.read_text(encoding="utf-8"),
        name=folder.resolve().name,
        dir=str(folder),
        resume="allow",
        config=config.model_dump(mode="json"),
    )
    try:
        yield lambda step, values: run.log(dict(values), step=step)
    finally:
        run.finish()


def check_trackers(config: TrainConfig) -> None:
    """Raise `ConfigError` if a configured tracker is not installed."""
    if config.tensorboard:
        _module("tensorboardX", "tensorboard")
    if config.wandb is not None:
        _module("wandb", "wandb")


@contextmanager
def opened_trackers(config: TrainConfig, folder: Path, step: int, main: bool = True) -> Iterator[list[Log]]:
    """Open the trackers of a training resumed after `step`; none in processes other than the main one."""
    with ExitStack() as stack:
        trackers = [json_lines(folder, step)] if main else []
        if main and config.tensorboard:
            trackers.append(tensorboard(folder, step))
        if main and config.wandb is not None:
            trackers.append(weights_and_biases(folder, config))
        yield [stack.enter_context(tracker) for tracker in trackers]


def _module(name: str, setting: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        where = "rstar[local]" if name == "tensorboardX" else name
        raise ConfigError(f"{setting}: needs {error.name}; install {where}, or leave out `{setting}`") from error
