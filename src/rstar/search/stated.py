"""Answers that models state in words, in whatever form (`rstar.grading.find.extract`)."""

from __future__ import annotations

import re

from rstar.grading.find.closings import without_courtesies
from rstar.grading.find.extract import answer_of, leading_yes_or_no, stated_truth
from rstar.prompts.code_steps import MARKERS

_STATED = re.compile(
    r"\\boxed|####|答案"
    r"|(?:^\W*|\b(?:the|my|our|final|correct|text\{)\s*)(?:answer|(?<=final )answers)\b"
    r"(?:[\s*]+(?:to|of|for)\b(?!\s+(?:(?:the |this )?(?:part|step|sub|first|second|third|next|previous)|\W))"
    r"[^.\n]{0,40}?)?"
    r"(?:[\s,*]*(?:therefore|thus|then|hence|so)\b)?[\s,*]*(?:\b(?:is|are|must be|should be|equals)\b|:|=)"
    r"|^\W*(?:the |my |our )?(?:final |correct )?answer\W*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A text with one of these states the final answer.

Not the answer to a part of the question, and not the word alone ("3 of the answers are wrong", "to answer this, …").
"""
_DEFINITE = re.compile(r"\d|^\W*(?:yes|no|true|false|(?:option |choice )?\(?[A-H]\)?)\W*$", re.IGNORECASE)
"""An answer like this counts without a statement, unless it is a `_FRAGMENT`."""
_FRAGMENT = re.compile(
    r"\W*[^\W\d_]{3,}\s|.*\d.*\b(?:after|out of|of the|from|for|with|when|if|because|since)\b.*\d|.*\d.*\(.*\d.*\)$"
)
"""A part of a sentence with numbers, of which one may be the answer: "left after selling 57 rolls"."""
_EMPTY = re.compile(
    r"\W*(?:step \d+\W+)?(?:as follows|unknown|unclear|none|nan|n/a|number|(?:in)?correct"
    r"|right|wrong|clear|reasonable|consistent|ready"
    r"|(?:(?:so|the|my|our)\s+)*(?:final\s+|correct\s+)?answer(?:\s+is)?)?\W*$"
    r"|\W*(?:(?:obtained|found|calculated|given|computed) by|not)\b"
    r"|(?!.*\d)\W*(?:(?:asking|expected|supposed)\b"
    r"|(?:in|of|as)\b.{0,20}\b(?:forms?|terms|dollars|cents|euros|percent|units?|fractions?|decimals?)\b"
    r"|the (?:number|sum|amount|total|product|difference|value|result|one|same)\b(?: \w+)? (?:of|that|which|minus|we)\b"
    r"|an? (?:\w+ )?(?:number|integer|value|fraction|percentage|amount|multiple)\W*$)"
    r'|\s*\{"',
    re.IGNORECASE | re.DOTALL,
)
"""A statement of this says nothing."""
_HEDGED = re.compile(
    r"(?:(?:most|almost|very|quite)\s+)?(?:likely|probably|definitely|certainly|technically|clearly|simply)\s+"
    r"(?=(?:yes|no|true|false)\b)",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"(yes|no|true|false)\b\W*(?:\(.*)?$", re.IGNORECASE | re.DOTALL)
_SAID = re.compile(
    r"\W*(?:(?:step|answer|question) \d+\W+)?(?:(?:so|thus|therefore|hence|then|overall)\b\W*)?"
    r"(?P<said>yes|no|true|false)\b(?!\s*\.?\s*of\b|\W+(?:problem|worries)\b)|.*\bso,? (?P<so>yes|no)\W*$",
    re.IGNORECASE,
)
"""A line that begins, or ends, with a yes or no."""
_REMAINS = re.compile(
    r"(?<!of )(?<!of the )(?<![\w.,])(-?\d[\d,]*(?:\.\d+)?)\W{0,3}"
    r"(?:[a-z]+\s+){0,2}(?:(?:are|is|were|was)\s+)?(?:left|remain(?:s|ing)?)\b",
    re.IGNORECASE,
)
"""What is left is the answer, whatever other numbers the sentence has."""
_REFUSED = re.compile(
    r"\b(?:can(?:not|'t|’t) (?:answer|help|solve|determine|do|provide|assist)|unable to|(?:please|could you|can you)"
    r" (?:please )?(?:provide|clarify|share|tell|give|send|specify)|as an ai\b|sorry,? (?:but )?i (?:can|am|do)\b"
    r"|(?:(?:not|n['’]t) (?:have )?enough|insufficient) (?:information|data|facts|details|context)"
    r"|i(?: would|['’]d)? need (?:at least )?(?:\w+ )?more)|\?\W*$",
    re.IGNORECASE,
)
"""A last line like this answers nothing, whatever numbers it holds."""
_PLAN = re.compile(
    r"\W*(?:step \d+\W+)?(?:(?:now|next|first|then|so)\b\W*)?"
    r"(?:let(?:['’]s| us| me)?\b|suppose\b|assume\b|i(?:['’]ll| will| shall| need)\b|here(?:['’]s| is) how\b"
    r"|we (?:can|add|subtract|multiply|divide|count|compute|calculate)\b(?!.*(?:=|\b(?:get|gives?|is|are|have)\b))"
    r"|we(?:['’]ll| will| shall| need| must| start)\b|to (?:solve|find|answer|compute|calculate|determine|do)\b)",
    re.IGNORECASE,
)
"""A last line like this says what comes next."""
_DENIED = re.compile(
    r"(?:\bnot|n['’]t|\bcannot)\b[^.!?]{0,20}\b(?:right|correct|true|the (?:final )?answer)\b|\b(?:incorrect|wrong)\b",
    re.IGNORECASE,
)
"""A line like this takes a number back."""
_DOUBTED = re.compile(
    r"\b(?:not|cannot|incorrect|wrong|mistaken?|forg[eo]t)\b|n['’]t\b|\?"
    r"|\b(?:i|we)(?:['’]ll\b|\s(?:will|need|must|have to|still)\b)",
    re.IGNORECASE,
)
"""A sentence like this may repeat a number without claiming it."""
_AGAIN = re.compile(r"\b(?:i|we)(?:['’]ll| will| need| can| must)\b|\blet(?:['’]s| me| us)\b|\berror\b", re.IGNORECASE)
"""What follows a yes or no that answers no question, but the model's own doubt."""
_REASON = re.compile(r"\W*(?:because|since|as)\b", re.IGNORECASE)
_LABEL = re.compile(r"^\W*step \d+\W+(?=.*=)", re.IGNORECASE | re.MULTILINE)


def still_thinking(text: str) -> bool:
    """Whether a text ends within a thought: ``<think>`` without its end."""
    return text.rfind("<think>") > text.rfind("</think>")


def states_answer(text: str) -> bool:
    """Whether a text says that something is the final answer."""
    return _STATED.search(text) is not None


def before_statement(text: str) -> int:
    """Number of characters before the first statement of a final answer; all of them without one."""
    found = _STATED.search(text)
    return len(text) if found is None else found.start()


def stated_answer(text: str, *, yes_no: bool = False) -> str | None:
    """The answer that a solution states; without a statement, one that is plain from its beginning or its end.

    Plain are a number, an option or a yes or no with which it ends, and a yes or no with which it begins if no number
    follows or a reason does ("No, because 5 is less than 7").

    Args:
        text: the solution.
        yes_no: the question asks for a yes or no, so every text that begins or ends with one is meant so, and nothing
            else is plain.
    """
    text = without_courtesies(text.rstrip())
    if states_answer(text):
        answer = _without_hedge(answer_of(text))
        return None if answer is None or answer.strip() in MARKERS or _EMPTY.match(answer) else answer
    last = text.rpartition("\n")[2]
    if (said := _leading(text, last, yes_no)) is not None:
        return said
    if yes_no or _says_no_answer(last) or _DENIED.search(last):
        return None
    answer = answer_of(_LABEL.sub("", text))
    if (
        answer is not None
        and answer.strip() not in MARKERS
        and _DEFINITE.search(answer)
        and not _FRAGMENT.match(answer)
        and not _EMPTY.match(answer)
    ):
        return answer
    remaining = _REMAINS.findall(last)
    return remaining[0] if len(remaining) == 1 else None


def printed_answer(stdout: str, text: str) -> str | None:
    """The number that a program printed last, if a text repeats it as it is; None otherwise.

    For sentences with several numbers, from which `stated_answer` takes none: "She pays $64 for 16 glasses." A plan or
    a doubt repeats a number, too; there is no answer then.
    """
    printed = stdout.rstrip().rpartition("\n")[2].strip()
    last = without_courtesies(text.rstrip()).rpartition("\n")[2]
    if re.fullmatch(r"-?\d+(?:\.\d+)?", printed) is None or _says_no_answer(last) or _DOUBTED.search(last):
        return None
    found = re.findall(r"(?<![\w.,])-?\d[\d,]*(?:\.\d+)?(?![\w])", last)
    return printed if printed in [number.rstrip(",").replace(",", "") for number in found] else None


def _says_no_answer(line: str) -> bool:
    """Whether a last line is a refusal, a question or a plan."""
    return _REFUSED.search(line) is not None or _PLAN.match(line) is not None


def _leading(text: str, last: str, yes_no: bool) -> str | None:
    """The yes or no that a text without a statement begins or ends with; None if it may mean something else."""
    if yes_no and (line := _SAID.match(last)) is not None:
        return line["said"] or line["so"]
    if (truth := stated_truth(last)) is not None:
        return truth
    if (leading := leading_yes_or_no(text)) is None:
        return None
    said, rest = leading
    doubtful = any(map(str.isdigit, rest)) or _AGAIN.search(rest) is not None
    return None if doubtful and not yes_no and _REASON.match(rest) is None else said


def _without_hedge(answer: str | None) -> str | None:
    """An answer without what qualifies a yes or no: "most likely no (they could not meet)"."""
    if answer is None:
        return None
    plain = _YES_OR_NO.match(_HEDGED.sub("", answer.strip()))
    return answer if plain is None else plain[1]
