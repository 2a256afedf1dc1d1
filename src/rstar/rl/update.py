"""The policy's update as an objective of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from rstar.models.decoder import Decoder
from rstar.rl.algorithms import Algorithm
from rstar.rl.batches import PolicyBatch
from rstar.rl.objective import Clip, Correction, Figures, policy_loss


@dataclass(frozen=True, slots=True, eq=False)
class OldBatch:
    """A batch with the old policy's log-probabilities (S, L), or None where old and new are equal."""

    batch: PolicyBatch
    old: Tensor | None = None


@dataclass(slots=True)
class PolicyObjective:
    """See `rstar.train.loop.Objective`; sums its figures over all calls until they are taken.

    Args:
        algorithm, clip, correction: of the loss.
        limit: token limit of a rollout, for the mean over a constant.
    """

    algorithm: Algorithm
    clip: Clip
    correction: Correction
    limit: int
    _figures: Figures = field(default_factory=Figures)

    def count(self, batch: OldBatch) -> int:
        """What the loss is divided by: tokens, rollouts, or rollouts times the limit."""
        part = batch.batch
        if self.algorithm.mean == "tokens":
            return int((part.mask.sum(1) * part.counts).sum())
        return int(part.counts.sum()) * (self.limit if self.algorithm.mean == "constant" else 1)

    def tokens(self, batch: OldBatch) -> int:
        """Tokens of the rows, padding included."""
        return batch.batch.ids.numel()

    def loss(self, model: Decoder, batch: OldBatch) -> Tensor:
        """The loss summed over a micro-batch."""
        part = batch.batch.to(model.device)
        new, entropy = token_logprobs(model, part)
        old = None if batch.old is None else batch.old.to(model.device)
        settings = self.algorithm.loss, self.clip, self.correction
        sums, figures = policy_loss(new, part.sampler, part.mask, part.advantages, part.counts, *settings, old=old)
        spread = float((entropy * part.mask * part.counts[:, None]).sum())
        self._figures += replace(figures, entropy=spread)
        if self.algorithm.mean == "sequences":  # each rollout's mean over its tokens, times its count
            lengths = part.mask.sum(1).clamp_min(1)
            return (sums / lengths).sum()
        return sums.sum()

    def take_figures(self) -> Figures:
        """The figures since the last call."""
        found, self._figures = self._figures, Figures()
        return found


def token_logprobs(model: Decoder, batch: PolicyBatch) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies (no gradient) of the tokens of each rollout, both (S, L); 0 where nothing is.

    Logits are computed for written tokens only, once for each token of the trie, in float32.
    """
    hidden = model.hidden(batch.ids, batch.ends)[batch.row, batch.before]  # (N, D)
    with torch.autocast(hidden.device.type, enabled=False):
        logits = F.linear(hidden.float(), model.output_weight().float())
    logs = torch.log_softmax(logits, dim=-1)
    chosen = logs.gather(1, batch.ids[batch.row, batch.place][:, None])[:, 0]
    with torch.no_grad():
        entropy = -(logs.exp() * logs).sum(-1)
    return chosen[batch.token] * batch.mask, entropy[batch.token] * batch.mask


def with_old(model: Decoder, batches: Sequence[PolicyBatch], bf16: bool) -> list[OldBatch]:
    """The batches with log-probabilities under the present weights."""
    with torch.no_grad(), torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=bf16):
        return [OldBatch(batch, token_logprobs(model, batch.to(model.device))[0].cpu()) for batch in batches]
