"""Muon: momentum, orthogonalised per matrix by a Newton–Schulz iteration (https://kellerjordan.github.io/posts/muon).

Same arithmetic as `torch.optim.Muon`, which does not support sharded matrices: it would run every product of the
iteration distributed, and round differently. Here each sharded matrix is gathered once, one process orthogonalises it
while the others do the same for other matrices, and each takes its shard of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS, EPSILON = 5, 1e-7


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum, for matrices, whole or sharded (`DTensor`).

    Args:
        params: matrices.
        lr: learning rate, multiplied by sqrt(height / width) for matrices taller than wide.
        momentum: decay of the running mean of gradients.
        weight_decay: decoupled, multiplied by `lr`.
        dtype: dtype of the iteration.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            matrices = [p for p in group["params"] if p.grad is not None]
            updates = orthogonal((self._momentum(p, group["momentum"]) for p in matrices), self._dtype)
            for matrix, update in zip(matrices, updates, strict=True):
                height, width = matrix.shape
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-group["lr"] * math.sqrt(max(1.0, height / width)))

    def _momentum(self, matrix: Tensor, momentum: float) -> Tensor:
        gradient, state = matrix.grad, self.state[matrix]
        assert gradient is not None
        if not state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        running: Tensor = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(running, momentum)


def newton_schulz(matrix: Tensor) -> Tensor:
    """Matrix of about the same singular vectors with singular values near 1, in the dtype of `matrix`."""
    a, b, c = COEFFICIENTS
    high = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if high else matrix
    x = x / x.norm().clamp(min=EPSILON)
    for _ in range(ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if high else x


def orthogonal(matrices: Iterable[Tensor], dtype: torch.dtype) -> Iterator[Tensor]:
    """`newton_schulz` of each matrix in `dtype`; the result for a `DTensor` is sharded as it is.

    All processes must call this with the same matrices. At most one gathered matrix per process is in memory.
    """
    if not dist.is_initialized():
        yield from (newton_schulz(matrix.to(dtype)) for matrix in matrices)
        return
    from torch.distributed.tensor import DTensor

    rest = iter(matrices)
    while group := [matrix.to(dtype) for matrix in islice(rest, dist.get_world_size())]:
        yield from _shared(group) if isinstance(group[0], DTensor) else map(newton_schulz, group)


def _shared(matrices: Sequence[Any]) -> Iterator[Tensor]:
    """`newton_schulz` of sharded matrices (`DTensor`), at most one per process."""
    from torch.distributed.tensor import DTensor, Replicate

    wholes = [matrix.full_tensor().contiguous() for matrix in matrices]
    mine = dist.get_rank()
    if mine < len(wholes):
        wholes[mine] = newton_schulz(wholes[mine]).contiguous()
    for owner, (matrix, whole) in enumerate(zip(matrices, wholes, strict=True)):
        dist.broadcast(whole, owner)
        everywhere = DTensor.from_local(whole, matrix.device_mesh, [Replicate()])
        yield everywhere.redistribute(placements=matrix.placements)
