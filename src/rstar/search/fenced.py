"""Parses the turns of instruct models: text around one fenced block of code, or the final answer.

Tolerant of what such models write: text before and after the code, several blocks, blocks of other languages, a block
without a language or without an end, code without a block, interactive sessions (`rstar.search.blocks`), drafts while
thinking, code that prints nothing (the values of its variables are shown). Strict about answers: a turn without code
must state one (`rstar.search.stated`), and a turn with code never has one, because its output is not known yet. The
text of the turns is in `rstar.prompts.fenced`.
"""

from __future__ import annotations

from rstar.models.engine import Completion
from rstar.prompts import fenced as prompts
from rstar.prompts.code_steps import USER
from rstar.search.blocks import bare_code, fenced_blocks, python_code
from rstar.search.format import Reading
from rstar.search.stated import stated_answer, still_thinking


class Fenced:
    """See `rstar.search.format.Format`."""

    name = "fenced"
    answer_stop = prompts.END_BLOCK
    answer_tokens = 256

    def prompt(self, question: str, shots: int) -> str:
        """See `Format.prompt`."""
        return prompts.prompt(question, shots)

    def stops(self, *, whole: bool) -> tuple[str, ...]:
        """See `Format.stops`. A program cannot be sampled as a whole, because each block's output is shown."""
        return (prompts.END_BLOCK, f"\n{USER}")

    def read(self, completion: Completion) -> Reading:
        """See `Format.read`."""
        if completion.stop_reason == "length":
            return Reading(failure="length")
        text = completion.text.removesuffix(USER)
        cut = completion.stop == prompts.END_BLOCK
        if still_thinking(text):  # its drafts are no steps
            return Reading(more=True) if cut else _answer(text)
        said = text.rpartition("</think>")[2]
        blocks = list(fenced_blocks(said))
        code = python_code(blocks)
        if cut and (code is None or not blocks[-1].closed):
            return Reading(more=True)  # behind a block of another language, or in one that the stop string opened
        if code is None and not blocks:
            code = bare_code(said)
        return Reading(code=code, shows=True) if code is not None else _answer(text)

    def shown(self, stdout: str) -> str:
        """See `Format.shown`."""
        return prompts.output(stdout.strip("\n") or "(no output)")

    def answer(self, text: str) -> str | None:
        """See `Format.answer`."""
        return stated_answer(text)


FENCED = Fenced()


def _answer(text: str) -> Reading:
    """The reading of a turn without code."""
    if not text.strip():
        return Reading(failure="no_step")
    answer = stated_answer(text)
    return Reading(failure="no_answer") if answer is None else Reading(answer=answer)
