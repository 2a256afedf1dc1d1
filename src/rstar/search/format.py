"""The interface between search and the text form of its steps.

Tree, selection, back-up and choice know no format. `rstar.search.code_steps` is the rStar-Math format,
`rstar.search.fenced` the one for instruct models.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rstar.models.engine import Completion
from rstar.trajectories import FinishReason


class Reading(NamedTuple):
    """A parsed completion: a failed step, a step with an answer, code to run, or a step of plain text.

    Attributes:
        failure: why it is not a step; None if it is one.
        answer: final answer, if the step has one.
        code: code to run from the parent's interpreter state; None with no answer and no failure: plain text.
        complete: this code completes the program: its output is shown, and the policy writes the answer.
        shows: the output of this code is shown, and the policy goes on. With `complete`: if the program prints nothing,
            the values of its variables are shown.
        more: the stop string came too early; the step goes on after it.
    """

    failure: FinishReason | None = None
    answer: str | None = None
    code: str | None = None
    complete: bool = False
    shows: bool = False
    more: bool = False


class Format(Protocol):
    """How steps are prompted, stopped, parsed and shown, and where the answer is."""

    name: str

    answer_stop: str
    """Stop string of the answer that follows the output of a complete program."""

    answer_tokens: int
    """Token limit of that answer."""

    def prompt(self, question: str, shots: int) -> str:
        """The policy's input before the first step, with `shots` worked examples first."""
        ...

    def stops(self, *, whole: bool) -> tuple[str, ...]:
        """Stop strings of a step or, with `whole`, of a whole program."""
        ...

    def read(self, completion: Completion) -> Reading:
        """Parse a completion."""
        ...

    def shown(self, stdout: str) -> str:
        """The output of a complete program, or of code that `shows` it, as shown to the policy."""
        ...

    def answer(self, text: str) -> str | None:
        """The final answer in the text of the last step; None if there is none."""
        ...
