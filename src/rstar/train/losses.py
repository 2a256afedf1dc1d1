"""Losses as small pure functions of tensors."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from rstar.models.decoder import Decoder
from rstar.models.ppm import PreferenceModel


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


def preference_loss(model: PreferenceModel, ids: Tensor, last: Tensor, pairs: Tensor, weights: Tensor) -> Tensor:
    """Sum over steps of the mean of −log σ(r⁺ − r⁻) over a step's pairs (arXiv 2501.04519, equation 4).

    Args:
        model: gives the scores r.
        ids: (B, T) int64, a candidate in each row, padded at the right.
        last: (B,) int64, the last token of each.
        pairs: (P, 2) int64, rows of the preferred and of the other candidate.
        weights: (P,) float32, one over the number of pairs of the pair's step.

    Returns:
        A scalar; divide by the number of steps for the mean.
    """
    scores = model(ids, last)
    return -(F.logsigmoid(scores[pairs[:, 0]] - scores[pairs[:, 1]]) * weights).sum()
