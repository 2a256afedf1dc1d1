"""Losses of policy optimisation, as pure functions of log-probabilities.

Shapes: S sequences of at most T tokens; `mask` is 1 on the tokens that the policy sampled. A sequence may stand for
several equal rollouts (`counts`). All losses are sums; the caller divides by the number of tokens, or of sequences.

Three policies take part. The *sampler* wrote the tokens, on an engine whose kernels round otherwise and whose weights
may be a step older. The *old* policy has the trainer's weights at the start of the step. The *new* one is optimised.
Ratios of new to old are clipped; what sampler and old compute differently is corrected by truncated weights, and
sequences on which they differ grossly are left out (`correction`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Clip:
    """Bounds of the ratio.

    Attributes:
        low, high: the ratio counts up to 1 − low below and 1 + high above. ``high > low`` lets unlikely tokens grow
            (clip-higher, arXiv 2503.14476, section 3.1).
        dual: with a negative advantage, the ratio counts up to this much (arXiv 1912.09729); None: no bound.
    """

    low: float = 0.2
    high: float = 0.28
    dual: float | None = None


Loss = Callable[[Tensor, Tensor, Tensor, Tensor, Clip], tuple[Tensor, Tensor]]
"""From new and old log-probabilities (S, T), mask (S, T), advantages (S, T) and clip to the loss per token (S, T), and
which tokens were clipped (S, T)."""


def clipped(new: Tensor, old: Tensor, mask: Tensor, advantages: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """The clipped surrogate per token (PPO, arXiv 1707.06347; GRPO, RLOO and Dr. GRPO use it)."""
    ratio = (new - old).exp()
    return _surrogate(ratio, advantages, clip)


def sequence_clipped(new: Tensor, old: Tensor, mask: Tensor, advantages: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """The clipped surrogate with one ratio per sequence, the geometric mean of its tokens' (GSPO, arXiv 2507.18071)."""
    tokens = mask.sum(1, keepdim=True).clamp_min(1)
    ratio = (((new - old) * mask).sum(1, keepdim=True) / tokens).exp()
    loss, cut = _surrogate(ratio, advantages, clip)
    return loss.expand_as(new), cut.expand_as(new)


def clipped_weight(new: Tensor, old: Tensor, mask: Tensor, advantages: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    """−log p weighted by the clipped ratio, so that clipped tokens keep a gradient (CISPO, arXiv 2506.13585)."""
    ratio = (new - old).exp().detach()
    bounded = ratio.clamp(1 - clip.low, 1 + clip.high)
    return -bounded * advantages * new, bounded != ratio


def _surrogate(ratio: Tensor, advantages: Tensor, clip: Clip) -> tuple[Tensor, Tensor]:
    free, bounded = ratio * advantages, ratio.clamp(1 - clip.low, 1 + clip.high) * advantages
    gain = torch.minimum(free, bounded)
    cut = bounded < free
    if clip.dual is not None:
        floor = clip.dual * advantages
        least = (advantages < 0) & (gain < floor)
        gain, cut = torch.where(least, floor, gain), cut | least
    return -gain, cut


@dataclass(frozen=True, slots=True)
class Correction:
    """What is done about the difference between sampler and old policy.

    Attributes:
        most: a token's weight, old to sampler, counts up to this much; None: no weights.
        band: sequences whose geometric mean of the weights is not within (1 / band, band) are left out; None: none are.
    """

    most: float | None = 2.0
    band: float | None = None


def correction(old: Tensor, sampler: Tensor, mask: Tensor, settings: Correction) -> tuple[Tensor, Tensor]:
    """Weights of the tokens (S, T), and which sequences stay (S,); both without gradient."""
    gap = (old - sampler).detach() * mask
    weights = torch.ones_like(gap) if settings.most is None else gap.exp().clamp(max=settings.most)
    stays = torch.ones(len(gap), dtype=torch.bool, device=gap.device)
    if settings.band is not None:
        mean = gap.sum(1) / mask.sum(1).clamp_min(1)
        stays = mean.abs() < torch.tensor(settings.band).log()
    return weights, stays


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over the tokens of a micro-batch, each rollout's counted.

    Attributes:
        tokens: number of tokens.
        clipped: number of clipped tokens.
        masked: number of tokens in sequences that were left out.
        mismatch: sum of |old − sampler|, nats.
        drift: sum of (ratio − 1) − log ratio of new to old, an estimate of the KL divergence.
        entropy: sum of the entropy of the policy, nats; a figure only, never part of the loss.
    """

    tokens: float = 0.0
    clipped: float = 0.0
    masked: float = 0.0
    mismatch: float = 0.0
    drift: float = 0.0
    entropy: float = 0.0

    def __add__(self, other: Figures) -> Figures:
        """Sums of both."""
        return Figures(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


def policy_loss(
    new: Tensor,
    sampler: Tensor,
    mask: Tensor,
    advantages: Tensor,
    counts: Tensor,
    loss: Loss,
    clip: Clip,
    settings: Correction,
    old: Tensor | None = None,
) -> tuple[Tensor, Figures]:
    """The loss of sequences.

    Args:
        new, sampler: (S, T) float32 log-probabilities; only `new` has a gradient.
        mask, advantages: (S, T) float32.
        counts: (S,) float32.
        loss, clip, settings: the algorithm.
        old: (S, T), without gradient; None at the first update of a step, where old and new are equal.

    Returns:
        The sum of the loss over each sequence's tokens, times its count (S,), and figures.
    """
    old = new.detach() if old is None else old
    per_token, cut = loss(new, old, mask, advantages, clip)
    weights, stays = correction(old, sampler, mask, settings)
    many = counts[:, None] * mask
    kept = many * stays[:, None]
    drift = (new - old).detach()
    figures = Figures(
        tokens=float(many.sum()),
        clipped=float((cut * kept).sum()),
        masked=float((many - kept).sum()),
        mismatch=float(((old - sampler).detach().abs() * many).sum()),
        drift=float(((drift.exp() - 1 - drift) * many).sum()),
    )
    return (per_token * weights * kept).sum(1), figures
