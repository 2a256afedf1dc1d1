"""Reading problem files: every entry checked before any work starts.

Three forms: JSONL with an object a line, a JSON list of objects, and CSV with a line of column names. The caller names
the fields of question and gold answer, or they are looked up in `QUESTION_FIELDS` and `ANSWER_FIELDS`, the names that
public benchmarks use. The two halves of a problem part ways here: `ProblemSet.problems` may go to a solver,
`ProblemSet.keys` may not.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rstar.answers import AnswerKey
from rstar.errors import DataError
from rstar.grading.find.boxes import in_boxes
from rstar.problems import Problem

QUESTION_FIELDS = ("question", "problem", "prompt")
"""Names of the question, whatever their case. A prompt may be a list of one chat message."""

ANSWER_FIELDS = ("answer", "final_answer", "expected_answer", "gold", "reward_model.ground_truth")
"""Names of the gold answer, whatever their case; a dot leads into an object."""

SOLUTION_FIELD = "solution"
"""Where no other field has the answer: what stands in the last box of a worked solution, or all of a single word."""

WORKED_MARK = "####"
"""In a worked answer, as GSM8K has it, the answer itself follows this mark."""

META_FIELDS = ("family", "kind", "level", "subject", "source")
MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Problems in file order, and the gold answers of those that have one.

    Attributes:
        problems: what a solver gets.
        keys: problem id → gold answer.
        skipped: messages for the bad entries that were left out (`skip_bad`).
    """

    problems: list[Problem]
    keys: dict[str, AnswerKey] = field(repr=False)
    skipped: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.problems)

    def head(self, limit: int | None) -> ProblemSet:
        """The first `limit` problems (all when None)."""
        return self.only(self.problems[:limit])

    def only(self, problems: Sequence[Problem]) -> ProblemSet:
        """These problems of the set."""
        keys = {problem.id: self.keys[problem.id] for problem in problems if problem.id in self.keys}
        return ProblemSet(list(problems), keys, self.skipped)

    def need_gold(self, purpose: str, file: Path | None = None) -> None:
        """Raise `DataError` (that names the `file`) where a problem has no gold answer: `purpose` needs them all."""
        if without := [problem.id for problem in self.problems if problem.id not in self.keys]:
            count = f"{len(without)} problem{'s have' if len(without) > 1 else ' has'}"
            where = "" if file is None else f"{file}: "
            raise DataError(f"{where}{count} no gold answer, the first: {without[0]!r}; {purpose} needs them")


def read_problems(
    file: Path, skip_bad: bool = False, question_field: str | None = None, answer_field: str | None = None
) -> ProblemSet:
    """Read a problem file.

    Args:
        file: JSONL, a JSON list, or CSV (by the ending ``.csv``).
        skip_bad: leave bad entries out and report them in `ProblemSet.skipped`, instead of raising.
        question_field, answer_field: where question and gold answer are; else those of the tables above.

    Raises:
        DataError: the file cannot be read, has no problem, no entry has a field that was named, or (without `skip_bad`)
            there are bad entries; the message has one ``file:line: reason`` for each of the first `MOST_ERRORS`.
    """
    problems: list[Problem] = []
    keys: dict[str, AnswerKey] = {}
    errors: list[str] = []
    first_at: dict[str, str] = {}
    entries = list(read_entries(file))
    for name in (question_field, answer_field):
        objects = [entry for _, entry in entries if isinstance(entry, dict)]
        if name is not None and objects and all(_at(entry, name) is None for entry in objects):
            raise DataError(f"{file}: no entry has a field {name!r}; the first has {', '.join(map(repr, objects[0]))}")
    given = {str(_at(entry, "id")) for _, entry in entries if isinstance(entry, dict)}
    free = (name for name in map(str, itertools.count()) if name not in given)
    for where, entry in entries:
        try:
            problem, key = _parse(entry, free, question_field, answer_field)
            if problem.id in first_at:
                raise ValueError(f"id {problem.id!r} was used before, at {first_at[problem.id]}")
        except ValueError as error:
            errors.append(f"{where}: {error}")
            continue
        first_at[problem.id] = where
        problems.append(problem)
        if key is not None:
            keys[problem.id] = key
    if errors and not skip_bad:
        more = f"\n… and {len(errors) - MOST_ERRORS} more" if len(errors) > MOST_ERRORS else ""
        raise DataError("\n".join(errors[:MOST_ERRORS]) + more)
    if not problems:
        raise DataError(f"{file}: no problem in it")
    return ProblemSet(problems, keys, errors)


