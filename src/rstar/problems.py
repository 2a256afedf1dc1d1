"""A problem as inference-time code sees it: the question, and nothing that reveals the answer."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem to solve.

    Attributes:
        id: unique within its file or run; results are keyed by it. Empty for a single question, which errors then do
            not name.
        question: the text shown to the model.
        meta: labels for tables (family, level, source …): scalars only, never an answer. The reader of problem files
            copies only the fields in `rstar.datasets.META_FIELDS`.
    """

    id: str
    question: str
    meta: dict[str, str | int | float] = field(default_factory=dict)
