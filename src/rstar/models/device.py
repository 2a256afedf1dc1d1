"""Device, dtype and thread count of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from rstar.errors import ConfigError

SMALL = 4_000_000
"""Models with fewer parameters gain little from threads, and their code steps need the processors."""


def resolve_device(device: str, dtype: str) -> tuple[str, str]:
    """Resolve ``auto`` to the device and dtype of this machine."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    return device, dtype


def open_device(device: str) -> torch.device:
    """Open a torch device. Raises `ConfigError` if this machine does not have it."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:  # which one depends on the torch build
        raise ConfigError(f"device {device!r}: {str(error).splitlines()[0]}") from error


def is_small(model: nn.Module, device: torch.device) -> bool:
    """Whether several threads gain little: they wait for each other, for very long on a busy machine."""
    return device.type == "cpu" and sum(weight.numel() for weight in model.parameters()) < SMALL


def useful_threads(model: nn.Module, device: torch.device) -> int:
    """Number of threads for `model`: one if it `is_small`, else torch's choice.

    The number changes how sums are rounded. Torch gives a new thread the number that any other thread set last, so a
    thread whose results must be reproducible sets its own.
    """
    return 1 if is_small(model, device) else torch.get_num_threads()


@contextmanager
def few_threads(model: nn.Module) -> Iterator[None]:
    """Compute with the number of threads that `useful_threads` gives."""
    before = torch.get_num_threads()
    torch.set_num_threads(useful_threads(model, next(model.parameters()).device))
    try:
        yield
    finally:
        torch.set_num_threads(before)
