"""The folder of a training: whose it is, and who is writing in it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from rstar.errors import DataError
from rstar.models.spec import check_folder, fingerprint
from rstar.runs import Folder, read_config
from rstar.train.checkpoint import CHECKPOINT
from rstar.train.ranks import Ranks, computes_bf16, joined
from rstar.train.settings import TrainConfig
from rstar.train.trackers import check_trackers

MODEL = "model"
C = TypeVar("C", bound=TrainConfig)


@contextmanager
def claimed(config: C, data: Sequence[Path], folder: Path) -> Iterator[tuple[C, Ranks]]:
    """The folder of one training, made if need be, and the processes that train in it together.

    A new folder in which a training is refused, because of its data, say, is removed again.

    Yields:
        The settings with ``bf16`` decided, and this process among all.

    Raises:
        ConfigError: a base, a device or a package that is not there.
        DataError: a missing data file.
        ResumeError: `folder` was written with another configuration or other data, or is in use by another process.
    """
    check_trackers(config)
    if config.threads:
        torch.set_num_threads(config.threads)
    with joined(config.device) as ranks, ExitStack() as stack:
        with ranks.main_first():
            config = _decided(config, folder, ranks.device)
            if ranks.main:
                opened = stack.enter_context(Folder.open(folder, _identity(config, data)))
                stack.callback(_keep_progress, opened)
                opened.begin()
        yield config, ranks


def _keep_progress(folder: Folder) -> None:
    if (folder.path / CHECKPOINT).exists():
        folder.keep()


def _decided(config: C, folder: Path, device: torch.device) -> C:
    """The settings with ``bf16`` decided.

    Numbers rounded in another way are another training. So ``bf16 = "auto"`` means what it meant when the folder was
    begun, on whatever machine it is continued.
    """
    if config.bf16 != "auto":
        return config
    old = read_config(folder)
    bf16 = computes_bf16(device) if old is None else bool(old["identity"].get("bf16"))
    return config.model_copy(update={"bf16": bf16})


def _identity(config: TrainConfig, data: Sequence[Path]) -> dict[str, Any]:
    for file in data:
        if not file.is_file():
            raise DataError(f"no data file {file}")
    identity = config.identity()
    if config.base is not None:
        check_folder(config.base, f"base = {str(config.base)!r}")
        identity["base"] = fingerprint(config.base)  # wherever it lies
    identity["data.sha256"] = [hashlib.sha256(file.read_bytes()).hexdigest() for file in data]
    return identity


@contextmanager
def finished(folder: Path) -> Iterator[Path]:
    """A place for the finished model, which becomes `MODEL` in the training's folder when the block ends: what has that
    name is always whole.
    """
    part, out = folder / f"{MODEL}.part", folder / MODEL
    shutil.rmtree(part, ignore_errors=True)
    yield part
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)
