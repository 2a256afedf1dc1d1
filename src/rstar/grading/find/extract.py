r"""Extraction of the answer from a model's output.

Places are tried in a fixed order. The first that holds something decides; within one place the *last* occurrence wins:

1. the text after ``</think>`` (a text whose thinking never ends has no answer);
2. ``<answer>…</answer>`` or ``<answer>…<end_of_answer>``;
3. boxes (`boxes`);
4. an announcement: "The answer is 42.", "**Answer:** 42", "#### 42";
5. the whole text, if it is an answer and not prose;
6. the statement in the last line of prose (`sentences`).

A value that is denied ("not \boxed{7}", "the answer cannot be 7") or withdrawn ("It is 7. No, it is 8.") is not an
answer. By design, the last of several numbers is not taken ("Tom ate 8 of them, so 9 are left"). Extraction is linear
in the length of the text and reads only its last `TAIL_LENGTH` characters. A text longer than `MAX_ANSWER_LENGTH` is
not an answer. Extraction ignores meaning: its result may still be wrapped in ``$…$`` or carry a unit.
"""

from __future__ import annotations

import re

from rstar.grading.find.boxes import boxed, boxed_answer, combined_boxes, only_box, without_empty_boxes
from rstar.grading.find.closings import without_courtesies, without_remark
from rstar.grading.find.described import whole_description
from rstar.grading.find.emphasis import in_stars, without_exclamation, without_loose_marks
from rstar.grading.find.languages import in_english, is_chinese_prose
from rstar.grading.find.only_number import only_number
from rstar.grading.find.options import justified_option, leading_options, without_option_reason
from rstar.grading.find.restated import restated_value
from rstar.grading.find.sentences import (
    FENCE,
    bare_answer,
    first_sentence,
    has_conclusion,
    is_denied,
    is_part,
    is_reason,
    join_displays,
    last_clause,
    last_sentence,
    last_statement,
    states_several_formulas,
    without_lead,
    without_loose_closers,
)
from rstar.grading.find.subjects import letter_values
from rstar.grading.read.numerals import english_in_digits
from rstar.grading.read.parameters import parameters_in_symbols
from rstar.grading.read.percents import percent_in_digits
from rstar.grading.read.times import clock_times_in_digits

TAIL_LENGTH = 50_000
MAX_ANSWER_LENGTH = 2_000

