"""The groups that a training has stored, in ``rollouts.jsonl``, read by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rstar.errors import DataError
from rstar.jsonl import RecordFile
from rstar.rl.groups import Group

ROLLOUTS = "rollouts.jsonl"


class StoredGroups:
    """A file of groups, for a training that makes none of its own.

    Args:
        file: ``rollouts.jsonl`` of a training.
        steps: number of steps that need it.
        vocab_size: number of tokens that the model to train knows.

    Raises:
        DataError: the file is damaged, or holds fewer steps.
    """

    def __init__(self, file: Path, steps: int, vocab_size: int) -> None:
        self._lines, self._vocab_size = RecordFile(file), vocab_size
        self._keys: dict[int, list[str]] = defaultdict(list)
        with naming(file):
            for key in sorted(self._lines.keys, key=lambda key: int(key.partition("/")[2])):
                self._keys[int(key.partition("/")[0])].append(key)
        if missing := sorted(set(range(1, steps + 1)) - self._keys.keys()):
            raise DataError(f"{file}: holds no rollouts of step {missing[0]}; the recipe has {steps} steps")

    def of(self, step: int) -> list[Group]:
        """The groups of a step, in the order of their draws. Raises `DataError` for a damaged one."""
        with naming(self._lines.file):
            groups = [Group.from_json(line) for line in self._lines.read(self._keys[step])]
        for group in groups:
            highest = max((max(one.ids, default=0) for one, _ in group.ends), default=0)
            if highest >= self._vocab_size:
                raise DataError(
                    f"{self._lines.file}: step {step}: token {highest}, but the policy knows {self._vocab_size:,}: "
                    "the rollouts are those of another model"
                )
        return groups


def unfinished(lines: RecordFile, done: int) -> Mapping[tuple[int, int], Group]:
    """Stored groups of steps after `done`, which an interruption left unfinished, by step and draw."""
    with naming(lines.file):
        return {
            (line["step"], line["draw"]): Group.from_json(line)
            for line in lines
            if line["step"] > done and line["id"] in lines.keys
        }


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Turns what a malformed record raises into an error that names its file."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{file}: damaged, or written by another version: {error!r}") from error
