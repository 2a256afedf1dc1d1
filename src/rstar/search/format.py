"""What a search needs to know of the form of its steps: the one seam between trees and text.

Tree, selection, back-up and choice know no format. `rstar.search.code_steps` is the format of rStar-Math.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rstar.models.engine import Completion
from rstar.trajectories import Ending


@dataclass(frozen=True, slots=True)
class Reading:
    """What a completion is: a step that failed, a step with an answer, or code to run.

    Attributes:
        failure: why it is not a step; None where it is one.
        answer: the final answer, where the step holds one.
        code: to be run from the interpreter state of the parent.
        complete: the program is complete with this code: its output is shown, and the policy writes the answer.
    """

    failure: Ending | None = None
    answer: str | None = None
    code: str | None = None
    complete: bool = False


class Format(Protocol):
    """How steps are asked for, where they stop, what of them runs, what is shown, and when there is an answer."""

    name: str

    answer_stop: str
    """Ends the answer that the policy writes after the output of a complete program."""

    answer_tokens: int
    """Most tokens of that answer."""

    def prompt(self, question: str, shots: int) -> str:
        """What the policy sees before its first step; `shots` worked examples come first."""
        ...

    def stops(self, *, whole: bool) -> tuple[str, ...]:
        """The strings that end a step or, with `whole`, a whole program."""
        ...

    def read(self, completion: Completion) -> Reading:
        """What a completion is."""
        ...

    def shown(self, stdout: str) -> str:
        """The output of a complete program as the policy sees it, with the opening of the answer."""
        ...

    def answer(self, text: str) -> str | None:
        """The final answer in what the policy wrote as its last step; None where it holds none."""
        ...
