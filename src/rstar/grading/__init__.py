"""When two answers are equal: extraction, comparison, and verdicts with reasons.

The seam is three functions. `grade` compares two texts, `is_equivalent` says only yes or no, and `verify` takes an
`AnswerKey` and uses its check where it has one. All are safe in any thread and never raise for what stands in the
texts. What is granted and what is refused, and where the answer is looked for, is written down in `docs/grading.md`.
"""

from rstar.grading.equality import grade, is_equivalent, verify
from rstar.grading.verdict import Outcome, Verdict

__all__ = ["Outcome", "Verdict", "grade", "is_equivalent", "verify"]
