"""Reading problem files: every line checked before any work starts.

Two forms: JSONL, one ``{"id"?, "question", "answer"?}`` a line, and the JSON list of objects with ``question`` and
``answer`` in which public benchmarks come. The two halves of a problem part ways here: `ProblemSet.problems` may go to
a solver, `ProblemSet.keys` may not.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rstar.answers import AnswerKey
from rstar.errors import DataError
from rstar.problems import Problem

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


def read_problems(file: Path, skip_bad: bool = False) -> ProblemSet:
    """Read a problem file.

    Args:
        file: JSONL, or a JSON list.
        skip_bad: leave bad entries out and report them in `ProblemSet.skipped`, instead of raising.

    Raises:
        DataError: the file cannot be read, has no problem, or (without `skip_bad`) has bad entries; the message has one
            ``file:line: reason`` for each of the first `MOST_ERRORS`.
    """
    problems: list[Problem] = []
    keys: dict[str, AnswerKey] = {}
    errors: list[str] = []
    first_at: dict[str, str] = {}
    entries = list(read_entries(file))
    given = {str(entry.get("id")) for _, entry in entries if isinstance(entry, dict)}
    free = (name for name in map(str, itertools.count()) if name not in given)
    for where, entry in entries:
        try:
            problem, key = _parse(entry, free)
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
    """(place, parsed entry) pairs of a JSONL file or a JSON list; an entry that is no JSON comes as the exception.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not UTF-8 text (byte {error.start})") from error
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


def _parse(entry: Any, free: Iterator[str]) -> tuple[Problem, AnswerKey | None]:
    """The problem and its key; an id from `free` where it has none. Raises ValueError with the reason."""
    if isinstance(entry, ValueError):
        raise entry
    if not isinstance(entry, dict):
        raise ValueError(f"expected an object with 'question', got {type(entry).__name__}")
    question = entry.get("question")
    if not isinstance(question, str) or not question.strip():
        near = next((k for k in ("problem", "prompt", "Question", "input") if k in entry), None)
        hint = f" (there is {near!r}: rename it)" if near else ""
        raise ValueError(f"'question' must be a non-empty string{hint}")
    name = entry.get("id")
    if name is None:
        name = next(free)
    if not isinstance(name, str | int):
        raise ValueError(f"'id' must be a string or an integer, got {type(name).__name__}")
    for text in (question, str(name), str(entry.get("answer"))):
        if not _is_unicode(text):
            raise ValueError(f"half a character (a lone surrogate) in {text[:60]!r}")
    meta = {k: entry[k] for k in META_FIELDS if isinstance(entry.get(k), str | int | float)}
    return Problem(str(name), question, meta), _key(entry)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _key(entry: dict[str, Any]) -> AnswerKey | None:
    answer, check = entry.get("answer"), entry.get("check")
    if check is not None and not (isinstance(check, dict) and isinstance(check.get("kind"), str)):
        raise ValueError("'check' must be an object with a 'kind'")
    if answer is None:
        if check is not None:
            raise ValueError("'check' needs an 'answer', an example of what passes it")
        return None
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise ValueError(f"'answer' must be a string or a number, got {type(answer).__name__}")
    if not str(answer).strip():
        raise ValueError("'answer' is empty (leave the field out when there is no gold answer)")
    return AnswerKey(str(answer), check)
