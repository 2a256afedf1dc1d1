"""Parses the turns of instruct models: text around one fenced block of code, or the final answer.

Tolerant of what such models write: text before and after the code, several blocks, a block without a language or
without an end, fences of tildes, code that prints nothing (the values of its variables are shown). Strict about
answers: a turn without code must state one (`rstar.grading.find.extract`), and a turn with code never has one, because
its output is not known yet. The text of the turns is in `rstar.prompts.fenced`.
"""

from __future__ import annotations

import re
from textwrap import dedent

from rstar.models.engine import Completion
from rstar.prompts import fenced as prompts
from rstar.prompts.code_steps import USER
from rstar.search.format import Reading
from rstar.search.stated import stated_answer

_FENCE = r"^[ \t]*```[ \t]*"
_BLOCK = re.compile(
    r"^[ \t]*(?:(?P<mark>```)[ \t]*(?P<language>[\w+-]*)[^\n]*|~~~[ \t]*(?P<other>[\w+-]*)[ \t]*)\n"
    r"(?P<code>.*?)(?:^[ \t]*(?:(?(mark)```|~~~))[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON = ("", "python", "python3", "py", "tool_code")


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
        text = _without_thinking(completion.text.removesuffix(USER))
        if completion.stop == prompts.END_BLOCK and len(re.findall(_FENCE, text, re.MULTILINE)) % 2:
            return Reading(more=True)  # a fence without a language, which opens a block
        blocks = [match["code"] for match in _BLOCK.finditer(text) if _language(match) in _PYTHON]
        code = "\n".join(dedent(block).rstrip("\n") for block in blocks if block.strip())
        if code:
            return Reading(code=code, shows=True)
        if not text.strip():
            return Reading(failure="no_step")
        answer = stated_answer(text)
        return Reading(failure="no_answer") if answer is None else Reading(answer=answer)

    def shown(self, stdout: str) -> str:
        """See `Format.shown`."""
        return prompts.output(stdout.strip("\n") or "(no output)")

    def answer(self, text: str) -> str | None:
        """See `Format.answer`."""
        return stated_answer(text)


FENCED = Fenced()


def _without_thinking(text: str) -> str:
    """A text without what the model only thinks; all of it if there is nothing else."""
    rest = text.rpartition("</think>")[2]
    return rest if rest.strip() else text


def _language(block: re.Match[str]) -> str:
    return (block["language"] or block["other"] or "").lower()
