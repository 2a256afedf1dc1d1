"""Grading results: an outcome and a reason.

`wrong` and `unparseable` describe the prediction. `timeout` and `error` do not: the grader gave up, or the gold answer
is unreadable. Neither is a match; they are separate outcomes so that they are not mistaken for wrong answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["correct", "wrong", "unparseable", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one comparison.

    Attributes:
        outcome: only `correct` is a match; `unparseable` means that the prediction holds no readable answer.
        reason: short text for logs and reports that names the deciding rule.
        gold_form: the gold answer in the form compared.
        prediction_form: the prediction in the form compared; empty if it holds no answer.
    """

    outcome: Outcome
    reason: str
    gold_form: str = ""
    prediction_form: str = ""

    @property
    def correct(self) -> bool:
        """Whether the prediction is correct."""
        return self.outcome == "correct"