_TAG = re.compile(
    r"(?:<answer>|<final_answer>|\[answer\])(.*?)(?:</answer>|<end_of_answer>|</final_answer>|\[/answer\]|$)",
    re.DOTALL | re.IGNORECASE,
)
_OPENING_TAGS = ("<answer>", "<final_answer>", "[answer]")
_CUE = re.compile(
    r"####[ \t]*|"
    r"\b(?:choose|select|pick|(?:go|going) (?:with|for))[ ]+(?:option[ ]+)?(?=\(?[A-H]{1,6}\b)|"
    r"\bans[.:]+[ ]*|"
    r"\b(?:answers?|(?P<result>result)|(?:correct |right )?(?:option|choice))\b[ *_]*"
    r"(?:(?:is|are|was|equals|(?:would|will|should|must) be|comes (?:out )?to)\b(?:[ *]*:)?|[:=→]"
    r"|to (?:this|the) (?:problem|question) is\b)[ *_:]*|"
    r"^[#* ]*(?:the )?(?:final )?answer[ *]*\n|"
    r"答案(?:是|为|：|:)|\br(?:espuesta es|éponse est)\b",
    re.IGNORECASE | re.MULTILINE,
)
_SUBJECT = re.compile(
    r"(?<![\w.,/$])(?<![A-H]\), )(?<![A-H], )(?:[Oo]ption |[Cc]hoice |[Aa]nswer )?"
    r"(?P<value>\(?[A-H]\)?|\$[^$\n]{1,200}\$|\*\*[^*\n]{1,200}\*\*|-?\d[\d,./]{0,40})\*{0,2} is"
    r" (?:the |our |my )?(?:final |correct |right |best )*(?:answer|option|choice|correct|right)\b"
)
_WITHDRAWN = re.compile(
    r"[\s*_.?!]*(?:no\s*[,.!:]|wait|actually|correction|sorry|oops|hmm|scratch that)", re.IGNORECASE
)
_RETRACTION = re.compile(
    r"(?:^|[.!?—–]\s+)(?:yes|no|wait|actually|correction|sorry|oops|hmm)\b", re.IGNORECASE | re.MULTILINE
)
_MISTAKE = re.compile(r"\b(?:wrong|incorrect|mistake|error)\b", re.IGNORECASE)
_OVER = re.compile(r"[.!*) ]*(?:$|\n|(?<=[.!] )[A-Z])")
_YES_OR_NO = re.compile(
    r"[\s#*_]*(?P<said>yes|no|true|false)\b(?=\s*[*_]*(?:[.,:;!*]|—|–|\s-\s|\n|$|\s+(?:because|since|as)\b))"
    r"(?!,? (?:problem|worries)\b)",
    re.IGNORECASE,
)
_TRUTH_LENGTH = 300
"""Characters at the end of a text in which `stated_truth` is looked for."""
_STATED_TRUTH = re.compile(
    r"(?:\b(?:the|this|that)\s+(?:given\s+)?(?:statement|claim|assertion|proposition|conjecture)|(?:^|[.!?,;:]|\n)\W*"
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:it|this|that))\s+is\s+"
    r"(?:(?:indeed|therefore|thus|in fact|always|also)\s+)?(?P<said>true|false)\W*$",
    re.IGNORECASE,
)
_ANSWER_IN_TEXT = re.compile(r"\$\$?\s*\\text\w*\s*\{([^{}$]*\banswer\b[^{}$]*)\}([^$\n]+)\$\$?", re.IGNORECASE)
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~|<<[^<>\n]{1,200}>>")
"""Crossed-out text, and calculator annotations."""
_DISPLAYED = re.compile(r"\\begin\{(?:equation|gather|displaymath|multline)\*?\}")
_DISPLAY_END = re.compile(r"\\end\{(?:equation|gather|displaymath|multline)\*?\}")
_ALIGNED = re.compile(r"\\begin\{(?:align|eqnarray)\*?\}")
_ALIGNED_END = re.compile(r"\\end\{(?:align|eqnarray)\*?\}")
_SPLIT_POWER = re.compile(r"(?<=[a-z])\$(\^\{?\d\}?)\$")
_SAID_IN_BOX = re.compile(r"\\(?:text|textbf|mathrm)\s*\{([^{}]*)\}")
_DENIAL = re.compile(
    r"not\b(?:[^,;]|,(?= that is\b| i\.e)|(?<=that is),)*?(?:(?<!that is)[,;](?! that is\b| i\.e)|\bbut\b|$)"
)
_INSTEAD = re.compile(r"(?:,| and)\s+not\b.*|,? i\.?e\..*|, (?:that is|namely)\b.*")
_WHICH = re.compile(r"[^.\n$]*,? which (?:is|equals|gives|makes) ([^.\n]*(?:\.\d+)?)")


def answer_of(text: str | None, *, percentages: bool = False) -> str | None:
    """Return the answer in `text` as written; None if there is none. The module docstring gives the order of places.

    Args:
        text: the text.
        percentages: write percentages in words in digits first.
    """
    if text is None:
        return None
    text = _after_thinking(text[-TAIL_LENGTH:])
    if text is None:
        return None
    text = in_english(_cleaned(text), percentages=percentages)
    text = clock_times_in_digits(english_in_digits(percent_in_digits(text) if percentages else text))
    tagged = _tagged(text)
    found = _untagged_answer(text) if tagged is None else _untagged_answer(tagged) or tagged.strip() or None
    return None if found is None or len(found) > MAX_ANSWER_LENGTH else found


