"""Answers that models state in words, in whatever form (`rstar.grading.find.extract`)."""

from __future__ import annotations

import re

from rstar.grading.find.extract import answer_of, leading_yes_or_no
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
_DEFINITE = re.compile(r"\d|^\W*(?:yes|no|true|false)\W*$", re.IGNORECASE)
"""An answer like this counts without a statement."""
_REFUSED = re.compile(
    r"\b(?:can(?:not|'t|’t) (?:answer|help|solve|determine|do|provide|assist)|unable to|(?:please|could you|can you)"
    r" (?:please )?(?:provide|clarify|share|tell|give|send|specify)|as an ai\b|sorry,? (?:but )?i (?:can|am|do)\b"
    r"|(?:(?:not|n['’]t) (?:have )?enough|insufficient) (?:information|data|facts|details|context)"
    r"|i(?: would|['’]d)? need (?:at least )?(?:\w+ )?more)",
    re.IGNORECASE,
)
"""A last line like this answers nothing, whatever numbers it holds."""
_PLAN = re.compile(
    r"\W*(?:step \d+\W+)?(?:let(?:['’]s| us| me)?\b|suppose\b|assume\b|i(?:['’]ll| will| shall| need)\b"
    r"|we(?:['’]ll| will| shall| need| must| start)\b|to (?:solve|find|answer|compute|calculate|determine|do)\b)",
    re.IGNORECASE,
)
"""A last line like this says what comes next."""
_LABEL = re.compile(r"^\W*step \d+\W+(?=.*=)", re.IGNORECASE | re.MULTILINE)


def states_answer(text: str) -> bool:
    """Whether a text says that something is the final answer."""
    return _STATED.search(text) is not None


def before_statement(text: str) -> int:
    """Number of characters before the first statement of a final answer; all of them without one."""
    found = _STATED.search(text)
    return len(text) if found is None else found.start()


def stated_answer(text: str) -> str | None:
    """The answer that a solution states; without a statement, a yes or no with which it begins, or a number or a yes
    or no with which it ends.
    """
    if (said := leading_yes_or_no(text)) is not None:
        return said
    stated = states_answer(text)
    last = text.rstrip().rpartition("\n")[2]
    if not stated and (_REFUSED.search(last) or _PLAN.match(last)):
        return None
    answer = answer_of(text if stated else _LABEL.sub("", text))
    if answer is None or answer.strip() in MARKERS:
        return None
    return answer if stated or _DEFINITE.search(answer) else None
