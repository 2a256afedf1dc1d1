"""Problem files: every entry is validated before any work starts.

`rstar.entries` lists the formats. The caller names the question and answer fields; otherwise `QUESTION_FIELDS` and
`ANSWER_FIELDS`, the names used by public benchmarks, are tried. Questions and gold answers part here:
`ProblemSet.problems` may go to a solver, `ProblemSet.keys` may not.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rstar.answers import AnswerKey
from rstar.entries import answer_text, read_entries
from rstar.errors import DataError
from rstar.grading.find.boxes import boxed_answer
from rstar.problems import Problem

QUESTION_FIELDS = ("question", "problem", "prompt")
"""Names of the question field, case-insensitive. Its value may be a list of one chat message."""

ANSWER_FIELDS = ("answer", "final_answer", "expected_answer", "gold", "reward_model.ground_truth")
"""Names of the answer field, case-insensitive; a dot descends into an object."""

SOLUTION_FIELD = "solution"
"""Fallback without an answer field: the last box of a worked solution, or its whole text if that is a single word."""

WORKED_MARK = "####"
"""In a worked answer, as in GSM8K, the final answer follows this mark."""

META_FIELDS = ("family", "kind", "level", "subject", "source")
MAX_ERRORS = 20


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Problems in file order, with the gold answers of those that have one.

    Attributes:
        problems: input of a solver.
        keys: problem id → gold answer.
        skipped: messages for skipped bad entries (`skip_bad`).
    """

    problems: list[Problem]
    keys: dict[str, AnswerKey] = field(repr=False)
    skipped: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.problems)

    def head(self, limit: int | None) -> ProblemSet:
        """The first `limit` problems (all if None)."""
        return self.subset(self.problems[:limit])

    def subset(self, problems: Sequence[Problem]) -> ProblemSet:
        """The subset with these problems."""
        keys = {problem.id: self.keys[problem.id] for problem in problems if problem.id in self.keys}
        return ProblemSet(list(problems), keys, self.skipped)

    def require_gold(self, purpose: str, file: Path | None = None) -> None:
        """Raise `DataError` if a problem has no gold answer; the message names the `file` and the `purpose`."""
        if without := [problem.id for problem in self.problems if problem.id not in self.keys]:
            count = f"{len(without)} problem{'s have' if len(without) > 1 else ' has'}"
            where = "" if file is None else f"{file}: "
            raise DataError(f"{where}{count} no gold answer, the first: {without[0]!r}; {purpose} needs them")


def read_problems(
    file: Path, skip_bad: bool = False, question_field: str | None = None, answer_field: str | None = None
) -> ProblemSet:
    """Read a problem file.

    Args:
        file: JSONL, a JSON list, CSV or Parquet (see `rstar.entries`).
        skip_bad: skip bad entries and report them in `ProblemSet.skipped` instead of raising.
        question_field, answer_field: fields of question and gold answer; default: the names listed above.

    Raises:
        DataError: the file cannot be read or has no problem, no entry has a named field, or (without `skip_bad`) an
            entry is bad; the message has ``file:line: reason`` for each of the first `MAX_ERRORS`.
    """
    problems: list[Problem] = []
    keys: dict[str, AnswerKey] = {}
    errors: list[str] = []
    first_places: dict[str, str] = {}
    entries = list(read_entries(file))
    for name in (question_field, answer_field):
        objects = [entry for _, entry in entries if isinstance(entry, dict)]
        if name is not None and objects and all(_field_value(entry, name) is None for entry in objects):
            raise DataError(f"{file}: no entry has a field {name!r}; the first has {', '.join(map(repr, objects[0]))}")
    given = {str(_field_value(entry, "id")) for _, entry in entries if isinstance(entry, dict)}
    free_ids = (name for name in map(str, itertools.count()) if name not in given)
    for where, entry in entries:
        try:
            problem, key = _parse(entry, free_ids, question_field, answer_field)
            if problem.id in first_places:
                raise ValueError(f"id {problem.id!r} was used before, at {first_places[problem.id]}")
        except ValueError as error:
            errors.append(f"{where}: {error}")
            continue
        first_places[problem.id] = where
        problems.append(problem)
        if key is not None:
            keys[problem.id] = key
    if errors and not skip_bad:
        more = f"\n… and {len(errors) - MAX_ERRORS} more" if len(errors) > MAX_ERRORS else ""
        raise DataError("\n".join(errors[:MAX_ERRORS]) + more)
    if not problems:
        skipped = f"; all {len(errors)} entries were skipped, the first for this reason: {errors[0]}" if errors else ""
        raise DataError(f"{file}: the file contains no problems{skipped}")
    return ProblemSet(problems, keys, errors)


