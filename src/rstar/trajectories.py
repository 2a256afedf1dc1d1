"""The one record of a solution attempt; SFT, preference pairs, reinforcement learning and evaluation all read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Finish = Literal["answer", "no_answer", "code_error", "no_step", "too_deep", "length"]
"""How a trajectory ended. ``answer``: with an answer. ``no_answer``: the answer step holds none. ``code_error``: too
many failed steps in a row. ``no_step``: the model ended the text, or wrote no step. ``too_deep``: more than the allowed
steps. ``length``: the step, or the context, was full."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what the model wrote, and what running it gave.

    Attributes:
        text: as written, with the marker that ended it.
        shown: what was shown to the model after it (the program's output), else empty.
        ids: token ids that the model produced (empty where its engine does not know them).
        logprobs: their log-probabilities, natural log, same length.
        status: the sandbox's status of its code, or None when nothing was run.
        error: ``Type: message (line n)`` of a failed run.
        values: name and value of the variables that its code bound anew, as far as they are short.
    """

    text: str
    shown: str = ""
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    status: str | None = None
    error: str | None = None
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A solution attempt from the first step to where it ended.

    Attributes:
        steps: in order.
        finish: how it ended.
        answer: the final answer, when `finish` is ``answer``.
        value: what the reward says of it (higher is better), None when it was not scored.
        votes: how many identical samples it stands for.
        mass: how likely the policy is to end here, as far as its samples tell: the share of the samples that went this
            way at each step, multiplied. The masses of independent samples are equal.
    """

    steps: tuple[Step, ...]
    finish: Finish
    answer: str | None = None
    value: float | None = None
    votes: int = 1
    mass: float = 1.0

    @property
    def text(self) -> str:
        """The whole solution as the model saw it."""
        return "".join(step.text + step.shown for step in self.steps)

    @property
    def logprob(self) -> float:
        """Sum of the log-probabilities of all produced tokens, natural log."""
        return sum(sum(step.logprobs) for step in self.steps)

    def record(self) -> dict[str, Any]:
        """The form in which it is kept in ``results.jsonl``."""
        return {
            "text": self.text,
            "finish": self.finish,
            "answer": self.answer,
            "value": None if self.value is None else round(self.value, 6),
            "logprob": round(self.logprob, 4),
            "votes": self.votes,
            "mass": round(self.mass, 6),
            "error": next((step.error for step in reversed(self.steps) if step.error), None),
        }


def answered(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that reached an answer, in order."""
    return [trajectory for trajectory in trajectories if trajectory.answer is not None]
