"""What a training changed, without most of its noise.

The gradient of a few hundred rollouts is partly noise. In the sum of all updates, noise is spread over all singular
components of a weight matrix, and what trainings with different seeds agree on is in the first ones
(`docs/results.md`, "The bundled agent").
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from rstar.models.decoder import Decoder

_MORE = 8
"""Components beyond those wanted, and iterations, of the randomized decomposition: what makes it exact enough."""


@torch.no_grad()
def with_low_rank_change(model: Decoder, start: Decoder, rank: int) -> Decoder:
    """A copy of `model` in which the change of each matrix since `start` has at most this rank.

    The largest singular components are kept. Vectors (norms, biases) keep their whole change.

    Args:
        model: the trained model, on the CPU in float32.
        start: the model before training; the same shapes.
        rank: at least 1.
    """
    copied = copy.deepcopy(model)
    before = dict(start.named_parameters())
    for name, weight in copied.named_parameters():
        if weight.ndim == 2:
            weight.copy_(before[name] + largest_components(weight - before[name], rank))
    return copied


def largest_components(matrix: Tensor, rank: int) -> Tensor:
    """The `rank` largest singular components of a matrix (M, N), summed: (M, N). Equal for equal input."""
    if min(matrix.shape) <= rank:
        return matrix
    with torch.random.fork_rng(devices=[]):  # the decomposition begins with a random matrix
        torch.manual_seed(0)
        u, s, v = torch.svd_lowrank(matrix, min(rank + _MORE, *matrix.shape), niter=_MORE)
    return (u[:, :rank] * s[:rank]) @ v[:, :rank].T
