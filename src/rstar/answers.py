"""The gold answer, in a type of its own.

Inference-time search, selection and discrimination cannot receive it: no module of `rstar.search` or `rstar.models` may
import this one (enforced by the import contract and a test). Code that grades (command line, evaluation, training)
holds an `AnswerKey` beside the `Problem` and compares once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, repr=False)
class AnswerKey:
    """The gold answer of one problem.

    Attributes:
        answer: gold answer as text (LaTeX allowed).
        check: for problems with many correct answers, a verifier in place of a comparison, as data: for example
            ``{"kind": "expression", "numbers": [4, 7, 8, 8], "target": 24}``. See `rstar.grading.checks`.
    """

    answer: str
    check: dict[str, Any] | None = None

    def __repr__(self) -> str:  # a key that ends up in a log or prompt reveals nothing
        return "AnswerKey(…)"
