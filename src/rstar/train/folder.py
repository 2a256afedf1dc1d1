"""The folder of a training: whose it is, and who is writing in it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from rstar.errors import ConfigError, DataError
from rstar.models.spec import check_folder, fingerprint
from rstar.runs import abandon, check_identity, lock_folder, read_identity, write_json
from rstar.train.checkpoint import CHECKPOINT
from rstar.train.ranks import Ranks, computes_bf16, joined
from rstar.train.settings import TrainConfig
from rstar.train.trackers import check_trackers

IDENTITY, MODEL = "config.json", "model"
C = TypeVar("C", bound=TrainConfig)


@contextmanager
def claimed(config: C, data: Sequence[Path], folder: Path) -> Iterator[tuple[C, Ranks]]:
    """The folder for one training, made if need be, and the processes that train in it together.

    Yields:
        The settings with ``bf16`` decided, and this process among all.

    A new folder in which a training is refused, because of its data, say, is gone again.

    Raises:
        ConfigError: a base, a device or a package that is not there.
        DataError: a missing data file.
        ResumeError: `folder` was written with another configuration or other data, or is in use by another process.
    """
    check_trackers(config)
    if config.threads:
        torch.set_num_threads(config.threads)
    with joined(config.device) as ranks:
        lock, new = None, False
        try:
            with ranks.main_first():
                lock = lock_folder(folder) if ranks.main else None
                new = ranks.main and not any(folder.iterdir())
                config = _claim(config, data, folder, ranks.device)
            yield config, ranks
        except (ConfigError, DataError):
            if new and not (folder / CHECKPOINT).exists():
                abandon(folder)
            raise
        finally:
            if lock is not None:
                os.close(lock)


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


def _claim(config: C, data: Sequence[Path], folder: Path, device: torch.device) -> C:
    """Write the training's identity into the folder, or refuse a folder of another one.

    Numbers rounded in another way are another training. So ``bf16 = "auto"`` means what it meant when the folder was
    begun, on whatever machine it is continued.
    """
    for file in data:
        if not file.is_file():
            raise DataError(f"no data file {file}")
    file = folder / IDENTITY
    old = read_identity(file)
    if config.bf16 == "auto":
        config = config.model_copy(update={"bf16": computes_bf16(device) if old is None else bool(old.get("bf16"))})
    identity = config.identity()
    if config.base is not None:
        check_folder(config.base, f"base = {str(config.base)!r}")
        identity["base"] = fingerprint(config.base)  # wherever it lies
    identity["data.sha256"] = [hashlib.sha256(file.read_bytes()).hexdigest() for file in data]
    if not check_identity(file, identity):
        write_json(file, identity)
    return config