def read_entries(file: Path) -> Iterator[tuple[str, Any]]:
    """(place, parsed entry) pairs of JSONL, a JSON list or CSV; an entry that cannot be read comes as the exception.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not UTF-8 text (byte {error.start})") from error
    if file.suffix.lower() == ".csv":
        yield from _read_csv(file, text)
        return
    if text.lstrip().startswith("["):
        try:
            entries = json.loads(text)
        except json.JSONDecodeError as error:
            raise DataError(f"{file}:{error.lineno}: not valid JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file}: not readable as JSON: {error}") from error
        yield from ((f"{file}: entry {i}", entry) for i, entry in enumerate(entries, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"{file}:{number}", json.loads(line)
        except json.JSONDecodeError as error:
            yield f"{file}:{number}", ValueError(f"not valid JSON: {error.msg} (column {error.colno})")
        except (ValueError, RecursionError) as error:
            yield f"{file}:{number}", ValueError(f"not readable as JSON: {error}")


def _read_csv(file: Path, text: str) -> Iterator[tuple[str, Any]]:
    """A mapping of column to cell for each record; empty cells are left out."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        head = next(lines, [])
        if len(set(head)) < len(head):
            raise DataError(f"{file}:1: two columns have the same name")
        for cells in lines:
            where = f"{file}:{lines.line_num}"
            if not cells:
                continue
            if len(cells) != len(head):
                yield where, ValueError(f"{len(cells)} cells, but the first line names {len(head)} columns")
            else:
                yield where, {name: cell for name, cell in zip(head, cells, strict=True) if cell.strip()}
    except csv.Error as error:
        raise DataError(f"{file}:{lines.line_num}: not readable as CSV: {error}") from error


def _at(entry: Mapping[str, Any], name: str) -> Any:
    """What a field holds, whatever the case of its name; a dot leads into an object. None where there is none."""
    if name in entry:
        return entry[name]
    first, _, rest = name.partition(".")
    value = next((entry[key] for key in entry if key.lower() == first.lower()), None)
    return value if not rest else _at(value, rest) if isinstance(value, dict) else None


def _the_one(entry: Mapping[str, Any], names: Sequence[str], what: str) -> str | None:
    """The name of the field that holds `what`. Raises ValueError where several hold different values."""
    found = {name: value for name in names if (value := _at(entry, name)) not in (None, "", [])}
    if len({json.dumps(value, sort_keys=True) for value in found.values()}) > 1:
        fields = " and ".join(map(repr, found))
        raise ValueError(f"fields {fields} could both be the {what}: choose with --{what}-field")
    return next(iter(found), None)


def _question(entry: Mapping[str, Any], field: str | None) -> str:
    name = field or _the_one(entry, QUESTION_FIELDS, "question") or "question"
    value = _at(entry, name)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):  # a chat of one message
        value = value[0].get("content")
    if not isinstance(value, str) or not value.strip():
        hint = "" if field or name in entry else f"; looked for {', '.join(QUESTION_FIELDS)} (see --question-field)"
        raise ValueError(f"{name!r} must be a non-empty string{hint}")
    return value


def _parse(
    entry: Any, free: Iterator[str], question_field: str | None, answer_field: str | None
) -> tuple[Problem, AnswerKey | None]:
    """The problem and its key; an id from `free` where it has none. Raises ValueError with the reason."""
    if isinstance(entry, ValueError):
        raise entry
    if not isinstance(entry, dict):
        raise ValueError(f"expected an object with 'question', got {type(entry).__name__}")
    question = _question(entry, question_field)
    key = _key(entry, answer_field)
    name = _at(entry, "id")
    if name is None:
        name = next(free)
    if not isinstance(name, str | int):
        raise ValueError(f"'id' must be a string or an integer, got {type(name).__name__}")
    for text in (question, str(name), "" if key is None else key.answer):
        if not _is_unicode(text):
            raise ValueError(f"half a character (a lone surrogate) in {text[:60]!r}")
    meta = {k: entry[k] for k in META_FIELDS if isinstance(entry.get(k), str | int | float)}
    return Problem(str(name), question, meta), key


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
    """The gold answer as text, None where there is none."""
    if field is None and "answer" in entry and entry["answer"] == "":
        raise ValueError("'answer' is empty (leave the field out when there is no gold answer)")
    name = field or _the_one(entry, ANSWER_FIELDS, "answer")
    if name is None:
        solution = _at(entry, SOLUTION_FIELD)
        if not isinstance(solution, str):
            return None
        return in_boxes(solution) or (solution.strip() if len(solution.split()) == 1 else None)
    value = _at(entry, name)
    if name == "final_answer" and isinstance(value, list):  # OlympiadBench: all of them are asked for
        value = ", ".join(map(str, value))
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name!r} must be a string or a number, got {type(value).__name__}")
    text = str(value).rpartition(WORKED_MARK)[2].strip() if WORKED_MARK in str(value) else str(value)
    if not text.strip():
        raise ValueError(f"{name!r} is empty (leave the field out when there is no gold answer)")
    return text
