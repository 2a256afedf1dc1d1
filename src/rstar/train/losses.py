"""Losses as small pure functions of tensors."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from rstar.models.decoder import Decoder


def sft_loss(model: Decoder, ids: Tensor, written: Tensor) -> Tensor:
    """Sum of −log p over the tokens that the policy wrote.

    Args:
        model: the policy.
        ids: (B, T) int64.
        written: (B, T) bool; position t is predicted from positions < t, so column 0 never counts.

    Returns:
        A scalar; divide by ``written[:, 1:].sum()`` for the mean. Logits are computed only where they are needed.
    """
    hidden = model.hidden(ids[:, :-1])  # (B, T-1, D)
    wanted = written[:, 1:]
    logits = model.logits(hidden[wanted])  # (n, V)
    return F.cross_entropy(logits.float(), ids[:, 1:][wanted], reduction="sum")
