"""Distributed training: this process's rank, collectives, and sharding of the model.

An ordinary launcher starts the processes (``torchrun --nproc-per-node 2 -m rstar …``, ``accelerate launch``), all with
the same command, and passes ranks in its environment variables. FSDP2 shards weights, gradients and optimizers: a
block's parameters are gathered when it is computed and freed afterwards.

Every process briefly holds the whole model before sharding, and all share one file system.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rstar.errors import ConfigError, RstarError
from rstar.models.decoder import Block
from rstar.models.device import open_device, resolve_device

LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that a launcher sets."""
TIMEOUT = timedelta(hours=2)  # other processes wait while the main one reads the data
FORWARD_METHODS = ("hidden",)
"""Methods besides ``forward`` that an objective may call."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that train together.

    Attributes:
        rank: process number, from 0; 0 is the main process, the only one that writes and prints.
        count: number of processes.
        device: device of this process.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def main(self) -> bool:
        """Whether this is the main process."""
        return self.rank == 0

    def share(self, items: int) -> list[int | None]:
        """This process's share of `items` indices; all shares have equal length, padded with None."""
        mine: list[int | None] = [*range(self.rank, items, self.count)]
        return mine + [None] * (-(-items // self.count) - len(mine))

    def total(self, *values: float) -> list[float]:
        """Sum each value over all processes. All processes call this."""
        sums = torch.tensor(values, dtype=torch.float64)
        if self.count > 1:
            dist.all_reduce(sums)
        return sums.tolist()

    def value(self, scalar: Tensor) -> float:
        """Value of a scalar that may be sharded. All processes call this."""
        if self.count > 1:
            from torch.distributed.tensor import DTensor

            scalar = scalar.full_tensor() if isinstance(scalar, DTensor) else scalar
        return float(scalar)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Run the block in the main process first, then in the others, which can use its files.

        Raises:
            RstarError: in the others, the main process's error.
        """
        if self.count > 1 and not self.main:
            self._share_error(None)
        try:
            yield
        except BaseException as error:
            if self.count > 1 and self.main:
                self._share_error(error if isinstance(error, RstarError) else RstarError(f"main process: {error!r}"))
            raise
        if self.count > 1 and self.main:
            self._share_error(None)

    def _share_error(self, error: RstarError | None) -> None:
        """Broadcast the main process's error, or None; raises it in the others."""
        errors = [error]
        dist.broadcast_object_list(errors, device=torch.device("cpu"))
        if errors[0] is not None and not self.main:
            raise errors[0]

    def place(self, model: nn.Module) -> None:
        """Move a model to this process's device, and shard it across all processes."""
        model.to(self.device)
        if self.count == 1:
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.device.type, (self.count,))
        for block in [module for module in model.modules() if isinstance(module, Block)]:
            fully_shard(block, mesh=mesh)
        # Parameters outside the blocks stay gathered between forward and backward: the output matrix is used after the
        # method that FSDP hooks.
        fully_shard(model, mesh=mesh, reshard_after_forward=False)
        for name in FORWARD_METHODS:
            if hasattr(model, name):
                register_fsdp_forward_method(model, name)


def is_main() -> bool:
    """Whether this is the main or only process, according to its launcher."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def process_group(device: str = "auto") -> Iterator[Ranks]:
    """Join the launcher's process group; a single process without a launcher.

    All processes leave together, unless one fails.

    Args:
        device: a torch device, or ``auto``: cuda if available. Each process takes its own cuda device.

    Raises:
        ConfigError: the device does not exist, or the launcher's environment variables are incomplete.
    """
    name, _ = resolve_device(device, "float32")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks(0, 1, open_device(name))
        return
    if missing := [variable for variable in LAUNCHER if variable not in os.environ]:
        raise ConfigError(f"WORLD_SIZE is set, but not {', '.join(missing)}: start with torchrun or accelerate launch")
    if name == "cuda":
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    place = open_device(name)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if not dist.is_initialized():
        # gloo beside nccl for small values on the CPU. The group lasts for the life of the process: leaving and joining
        # again hangs in the launcher's store.
        dist.init_process_group("cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo", timeout=TIMEOUT)
        atexit.register(dist.destroy_process_group)
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), place)
    yield ranks
    ranks.total(0.0)  # wait until the main process has written everything


def computes_bf16(device: torch.device) -> bool:
    """Whether the device has native bfloat16 matrix products: measured 2.3 to 3.4 times as fast as float32 on a CPU.

    Emulated bfloat16 is slower than float32.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    abilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # missing in older torch: float32
    return any(value for name, value in abilities.items() if name.endswith("bf16"))
