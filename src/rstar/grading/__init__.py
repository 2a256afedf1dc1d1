"""Answer grading: extraction, comparison, and verdicts with reasons.

`grade` compares two texts, `is_equivalent` reduces the verdict to a bool, and `verify` grades against an `AnswerKey`,
using its check if it has one. All three are thread-safe and never raise because of what a text contains.
`docs/grading.md` specifies where answers are searched for and which forms count as equal.
"""

from rstar.grading.equality import grade, is_equivalent, verify
from rstar.grading.verdict import Outcome, Verdict

__all__ = ["Outcome", "Verdict", "grade", "is_equivalent", "verify"]
