"""What grading says: an outcome, and why.

`wrong` and `unparseable` are statements about the prediction. `timeout` and `error` are not: the grader gave up, or the
gold answer itself cannot be read. They never count as a match, and they are kept apart so that nobody takes them for
wrong answers unawares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["correct", "wrong", "unparseable", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one comparison.

    Attributes:
        outcome: `correct` is the only match; `unparseable`: the prediction holds no answer that can be read.
        reason: short text for logs and reports: which rule decided.
        gold_form: the gold answer as it was compared.
        prediction_form: the prediction as it was compared; empty when no answer was found in it.
    """

    outcome: Outcome
    reason: str
    gold_form: str = ""
    prediction_form: str = ""

    @property
    def correct(self) -> bool:
        """Whether the prediction is right."""
        return self.outcome == "correct"