def gold_answer_of(gold: str) -> str | None:
    """`answer_of` a gold text; None if the text itself is the answer, such as a sentence of several formulas."""
    found = answer_of(gold)
    if len(gold) > MAX_ANSWER_LENGTH:
        return found
    if whole_description(gold) is not None:
        return None
    text = in_english(gold)
    if found is not None and is_chinese_prose(found):
        return None
    if "oxed" in text or _tagged(text) is not None or _CUE.search(text) is not None:
        return found
    return None if bare_answer(text) is None and states_several_formulas(text) and not has_conclusion(text) else found


def combined_answer(text: str) -> str | None:
    """Combine the values in the boxes of a text, or in its last sentence, into one answer."""
    if "oxed{" not in text[-TAIL_LENGTH:]:
        return _letter_values(text)
    if text.count("oxed{", -TAIL_LENGTH) < 2:
        return None
    rest = _untagged_rest(text)
    return None if rest is None else combined_boxes(in_english(_cleaned(rest)))


def _untagged_rest(text: str) -> str | None:
    """The end of a text after its thinking; None if it is blank or has an answer in tags."""
    rest = _after_thinking(text[-TAIL_LENGTH:])
    return None if rest is None or _tagged(rest) is not None or not rest.strip() else rest


def _letter_values(text: str) -> str | None:
    """The values of several letters in the last sentence of a text."""
    rest = _untagged_rest(text)
    if rest is None:
        return None
    line = in_english(_cleaned(rest)).strip().splitlines()[-1][-MAX_ANSWER_LENGTH:]
    return letter_values(line.rstrip(". "))


def described_statement(text: str) -> str | None:
    """The set of numbers that the last sentence of a text describes in words."""
    rest = _untagged_rest(text)
    if rest is None or "oxed" in rest:
        return None
    line = _cleaned(rest.strip().splitlines()[-1][-MAX_ANSWER_LENGTH:])
    return whole_description(last_sentence(line).rstrip(". "))


def stated_number(text: str, *, percentages: bool = False) -> str | None:
    """The only number of a short last sentence, in a text that announces nothing else; None if in doubt."""
    rest = _untagged_rest(text)
    if rest is None or "oxed" in rest:
        return None
    line = rest.strip().splitlines()[-1][-MAX_ANSWER_LENGTH:]
    line = in_english(_cleaned(line), incidental=1, percentages=percentages)
    line = percent_in_digits(line) if percentages else line
    return only_number(clock_times_in_digits(english_in_digits(line, incidental=1)), percentages=percentages)


def leading_yes_or_no(text: str) -> tuple[str, str] | None:
    """The yes or no with which a text begins, and the rest; None if it announces another answer or takes it back."""
    rest = _untagged_rest(text)
    said = None if rest is None else _YES_OR_NO.match(rest)
    if rest is None or said is None or "oxed" in rest or _announced(rest) is not None:
        return None
    return None if _RETRACTION.search(rest, said.end()) else (said["said"], rest[said.end() :])


def stated_truth(text: str) -> str | None:
    """The last word of a text that calls a statement true or false ("Therefore, the claim is false."); else None."""
    said = _STATED_TRUTH.search(text[-_TRUTH_LENGTH:])
    return None if said is None else said["said"]


def quick_answer(text: str) -> str | None:
    """`answer_of` for the plain cases, one box of plain content or text after ``####``; None for all others."""
    if "think>" in text or "answer>" in text or "<<" in text:
        return None
    start = text.rfind("\\boxed{", -TAIL_LENGTH)
    other = "\\fbox" in text or "\\framebox" in text
    if start >= 0:
        if other or text.find("\\boxed", max(len(text) - TAIL_LENGTH, 0)) != start:
            return None
        return only_box(text, start)
    mark = text.rfind("####", -TAIL_LENGTH)
    if mark >= 0 and not other and "\\boxed" not in text:
        rest = text[mark + 4 :].strip()
        return rest if _CUE.search(rest) is None and _SUBJECT.search(rest) is None else None
    return None


