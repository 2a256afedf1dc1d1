"""The rStar-Math format: steps of comment and Python code, then the output, then the boxed answer.

Rules (arXiv 2501.04519, section 3.2, and its published code): a step ends with ``<end_of_step>``, ``<end_of_code>`` or
``<end_of_answer>``; anything else is not a step. After ``<end_of_code>`` the policy is shown the program's output and
writes the answer.
"""

from __future__ import annotations

from rstar.grading.find.boxes import boxed
from rstar.models.engine import Completion
from rstar.prompts import code_steps as prompts
from rstar.search.format import Reading


class CodeSteps:
    """See `rstar.search.format.Format`; the text is in `rstar.prompts.code_steps`."""

    name = "code steps"
    answer_stop = prompts.END_ANSWER
    answer_tokens = 64

    def prompt(self, question: str, shots: int) -> str:
        """See `Format.prompt`."""
        return prompts.prompt(question, shots=shots)

    def stops(self, *, whole: bool) -> tuple[str, ...]:
        """See `Format.stops`."""
        return prompts.STOPS[1:] if whole else prompts.STOPS

    def read(self, completion: Completion) -> Reading:
        """See `Format.read`."""
        if completion.stop_reason != "stop":
            return Reading(failure="length" if completion.stop_reason == "length" else "no_step")
        if completion.stop == prompts.END_ANSWER:
            answer = self.answer(completion.text)
            return Reading(failure="no_answer") if answer is None else Reading(answer=answer)
        code = prompts.code_of(completion.text).lstrip("\n")  # so that line numbers count what is shown
        if not code.strip():
            return Reading(failure="no_step")
        return Reading(code=code, complete=completion.stop == prompts.END_CODE)

    def shown(self, stdout: str) -> str:
        """See `Format.shown`."""
        return prompts.output(stdout.strip("\n"))

    def answer(self, text: str) -> str | None:
        """See `Format.answer`."""
        return boxed(text)


CODE_STEPS = CodeSteps()
