"""Where a model computes: devices, arithmetic, and how many processor threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from rstar.errors import ConfigError

SMALL = 4_000_000
"""A model of fewer parameters gains little from several threads, and the code of its steps needs the processors."""


def resolve_device(device: str, dtype: str) -> tuple[str, str]:
    """Device and dtype, with what ``auto`` means on this machine."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    return device, dtype


def open_device(device: str) -> torch.device:
    """A device of this machine. Raises `ConfigError` for one that is not there."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:  # which of them depends on how torch was built
        raise ConfigError(f"device {device!r}: {str(error).splitlines()[0]}") from error


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """One thread for a small model on a CPU: several wait for each other, and very long where the machine is busy."""
    before = torch.get_num_threads()
    weights = list(model.parameters())
    if weights[0].device.type == "cpu" and sum(weight.numel() for weight in weights) < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
