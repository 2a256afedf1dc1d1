"""Traces of rollouts for the simulator: how many tokens and seconds their turns and tools take."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trace:
    """A rollout: tokens of its prompt; of each turn, its tokens, and tokens and seconds of the tool's response."""

    prompt: int
    turns: tuple[tuple[int, int, float], ...]


def draw_traces(problems: int, group: int, seed: int, *, max_turns: int = 10, max_tokens: int = 12_000) -> list[Trace]:
    """Draw `problems` × `group` rollouts, group by group.

    The lengths of a group go together, because they are of one problem; within it, and over turns, they have heavy
    tails. A rollout ends after `max_turns`, or with `max_tokens` of its own.
    """
    rng = random.Random(seed)
    traces = []
    for _ in range(problems):
        prompt = rng.randint(100, 600)
        difficulty = rng.lognormvariate(0.0, 0.6)
        for _ in range(group):
            turns: list[tuple[int, int, float]] = []
            left = max_tokens
            while left > 0 and len(turns) < max_turns:
                tokens = min(left, max(20, round(rng.lognormvariate(6.4, 0.9) * difficulty)))
                response = min(256, max(5, round(rng.lognormvariate(4.0, 1.0))))
                turns.append((tokens, response, min(30.0, rng.expovariate(1 / 0.3) + rng.paretovariate(2.0) / 10)))
                left -= tokens + response
                if rng.random() < 1 / (1 + 2.5 * difficulty):
                    break
            traces.append(Trace(prompt, tuple(turns)))
    return traces
