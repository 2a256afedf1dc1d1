"""Checks of gold answers: each must match itself when phrased as a prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rstar.entries import answer_text
from rstar.grading.compare.exact import value_of
from rstar.grading.equality import grade
from rstar.grading.find.boxes import boxed_answer
from rstar.grading.find.extract import gold_answer_of
from rstar.grading.read.lexer import TooLargeError, UnreadableError
from rstar.grading.read.nodes import Text
from rstar.grading.read.normal import normal
from rstar.grading.read.reading import readings

GOLD_FIELDS = ("answer", "final_answer", "gold", "expected_answer", "solution")
"""Fields in which public data sets keep the gold answer, in order of preference."""

PREDICTION_TEMPLATES: dict[str, Callable[[str], str]] = {
    "as it is": lambda gold: gold,
    "in a box": lambda gold: rf"So it is $\boxed{{{gold}}}$.",
    "in tags": lambda gold: f"<answer>{gold}</answer>",
    "announced": lambda gold: f"**Answer:** {gold}" if "$" in gold else f"**Answer:** ${gold}$",
}

Kind = Literal["number", "expression", "words", "not gradeable"]


@dataclass(frozen=True, slots=True)
class GoldCheck:
    """Whether and how one gold answer can be graded.

    Attributes:
        gold: the answer found in the entry.
        kind: `number`: an exact value. `expression`: any other mathematics. `words`: matches only the same words.
            `not gradeable`: a prediction that states exactly this answer would not be graded correct.
        reason: why the answer is not gradeable; empty otherwise.
    """

    gold: str
    kind: Kind
    reason: str = ""


def check_gold(gold: str) -> GoldCheck:
    """Grade a gold answer against itself in the forms that predictions use."""
    found = gold_answer_of(gold)
    core = gold if found is None else found
    if not core.strip():
        return GoldCheck(gold, "not gradeable", "empty")
    for name, fill in PREDICTION_TEMPLATES.items():
        verdict = grade(gold, fill(core))
        if not verdict.correct:
            return GoldCheck(core, "not gradeable", f"{name}: {verdict.outcome}, {verdict.reason}")
    try:
        nodes = readings(normal(core))
    except TooLargeError:
        return GoldCheck(core, "words")
    except (UnreadableError, RecursionError) as error:
        return GoldCheck(core, "not gradeable", f"it cannot be read: {error}")
    if all(isinstance(node, Text) for node in nodes):
        return GoldCheck(core, "words")
    return GoldCheck(core, "number" if any(value_of(node) is not None for node in nodes) else "expression")


def gold_of(entry: Mapping[str, Any]) -> str | None:
    """Return the gold answer of a data set entry, in the layouts of public benchmarks; None if there is none.

    A list of answers counts as one answer. In a worked ``solution``, the answer is the content of the last box.
    """
    fields = {name.lower(): value for name, value in entry.items()}
    for name in GOLD_FIELDS:
        value = fields.get(name)
        if isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
            value = ", ".join(map(str, value))
        if (text := answer_text(value)) is None:
            continue
        if name == "solution":
            return boxed_answer(text) or None
        if text.strip():
            return text
    return None
