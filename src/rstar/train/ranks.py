"""Several processes that train one model: who is who, what they tell each other, and how they divide the model.

An ordinary launcher starts them (``torchrun --nproc-per-node 2 -m rstar …``, ``accelerate launch``), all with the same
command, and tells them of each other by its environment variables. Weights, gradients and optimizers are divided by
FSDP2: a block's parameters are put together when it is computed and are given up afterwards.

Every process holds the whole model for a moment, before it is divided, and all share one file system.
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
"""What a launcher tells the processes that it starts."""
PATIENCE = timedelta(hours=2)  # the others wait while the main process reads the data
ENTRANCES = ("hidden",)
"""Methods, beside ``forward``, by which an objective may enter a model."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that train together.

    Attributes:
        rank: its number, from 0; 0 is the main one, which alone writes and prints.
        count: how many they are.
        device: where this one computes.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def share(self, items: int) -> list[int | None]:
        """Which of `items` numbers are this process's: equally many in each, the last one perhaps None."""
        mine: list[int | None] = [*range(self.rank, items, self.count)]
        return mine + [None] * (-(-items // self.count) - len(mine))

    def total(self, *values: float) -> list[float]:
        """Each value summed over all processes; all call this."""
        sums = torch.tensor(values, dtype=torch.float64)
        if self.count > 1:
            dist.all_reduce(sums)
        return sums.tolist()

    def value(self, scalar: Tensor) -> float:
        """A scalar that may be divided among the processes; all call this."""
        if self.count > 1:
            from torch.distributed.tensor import DTensor

            scalar = scalar.full_tensor() if isinstance(scalar, DTensor) else scalar
        return float(scalar)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """What is inside runs in the main process, then in the others, who find what it wrote.

        Raises:
            RstarError: in the others, the error that the main process failed with.
        """
        if self.count > 1 and not self.main:
            self._outcome(None)
        try:
            yield
        except BaseException as error:
            if self.count > 1 and self.main:
                self._outcome(error if isinstance(error, RstarError) else RstarError(f"main process: {error!r}"))
            raise
        if self.count > 1 and self.main:
            self._outcome(None)

    def _outcome(self, error: RstarError | None) -> None:
        """The main process's error, or None, to all."""
        told = [error]
        dist.broadcast_object_list(told, device=torch.device("cpu"))
        if told[0] is not None and not self.main:
            raise told[0]

    def place(self, model: nn.Module) -> None:
        """Move a model to this process's device, and divide it among all processes."""
        model.to(self.device)
        if self.count == 1:
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        mesh = init_device_mesh(self.device.type, (self.count,))
        for block in [module for module in model.modules() if isinstance(module, Block)]:
            fully_shard(block, mesh=mesh)
        # What is outside the blocks stays whole from the forward pass to the backward one: the output matrix is used
        # after the method that FSDP watches.
        fully_shard(model, mesh=mesh, reshard_after_forward=False)
        for name in ENTRANCES:
            if hasattr(model, name):
                register_fsdp_forward_method(model, name)


def is_main() -> bool:
    """Whether this process is the main one, or the only one, by what its launcher says."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def joined(device: str = "auto") -> Iterator[Ranks]:
    """This process among those that its launcher started; alone without one.

    All leave together, unless one fails.

    Args:
        device: a torch device; ``auto``: cuda where there is one. Each process takes a cuda device of its own.

    Raises:
        ConfigError: a device that is not there, or a launcher that says too little.
    """
    name, _ = resolve_device(device, "float32")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks(0, 1, open_device(name))
        return
    if missing := [variable for variable in LAUNCHER if variable not in os.environ]:
        raise ConfigError(f"WORLD_SIZE is set, {', '.join(missing)} not: start with torchrun or accelerate launch")
    if name == "cuda":
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    place = open_device(name)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if not dist.is_initialized():
        # gloo beside nccl: what is agreed upon is small and never on the accelerator. The group is for the life of the
        # process: one that is left and joined again waits for ever in the launcher's store of names.
        dist.init_process_group("cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo", timeout=PATIENCE)
        atexit.register(dist.destroy_process_group)
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), place)
    yield ranks
    ranks.total(0.0)  # nobody leaves before the main process has written all


def computes_bf16(device: torch.device) -> bool:
    """Whether a device multiplies matrices in bfloat16 itself: measured 2.3 to 3.4 times as fast as float32 on a CPU.

    Where it must be emulated it is slower than float32.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    abilities: dict[str, object] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # an older torch does not say: float32
    return any(value for name, value in abilities.items() if name.endswith("bf16"))
