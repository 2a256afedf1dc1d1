"""The gold answer, in a type of its own.

Inference-time search, selection and discrimination cannot receive it: no module of `rstar.search` or `rstar.models`
may import this one (held by the import contract and by a test). Whoever grades (the command line, evaluation,
training) holds an `AnswerKey` beside the `Problem` and compares once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, repr=False)
class AnswerKey:
    """What counts as right for one problem.

    Attributes:
        answer: the gold answer as text (LaTeX allowed).
        check: for problems with many right answers, a verifier instead of a comparison, as data: for example
            ``{"kind": "expression", "numbers": [4, 7, 8, 8], "target": 24}``. See `rstar.grading.checks`.
    """

    answer: str
    check: dict[str, Any] | None = None

    def __repr__(self) -> str:  # a key printed by accident, in a log or a prompt, gives nothing away
        return "AnswerKey(…)"
