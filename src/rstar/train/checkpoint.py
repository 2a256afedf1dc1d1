"""Checkpoints of weights and optimizers, stored unsharded, so that any number of processes can load them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)

from rstar.errors import DataError, StorageError

CHECKPOINT = "checkpoint.pt"
_FULL = 1 << 20
"""Fewer free bytes than this make a disk full: torch does not say why it could not write."""
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def gather(model: nn.Module) -> dict[str, Tensor]:
    """All weights by name, on the CPU, in the main process; empty in the others. All processes call this."""
    return cast(dict[str, Tensor], get_model_state_dict(model, options=WHOLE))


def save(file: Path, step: int, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], main: bool) -> None:
    """Write the state after `step` atomically, in the main process. All processes call this.

    Raises:
        StorageError: the file cannot be written; the previous checkpoint is kept.
    """
    weights, state = get_state_dict(model, optimizers, options=WHOLE)
    if main:
        part = file.with_suffix(".part")
        try:
            torch.save({"step": step, "model": weights, "optimizers": state}, part)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError on a full disk
            is_full = shutil.disk_usage(file.parent).free < _FULL
            with suppress(OSError):
                part.unlink()
            reason = "no space left on the disk" if is_full else _first_line(error)
            raise StorageError(f"cannot write {part}; {file.name} is kept: {reason}") from error
        part.replace(file)


def load(file: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> int:
    """Load what `save` wrote into a model and its optimizers, sharded as they are. Returns the step. All call this.

    Raises:
        DataError: the file is damaged.
    """
    try:
        saved: dict[str, Any] = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
        step, weights, state = int(saved["step"]), saved["model"], saved["optimizers"]
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, EOFError, UnpicklingError) as error:
        raise DataError(f"{file}: damaged; delete it to train from the beginning: {_first_line(error)}") from error
    set_state_dict(
        model,
        optimizers,
        model_state_dict=weights,
        optim_state_dict=state,
        options=StateDictOptions(full_state_dict=True),
    )
    return step


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
