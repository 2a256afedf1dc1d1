"""A problem as inference-time code sees it: the question, and nothing that reveals the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem to solve.

    Attributes:
        id: unique within its file or run; results are keyed by it. Empty for a single question, which errors then do
            not name.
        question: the text shown to the model.
        meta: labels for tables (family, level, source …): scalars only, never an answer. The reader of problem files
            copies only the fields in `rstar.datasets.META_FIELDS`.
        record: what an environment's tools look up, as JSON data, such as the recorded findings of a case. The model
            sees what its tools return of it. Never an answer: code that holds a problem may read all of it.
    """

    id: str
    question: str
    meta: dict[str, str | int | float] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
