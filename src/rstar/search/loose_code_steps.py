"""Code steps as models write them that were not trained on them, but were shown a few examples.

Such models put the code into a fence, say what they are about to do, forget the marker at the end of the program, and
state the answer without a box. `rstar.search.code_steps` is the strict format, with the same prompts and markers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

from rstar.models.engine import Completion
from rstar.prompts import code_steps as prompts
from rstar.search.blocks import fenced_blocks, python_code
from rstar.search.code_steps import CodeSteps
from rstar.search.format import Reading
from rstar.search.stated import stated_answer

_FENCE = re.compile(r"[ \t]*(?:```|~~~)[ \t]*[\w+-]*[ \t]*$")
_PROSE = re.compile(
    r"[A-Z][a-z']*[,!.:]? [A-Za-z].*[.:!?][ \t]*$|[A-Z][a-z]+[!:.][ \t]*$"
    r"|(?:Here|This|Now|Then|So|First|Next|I|We|Let)\b['’]?\w* [a-z]+ [a-z].*$"
    r"|\*\*|\d+[.)] +[A-Za-z]|[-•] +[A-Z][a-z]+ [a-z]"
)
"""A line that is not Python."""


class LooseCodeSteps(CodeSteps):
    """See `rstar.search.format.Format`."""

    name = "loose code steps"
    answer_tokens = 256

    def read(self, completion: Completion) -> Reading:
        """See `Format.read`. A turn that ends without a marker ends the program."""
        if completion.stop == prompts.END_ANSWER or completion.stop_reason == "length":
            return super().read(completion)
        stop = completion.stop or prompts.END_CODE
        reading = super().read(replace(completion, text=_code_alone(completion.text), stop_reason="stop", stop=stop))
        return reading._replace(shows=reading.complete)

    def answer(self, text: str) -> str | None:
        """See `Format.answer`."""
        return super().answer(text) or stated_answer(text.removesuffix(prompts.END_ANSWER).partition("</answer>")[0])


LOOSE_CODE_STEPS = LooseCodeSteps()


def _code_alone(text: str) -> str:
    """The code in a text: its blocks and the comments before them; without blocks, all but fences and prose."""
    text = prompts.code_of(text)
    if (code := python_code(list(fenced_blocks(text)))) is not None:
        before = takewhile(lambda line: not _FENCE.match(line), text.splitlines())
        return "\n".join((*(line for line in before if line.startswith("# ")), code)) + "\n"
    lines = (line for line in text.splitlines() if not _FENCE.match(line) and not _PROSE.match(line))
    return "\n".join(lines) + "\n"
