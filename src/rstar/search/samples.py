"""Samples of one node: copies merged, probabilities, and how many more to draw. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rstar.models.engine import Completion
from rstar.search.tree import Node

_VARIED = 0.9
"""With this much of the probability unseen, samples from a node are unlikely to be copies."""


def merged(completions: Sequence[Completion], merge: bool) -> list[tuple[Completion, int]]:
    """Completions with their votes; with `merge`, the first of each text."""
    if not merge:
        return [(completion, 1) for completion in completions]
    first: dict[str, Completion] = {}
    votes: dict[str, int] = {}
    for completion in completions:
        first.setdefault(completion.text, completion)
        votes[completion.text] = votes.get(completion.text, 0) + 1
    return [(first[text], count) for text, count in votes.items()]


def distinct(completions: Sequence[Completion]) -> list[Completion]:
    """The first completion of each text."""
    return list({completion.text: completion for completion in reversed(completions)}.values())[::-1]


def chance_of(completion: Completion) -> float | None:
    """Probability of a completion, if known. Rounding may not make it exceed 1."""
    return math.exp(min(0.0, sum(completion.logprobs))) if completion.logprobs else None


def more_samples(node: Node, found: Sequence[Completion], n: int) -> int:
    """How many samples to ask for next, of `n` in all: 0 if the next ones can be expected to say nothing new.

    The probabilities of the known steps tell how much is still unseen; the first sample is always drawn. If little is
    unseen, further samples would be copies or, where the engine avoids copies, improbable. If much but not nearly all
    is unseen, samples are drawn one at a time, because several at once may be copies of each other.
    """
    if not found:
        return 1
    new = [chance_of(completion) for completion in distinct(found) if completion.text not in node.texts]
    chances = [child.chance for child in node.children] + new
    known = [chance for chance in chances if chance is not None]
    left = n - len(found)
    if len(known) < len(chances):
        return left
    unseen = max(0.0, 1.0 - sum(known))
    return left if unseen > _VARIED else min(1, round(left * unseen))
