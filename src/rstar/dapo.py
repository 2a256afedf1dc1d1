"""DAPO-Math-17k (arXiv 2503.14476), the training problems of rStar2-Agent, as problems of this package.

The published file, in verl's format, holds every problem about a hundred times, and each question stands inside an
instruction for the form of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rstar.entries import read_entries
from rstar.errors import DataError

BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form"
    " Answer: $Answer (without quotes) where $Answer is the answer to the problem."
)
AFTER = 'Remember to put your answer on its own line after "Answer:".'


@dataclass(slots=True)
class Dapo:
    """The problems of a file.

    Attributes:
        answers: question, without the instruction → gold answer; in file order.
        rows: number of rows read.
        ambiguous: questions that the file answers in different ways; not in `answers`.
    """

    answers: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    ambiguous: set[str] = field(default_factory=set)


def read_dapo(file: Path, on_row: Callable[[], None] = lambda: None) -> Dapo:
    """Read DAPO-Math-17k, as published or with one row per problem; Parquet or JSONL.

    Args:
        file: with the columns ``prompt`` (one chat message, or text) and ``reward_model`` (``ground_truth``).
        on_row: called for every row.

    Raises:
        ConfigError: Parquet cannot be read here.
        DataError: the file cannot be read or is empty, or a row is not of this form; the message names the row.
    """
    found = Dapo()
    for where, entry in read_entries(file):
        on_row()
        found.rows += 1
        try:
            question, answer = _row(entry)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
        if found.answers.setdefault(question, answer) != answer:
            found.ambiguous.add(question)
    if not found.rows:
        raise DataError(f"{file}: the file contains no problems")
    for question in found.ambiguous:
        del found.answers[question]
    return found


def _row(entry: Any) -> tuple[str, str]:
    if isinstance(entry, ValueError):
        raise entry
    match entry:
        case {"prompt": [{"content": str(text)}] | str(text), "reward_model": {"ground_truth": answer}}:
            question = text.strip().removeprefix(BEFORE).removesuffix(AFTER).strip()
        case _:
            raise ValueError("expected columns 'prompt' (one chat message, or text) and 'reward_model' (ground_truth)")
    if not question:
        raise ValueError("'prompt' has no question")
    if not isinstance(answer, str | int | float) or isinstance(answer, bool) or str(answer).strip() in ("", "nan"):
        raise ValueError(f"'reward_model.ground_truth' must be a non-empty string or a number, got {answer!r}")
    return question, str(answer).strip()
