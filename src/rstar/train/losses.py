"""Training losses as pure functions of tensors."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from rstar.models.decoder import Decoder


def sft_loss(model: Decoder, ids: Tensor, written: Tensor, ends: Tensor | None = None) -> Tensor:
    """Sum of −log p over the tokens that the policy wrote.

    Args:
        model: the policy.
        ids: (B, T) int64.
        written: (B, T) bool; position t is predicted from positions < t, so column 0 never counts.
        ends: (B, T) int64 for packed rows, see `Decoder.hidden`; the first token of each sequence is not `written`.

    Returns:
        A scalar; divide by ``written[:, 1:].sum()`` for the mean. Logits are computed for written tokens only.
    """
    hidden = model.hidden(ids[:, :-1], None if ends is None else ends[:, :-1])  # (B, T-1, D)
    targets = written[:, 1:]
    logits = model.logits(hidden[targets])  # (n, V)
    return F.cross_entropy(logits.float(), ids[:, 1:][targets], reduction="sum")


def preference_loss(scores: Tensor, pairs: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of −log σ(r⁺ − r⁻) over pairs (arXiv 2501.04519, equation 4).

    Args:
        scores: (N,) r, of all candidates.
        pairs: (P, 2) int64, indices of the preferred and the other candidate.
        weights: (P,) float32.

    Returns:
        A scalar.
    """
    return -(F.logsigmoid(scores[pairs[:, 0]] - scores[pairs[:, 1]]) * weights).sum()


def value_loss(scores: Tensor, q: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of (r − Q)²; all of shape (N,)."""
    return ((scores - q).square() * weights).sum()


def outcome_loss(scores: Tensor, pairs: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of the cross-entropy of right and wrong solutions; arguments as in `preference_loss`.

    A score r in (-1, 1) means that a solution is right with probability (1 + r) / 2.
    """
    right, wrong = (1 + scores[pairs[:, 0]]) / 2, (1 - scores[pairs[:, 1]]) / 2
    return -((right.clamp_min(1e-6).log() + wrong.clamp_min(1e-6).log()) / 2 * weights).sum()