def _field_value(entry: Mapping[str, Any], name: str) -> Any:
    """The value of a field, case-insensitive; a dot descends into an object. None if absent."""
    if name in entry:
        return entry[name]
    first, _, rest = name.partition(".")
    value = next((entry[key] for key in entry if key.lower() == first.lower()), None)
    return value if not rest else _field_value(value, rest) if isinstance(value, dict) else None


def _field_name(entry: Mapping[str, Any], names: Sequence[str], role: str) -> str | None:
    """The name of the field with the question or answer (`role`). Raises ValueError if fields hold different values."""
    found = {name: value for name in names if (value := _field_value(entry, name)) not in (None, "", [])}
    if len({json.dumps(value, sort_keys=True) for value in found.values()}) > 1:
        fields = " and ".join(map(repr, found))
        raise ValueError(f"fields {fields} could both be the {role}; choose one with --{role}-field")
    return next(iter(found), None)


def _question(entry: Mapping[str, Any], field: str | None) -> str:
    name = field or _field_name(entry, QUESTION_FIELDS, "question") or "question"
    value = _field_value(entry, name)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):  # one chat message
        value = value[0].get("content")
    if not isinstance(value, str) or not value.strip():
        hint = "" if field or name in entry else f"; looked for {', '.join(QUESTION_FIELDS)} (see --question-field)"
        raise ValueError(f"{name!r} must be a non-empty string{hint}")
    return value


def _parse(
    entry: Any, free_ids: Iterator[str], question_field: str | None, answer_field: str | None
) -> tuple[Problem, AnswerKey | None]:
    """The problem and its key; a missing id is taken from `free_ids`. Raises ValueError with the reason."""
    if isinstance(entry, ValueError):
        raise entry
    if not isinstance(entry, dict):
        raise ValueError(f"expected an object with 'question', got {type(entry).__name__}")
    question = _question(entry, question_field)
    key = _key(entry, answer_field)
    name = _field_value(entry, "id")
    if name is None:
        name = next(free_ids)
    if not isinstance(name, str | int):
        raise ValueError(f"'id' must be a string or an integer, got {type(name).__name__}")
    for text in (question, str(name), "" if key is None else key.answer):
        if not _is_unicode(text):
            raise ValueError(f"a lone surrogate (half a character) in {text[:60]!r}")
    meta = {k: entry[k] for k in META_FIELDS if isinstance(entry.get(k), str | int | float)}
    record = entry.get("record")
    return Problem(str(name), question, meta, record if isinstance(record, dict) else {}), key


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _key(entry: Mapping[str, Any], field: str | None) -> AnswerKey | None:
    check = entry.get("check")
    if check is not None and not (isinstance(check, dict) and isinstance(check.get("kind"), str)):
        raise ValueError("'check' must be an object with a 'kind'")
    answer = _answer(entry, field)
    if answer is None:
        if check is not None:
            raise ValueError("'check' needs an 'answer', an example of what passes it")
        return None
    return AnswerKey(answer, check)


def _answer(entry: Mapping[str, Any], field: str | None) -> str | None:
    """The gold answer as text; None if there is none."""
    if field is None and "answer" in entry and entry["answer"] == "":
        raise ValueError("'answer' is empty (leave the field out when there is no gold answer)")
    name = field or _field_name(entry, ANSWER_FIELDS, "answer")
    if name is None:
        solution = _field_value(entry, SOLUTION_FIELD)
        if not isinstance(solution, str):
            return None
        return boxed_answer(solution) or (solution.strip() if len(solution.split()) == 1 else None)
    value = _field_value(entry, name)
    if name == "final_answer" and isinstance(value, list):  # OlympiadBench: all answers are required
        value = ", ".join(map(str, value))
    if value is None:
        return None
    if (text := answer_text(value)) is None:
        raise ValueError(f"{name!r} must be a string, a number or true/false, got {type(value).__name__}")
    if WORKED_MARK in text:
        text = text.rpartition(WORKED_MARK)[2].strip()
    if not text.strip():
        raise ValueError(f"{name!r} is empty (leave the field out when there is no gold answer)")
    return text
