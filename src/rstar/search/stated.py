"""Answers that models state in words, in whatever form (`rstar.grading.find.extract`)."""

from __future__ import annotations

import re

from rstar.grading.find.extract import answer_of
from rstar.prompts.code_steps import MARKERS

_STATED = re.compile(
    r"\\boxed|####|答案"
    r"|(?:^\W*|\b(?:the|my|our|final|correct|text\{)\s*)(?:answer|(?<=final )answers)\b"
    r"(?:[\s*]+(?:to|of|for)\b(?!\s+(?:part|step|sub|\W))[^.\n]{0,40}?)?"
    r"(?:[\s,*]*(?:therefore|thus|then|hence|so)\b)?[\s,*]*(?:\b(?:is|are|must be|should be|equals)\b|:|=)",
    re.IGNORECASE | re.MULTILINE,
)
"""A text with one of these states the final answer.

Not the answer to a part of the question, and not the word alone ("3 of the answers are wrong", "to answer this, …").
"""
_DEFINITE = re.compile(r"\d|^(?:yes|no|true|false)\b", re.IGNORECASE)
"""An answer like this counts without a statement."""


def states_answer(text: str) -> bool:
    """Whether a text says that something is the final answer."""
    return _STATED.search(text) is not None


def before_statement(text: str) -> int:
    """Number of characters before the first statement of a final answer; all of them without one."""
    found = _STATED.search(text)
    return len(text) if found is None else found.start()


def stated_answer(text: str) -> str | None:
    """The answer that a solution states; without a statement, a number or a yes or no with which it ends."""
    answer = answer_of(text)
    if answer is None or answer.strip() in MARKERS:
        return None
    return answer if states_answer(text) or _DEFINITE.search(answer) else None