def _after_thinking(text: str) -> str | None:
    head, mark, tail = text.rpartition("</think>")
    if mark:
        return tail if tail.strip() else _boxed_again(head)
    return None if text.lstrip().startswith("<think>") else text


def _boxed_again(text: str) -> str | None:
    content = boxed(text)
    return None if content is None else f"\\boxed{{{content}}}"


def _cleaned(text: str) -> str:
    """Drop crossed-out text and courtesies, rejoin split units, put parameters in formulas, unify displays and bold."""
    text = without_exclamation(parameters_in_symbols(in_stars(without_courtesies(text))))
    if "~~" in text or "<<" in text:
        text = _STRUCK.sub("", text)
    if "$^" in text:
        text = _SPLIT_POWER.sub(r"\1", text)
    if "\\begin{" in text:
        text = _DISPLAYED.sub(r"\[", _ALIGNED.sub(r"\[\\begin{aligned}", text))
        text = _DISPLAY_END.sub(r"\]", _ALIGNED_END.sub(r"\\end{aligned}\]", text))
    return text


def _tagged(text: str) -> str | None:
    lower = text.lower()
    start = max(map(lower.rfind, _OPENING_TAGS))
    match = _TAG.match(text, start) if start >= 0 else None
    return None if match is None else match[1]


def _untagged_answer(text: str) -> str | None:
    """The answer in a text without tags."""
    text = without_empty_boxes(text)
    found = boxed_answer(text)
    if found is not None:
        last = text[text.rfind("oxed{") :].partition("}")[2].lstrip("}$)] ")
        if _WITHDRAWN.match(last) and _MISTAKE.search(last):
            return _announced(last) or last_statement(last)
        announced = _announced(_SAID_IN_BOX.sub(r"\1", found)) if "answer" in found else None
        return announced or found or None
    found = _announced(text)
    if found is None:
        found = justified_option(text)
    if found is None:
        text = join_displays(text) if "\n" in text else text
        found = bare_answer(text)
    if found is None:
        found = last_statement(text)
    return found


def _announced(text: str) -> str | None:
    if "\\text" in text:
        text = _ANSWER_IN_TEXT.sub(r"\1 $\2$", text)
    cue = subject = None
    for match in reversed(list(_CUE.finditer(text))):
        clause = last_clause(text[max(match.start() - 100, 0) : match.start()])
        if not is_denied(clause) and not is_part(clause):
            cue = match
            break
    if cue is not None and cue["result"] and any(map(str.isdigit, text[cue.end() :].partition(". ")[2])):
        cue = None  # an intermediate result
    for match in reversed(list(_SUBJECT.finditer(text))):
        sentence = last_sentence(text[max(match.start() - 100, 0) : match.start()])
        if not (is_denied(sentence) or is_reason(sentence)) and _OVER.match(text, match.end()):
            subject = match
            break
    if subject is not None and (cue is None or cue.end() <= subject.end()):
        return subject["value"].strip("*$ ")
    if cue is None:
        return None
    rest = text[cue.end() :].lstrip(" \t\n*_:")
    if (fence := FENCE.match(rest)) is not None:
        return fence[1].strip()
    if (restated := restated_value(rest.strip())) is not None:
        return restated
    sentence = first_sentence(rest)
    after = rest[len(sentence) :]
    if (withdrawn := _WITHDRAWN.match(after)) is not None:
        if (instead := last_statement(after[withdrawn.end() :])) is not None:
            return instead
        if _MISTAKE.search(after):
            return None
    sentence = without_loose_closers(without_remark(without_loose_marks(sentence).rstrip("*_ \t")))
    if (denial := _DENIAL.match(sentence)) is not None:
        return last_statement(sentence[denial.end() :])
    if (letters := leading_options(sentence)) is not None:
        return letters
    sentence = without_lead(without_option_reason(_INSTEAD.sub("", sentence)))
    if (which := _WHICH.match(rest)) is not None:
        sentence = which[1]
    return bare_answer(sentence) or last_statement(sentence) or sentence or None
