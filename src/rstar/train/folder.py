"""Ownership of a training folder: its identity, and a lock against other processes."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from rstar.errors import DataError
from rstar.models.spec import check_folder, fingerprint
from rstar.runs import RunFolder, read_config
from rstar.train.checkpoint import CHECKPOINT
from rstar.train.ranks import Ranks, computes_bf16, process_group
from rstar.train.settings import C, TrainConfig
from rstar.train.trackers import check_trackers

MODEL = "model"


@contextmanager
def training_folder(config: C, data: Sequence[Path], folder: Path) -> Iterator[tuple[C, Ranks]]:
    """Open the folder of a training, created if missing, and join the processes that train in it.

    A new folder is removed again if the training is refused, for example because of its data.

    Yields:
        The settings with ``bf16`` resolved, and this process's ranks.

    Raises:
        ConfigError: a missing base, device or package.
        DataError: a missing data file.
        ResumeError: `folder` has another configuration or other data, or is in use by another process.
    """
    check_trackers(config)
    with process_group(config.device) as ranks, ExitStack() as stack:
        with ranks.main_first():
            old = read_config(folder)
            config = with_bf16(config, None if old is None else old["identity"], ranks.device)
            if ranks.main:
                opened = stack.enter_context(RunFolder.open(folder, _identity(config, data)))
                stack.callback(lambda: opened.keep() if (folder / CHECKPOINT).exists() else None)
                opened.begin()
        yield config, ranks


def with_bf16(config: C, stored: Mapping[str, Any] | None, device: torch.device) -> C:
    """Resolve ``bf16`` in the settings.

    Different rounding is a different training, so ``bf16 = "auto"`` keeps the value it had when the folder was created,
    on whatever machine training resumes.

    Args:
        config: the settings.
        stored: the settings that identify the training in its folder; None for a new folder.
        device: of the training.
    """
    if config.bf16 != "auto":
        return config
    return config.model_copy(update={"bf16": computes_bf16(device) if stored is None else bool(stored.get("bf16"))})


def _identity(config: TrainConfig, data: Sequence[Path]) -> dict[str, Any]:
    for file in data:
        if not file.is_file():
            raise DataError(f"data file {file} is missing")
    identity = config.identity()
    if config.base is not None:
        check_folder(config.base, f"base = {str(config.base)!r}")
        identity["base"] = fingerprint(config.base)  # independent of its path
    identity["data.sha256"] = [hashlib.sha256(file.read_bytes()).hexdigest() for file in data]
    return identity


@contextmanager
def model_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder for the finished model; it becomes `MODEL` when the block ends, so `MODEL` is always complete."""
    part, out = folder / f"{MODEL}.part", folder / MODEL
    shutil.rmtree(part, ignore_errors=True)
    yield part
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)
