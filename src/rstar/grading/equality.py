r"""Equality of a gold answer and a prediction.

Both texts take the same path: extract the answer (`extract`), normalize it (`normal`), read it (`reading`), compare the
readings (`comparison`). The first rule that decides wins:

1. the same normal form;
2. exact values: rationals are equal or they are not;
3. containers of the same kind, element by element: sequences in order; sets and bare lists in any order; intervals by
   endpoints and whether they are closed; matrices by entry; relations side by side or as the set they describe;
4. other expressions: `numeric`.

`docs/grading.md` specifies what is accepted and what is refused, with examples of every rule.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from rstar.grading.checks import run_check
from rstar.grading.compare import exact, numeric
from rstar.grading.compare.comparison import equal
from rstar.grading.find.emphasis import may_be_factorial
from rstar.grading.find.explanations import explained_letter, explained_letters, translated_letter
from rstar.grading.find.extract import (
    MAX_ANSWER_LENGTH,
    answer_of,
    combined_answer,
    described_statement,
    gold_answer_of,
    leading_yes_or_no,
    quick_answer,
    stated_number,
    stated_truth,
)
from rstar.grading.find.languages import in_english
from rstar.grading.find.options import option_letters
from rstar.grading.find.states import NO_SOLUTION, state_of
from rstar.grading.read.lexer import UnreadableError
from rstar.grading.read.nodes import (
    Apply,
    Group,
    Interval,
    Node,
    Number,
    Quantity,
    Relation,
    Symbol,
    Text,
    described,
    names_of,
)
from rstar.grading.read.normal import normal, prose, squeezed, words
from rstar.grading.read.reading import choice_of, is_name, readings, with_equal_letters, with_plain_unit, with_products
from rstar.grading.read.times import clock_times, is_ratio
from rstar.grading.read.units import PERCENT
from rstar.grading.read.wordings import wording
from rstar.grading.verdict import Verdict

if TYPE_CHECKING:  # search may import this package, but not gold answers
    from rstar.answers import AnswerKey

MAX_LITERAL_LENGTH = 60
MIN_SENTENCE_LENGTH = 12
MIN_PROSE_LETTERS = 8
_TOTAL = re.compile(r"[a-w](?: ?\+ ?[a-w]){1,4} ?= ?(.+)")
"""A requested total in a prediction: ``m + n = 42``. In a gold answer it would be an equation."""
_LETTERS_IN_ORDER = re.compile(r"(?=[A-H]{2})A?B?C?D?E?F?G?H?")
"""Several option letters in a row; letters out of order are more likely a name."""
_PERCENT = re.compile("%|[Cc]ent|[Pp]rozent|ciento")
_CHOICES = re.compile("[a-h]|[A-H]{1,8}")
_AFFIRMS = {"yes": True, "true": True, "no": False, "false": False}
_LETTERS = re.compile(
    r"(?:\\(?P<mark>overline|bar|vec|overrightarrow|angle|triangle|widehat) ?)?(?:\\(?:text|mathrm)\b)?"
    r"(?P<letters>[({ ]*[A-Za-z](?:(?: |\\cdot ?)*[A-Za-z]){1,5}[)} ]*)"
)


def grade(gold: str, prediction: str | None) -> Verdict:
    """Compare a prediction with the gold answer.

    Args:
        gold: the correct answer: bare, in LaTeX, or in a text like a prediction's.
        prediction: the model's output or the answer extracted from it; None if there is none.

    Returns:
        The verdict. Nothing in the two texts raises.

    Raises:
        TypeError: an argument is not text.
    """
    if not isinstance(gold, str) or not isinstance(prediction, str | None):
        raise TypeError(f"answers must be strings, not {type(gold).__name__} and {type(prediction).__name__}")
    if prediction is None:
        return Verdict("unparseable", "no prediction", gold)
    quick = _grade_literals(gold, prediction)
    if quick is not None:
        return quick
    if gold == prediction and len(gold) <= MAX_ANSWER_LENGTH and any(map(str.isalnum, gold)):
        return Verdict("correct", "the same text", gold, gold)
    wanted, found = gold_answer_of(gold), answer_of(prediction)
    prose = wanted is None
    if wanted is None:  # the whole gold text is the answer
        wanted = in_english(gold) if len(gold) <= MAX_ANSWER_LENGTH else gold
    answer = prediction if found is None else found
    if _same_text(gold, answer) or (prose and (_same_text(wanted, answer) or _ends_with_gold(prediction, gold))):
        return Verdict("correct", "the same text", gold, answer)
    if found is None:
        verdict = Verdict("unparseable", "no answer found", wanted[:MAX_ANSWER_LENGTH])
    elif len(wanted) > MAX_ANSWER_LENGTH:
        return Verdict("error", "the gold answer is too long", wanted[:MAX_ANSWER_LENGTH])
    else:
        verdict = _decide(normal(wanted), normal(found))
    if verdict.outcome not in ("wrong", "unparseable") or len(wanted) > MAX_ANSWER_LENGTH:
        return verdict
    return _grade_alternatives(gold, normal(wanted), prediction, answer) or verdict


def _grade_alternatives(text: str, gold: str, prediction: str, answer: str) -> Verdict | None:
    """Grade the prediction's other statements that suit the kind of the gold answer; None if none matches.

    Args:
        text: the gold text.
        gold: the gold answer in normal form.
        prediction: the predicted text.
        answer: the answer found in it, or all of it.
    """
    try:
        kinds = readings(gold)
    except (UnreadableError, RecursionError):
        return None
    said = wording(gold) if len(prediction) <= MAX_ANSWER_LENGTH else None
    if said is not None and said == wording(normal(prediction)):
        return Verdict("correct", "the same text", gold, prediction)
    if _same_state(text, kinds, prediction, answer):
        return Verdict("correct", "the same statement", gold, answer)
    others: list[str | None] = [f"{answer}!"] if may_be_factorial(prediction, answer) else []
    if _CHOICES.fullmatch(gold) is not None:
        gold = gold.upper()
        others += [explained_letters(prediction), explained_letter(prediction), explained_letter(answer)]
        others.append(translated_letter(prediction))
    if any(isinstance(node, Group) and node.kind != "ratio" and len(node.items) > 1 for node in kinds):
        others.append(combined_answer(prediction))
    if any(isinstance(node, Number | Quantity) for node in kinds) and _is_words(answer):
        others.append(stated_number(prediction))
    if any(map(_may_be_percentage, kinds)) and _PERCENT.search(prediction) is not None and _may_be_words(answer):
        others += [answer_of(prediction, percentages=True), stated_number(prediction, percentages=True)]
    if words(gold) in _AFFIRMS:
        others += [*(leading_yes_or_no(prediction) or ())[:1], stated_truth(prediction)]
    if any(map(_may_be_described, kinds)):
        others.append(described_statement(prediction))
    for other in others:
        if other is not None and (verdict := _decide(gold, normal(other))).correct:
            return verdict
    return None


def _same_state(text: str, kinds: list[Node], prediction: str, answer: str) -> bool:
    """Whether a sentence of the prediction states in words what a gold text states."""
    wanted = NO_SOLUTION if Group("set", ()) in kinds else None
    if wanted is None and not any(map(str.isdigit, text)):
        wanted = state_of(text)
    if wanted is None:
        return False
    return wanted == state_of(answer) or ("oxed" not in prediction and wanted == state_of(prediction))


def _may_be_described(node: Node) -> bool:
    """Whether a value is a set of numbers that words may describe."""
    match node:
        case Text(said):
            return said.startswith("all ")
        case Group("given" | "described" | "union") | Interval() | Relation() | Symbol("ℝ" | "ℤ"):
            return True
        case Group("tuple", items):
            return len(items) == 2
    return False


def _may_be_percentage(node: Node) -> bool:
    """Whether a value is a percentage or lies between 0 and 1."""
    match node:
        case Quantity(_, unit):
            return unit == PERCENT
        case Number(value):
            return 0 < value < 1
    return False


def _is_words(answer: str) -> bool:
    """Whether an answer of ordinary length can only be read as words."""
    if len(answer) > MAX_ANSWER_LENGTH:
        return False
    try:
        return all(isinstance(node, Text) for node in readings(normal(answer)))
    except (UnreadableError, RecursionError):
        return True


def _may_be_words(answer: str) -> bool:
    """Whether an answer reads as words, perhaps among other readings: "red" is also a product; not "thirty percent"."""
    if len(answer) > MAX_ANSWER_LENGTH:
        return False
    try:
        found = readings(normal(answer))
    except (UnreadableError, RecursionError):
        return True
    return any(isinstance(node, Text) for node in found) and not any(isinstance(n, Number | Quantity) for n in found)


def _same_text(gold: str, answer: str) -> bool:
    """Whether a prediction repeats a prose gold answer that is only partly mathematics, in any typography."""
    if max(len(gold), len(answer)) > MAX_ANSWER_LENGTH or not gold.strip():
        return False
    ours, theirs = normal(gold), normal(answer)
    return squeezed(ours) == squeezed(theirs) or ((said := wording(ours)) is not None and said == wording(theirs))


def _ends_with_gold(prediction: str, gold: str) -> bool:
    """Whether a prediction ends with a prose gold answer: alone, in tags, or announced."""
    text, wanted = prediction.strip().removesuffix("</answer>").strip(" .$"), gold.strip(" .$\n")
    if not (text.endswith(wanted) and len(wanted) >= MIN_SENTENCE_LENGTH):
        return False
    before = text[: len(text) - len(wanted)].rstrip(" $")
    return not before or before.endswith((":", "*", "\n", "<answer>"))


def _grade_literals(gold: str, prediction: str) -> Verdict | None:
    """Grade two exact numbers; None if finding or comparing them needs the full path."""
    if len(gold) > MAX_LITERAL_LENGTH or (first := exact.literal(gold)) is None:
        return None
    answer = prediction if len(prediction) <= MAX_LITERAL_LENGTH else None
    second = exact.literal(answer) if answer is not None else None
    if second is None:
        answer = quick_answer(prediction)
        second = exact.literal(answer) if answer is not None and len(answer) <= MAX_LITERAL_LENGTH else None
        if second is None:
            return None
    same = exact.same_literal(first, second)
    if same is None:
        return None
    return Verdict("correct" if same else "wrong", "equal numbers" if same else "other numbers", gold, answer or "")


def is_equivalent(gold: str, prediction: str | None) -> bool:
    """Whether `grade` finds a prediction correct."""
    return grade(gold, prediction).correct


def verify(key: AnswerKey, prediction: str | None) -> Verdict:
    """Grade a prediction by the key's own check if it has one, otherwise by its answer.

    Raises:
        DataError: the check has an unknown kind or is malformed.
    """
    return grade(key.answer, prediction) if key.check is None else run_check(key.check, prediction)


def _decide(gold: str, prediction: str) -> Verdict:
    forms = (squeezed(gold), squeezed(prediction))
    if not prediction:
        return Verdict("unparseable", "empty answer", *forms)
    both = choice_of(gold), choice_of(prediction)
    if both[0] is not None and both[1] is not None:
        if both[0][0] != both[1][0]:
            return Verdict("wrong", "another choice", *forms)
        return _decide(both[0][1], both[1][1])
    if forms[0] == forms[1]:
        return Verdict("correct", "the same form", *forms)
    if exact.literal(gold) is not None and (total := _TOTAL.fullmatch(prediction)) is not None:
        return _decide(gold, total[1])
    if "\\text" in gold + prediction and words(gold) == words(prediction):
        return Verdict("correct", "the same words", *forms)
    if (said := _AFFIRMS.get(words(gold))) is not None and said == _AFFIRMS.get(words(prediction)):
        return Verdict("correct", "both affirm or both deny", *forms)
    if _same_letters(gold, prediction) or _same_prose(gold, prediction):
        return Verdict("correct", "the same letters", *forms)
    if _same_choices(gold, prediction) or _same_choices(prediction, gold):
        return Verdict("correct", "the same choices", *forms)
    if is_name(gold) and is_name(prediction):
        return Verdict("correct" if words(gold) == words(prediction) else "wrong", "letters in a row", *forms)
    times = clock_times(gold), clock_times(prediction)
    if all(times) and not (is_ratio(gold) and is_ratio(prediction)):  # 3:30 is not the ratio 1:10
        return Verdict("correct" if times[0][0] == times[1][0] else "wrong", "times of day", *forms)
    try:
        ours = readings(gold)
    except (UnreadableError, RecursionError) as error:
        return Verdict("error", f"the gold answer: {error}", *forms)
    try:
        theirs = readings(prediction)
    except (UnreadableError, RecursionError) as error:
        return Verdict("unparseable", str(error), *forms)
    if any(isinstance(node, Quantity) for node in ours):
        theirs += with_plain_unit(prediction)
    if any(isinstance(node, Quantity) for node in theirs):
        ours += with_plain_unit(gold)
    ours, theirs = ours + _context_readings(gold, ours, theirs), theirs + _context_readings(prediction, theirs, ours)
    try:
        for left, right in product(ours, theirs):
            if equal(left, right):
                return Verdict("correct", f"equal: {described(left)} and {described(right)}", *forms)
    except numeric.UndecidedError as error:
        return Verdict("timeout", str(error), *forms)
    except RecursionError as error:
        return Verdict("error", str(error), *forms)
    except UnreadableError as error:
        return Verdict("unparseable", str(error), *forms)
    return Verdict("wrong", f"not equal: {described(ours[0])} and {described(theirs[0])}", *forms)


def _context_readings(form: str, found: list[Node], others: list[Node]) -> list[Node]:
    """Readings of a form that make sense only beside the readings of the other."""
    try:
        if any(isinstance(node, Group) and _has_tuples(node) for node in others):
            return with_equal_letters(form)
        if isinstance(found[0], Text) and isinstance(others[0], Apply):
            return with_products(form, names_of(others[0]))
    except (UnreadableError, RecursionError):
        pass
    return []


def _has_tuples(node: Group) -> bool:
    return node.kind == "tuple" or any(isinstance(item, Group) and item.kind == "tuple" for item in node.items)


def _same_choices(row: str, other: str) -> bool:
    """Whether ``ABD`` is written as ``A, B and D``."""
    if _LETTERS_IN_ORDER.fullmatch(row) is None or is_name(other):
        return False
    return option_letters(row) == option_letters(other)


def _same_letters(gold: str, prediction: str) -> bool:
    """Whether both are the same run of letters: ``pqr`` and ``p q r``, ``AB`` and ``\\overline{AB}``."""
    first, second = _LETTERS.fullmatch(gold), _LETTERS.fullmatch(prediction)
    if first is None or second is None or (first["mark"] and second["mark"] and first["mark"] != second["mark"]):
        return False
    ours, theirs = (re.sub("[^A-Za-z]", "", match["letters"]) for match in (first, second))
    return ours == theirs and len(ours) > 1


def _same_prose(gold: str, prediction: str) -> bool:
    """Whether both are the same words regardless of spacing; some data sets have lost their spaces."""
    ours, theirs = prose(gold), prose(prediction)
    return ours is not None and len(ours) >= MIN_PROSE_LETTERS and ours == theirs
