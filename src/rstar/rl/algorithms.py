"""The algorithms by name: how rollouts are selected, compared, and turned into a loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rstar.rl.advantage import Advantage, centered, leave_one_out, normalized
from rstar.rl.objective import Loss, clipped, clipped_weight, sequence_clipped

Mean = Literal["tokens", "sequences", "constant"]
"""What the loss is averaged over. ``tokens``: all tokens of the batch count equally. ``sequences``: all rollouts do.
``constant``: the sum is divided by rollouts times the token limit, so that length has no influence (Dr. GRPO)."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One entry of the table.

    Attributes:
        advantage: of the rollouts of a group.
        loss: per token.
        mean: what the loss is averaged over.
        resamples: right rollouts are kept by preference for few failed calls (`rstar.rl.resample`).
    """

    advantage: Advantage
    loss: Loss
    mean: Mean = "tokens"
    resamples: bool = False


ALGORITHMS: Mapping[str, Algorithm] = {
    "grpo-roc": Algorithm(normalized, clipped, resamples=True),
    "grpo": Algorithm(normalized, clipped),
    "dr-grpo": Algorithm(centered, clipped, mean="constant"),
    "rloo": Algorithm(leave_one_out, clipped, mean="sequences"),
    "gspo": Algorithm(normalized, sequence_clipped, mean="sequences"),
    "cispo": Algorithm(normalized, clipped_weight),
}
