"""The run folder: what every long command writes, resumes from, and the viewer reads.

``config.json`` (resolved, with digest and versions), ``results.jsonl`` (one line per finished problem, appended as it
finishes), ``trees.jsonl``, ``summary.json``. Invariants:

* A line is written in one piece and flushed to the disk; a crash costs at most the line being written, and a torn last
  line is cut off when the folder is opened again.
* Nothing finished is lost or done twice: `Run.finished` says what is there.
* A folder is continued only under the configuration (and the problems) that it was begun with.
* `Run.seal` puts the lines into the order of the problems, so that a finished run's files do not depend on what
  finished first or how often it was interrupted.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rstar.errors import DataError, ResumeError

CONFIG, RESULTS, TREES, SUMMARY = "config.json", "results.jsonl", "trees.jsonl", "summary.json"


class Run:
    """An open run folder; use as ``with Run.open(...) as run:``. One process at a time."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock
        self._files = {name: _Lines(folder / name) for name in (RESULTS, TREES)}

    @classmethod
    def open(cls, folder: Path, identity: Mapping[str, Any], about: Mapping[str, Any]) -> Run:
        """Begin a run in `folder`, or continue the one in it.

        Args:
            folder: created when missing.
            identity: what decides the results, flat; must equal that of the run in the folder.
            about: further content of ``config.json`` (versions, resolved settings), not compared.

        Raises:
            ResumeError: the folder belongs to a different run (names the keys that differ), is in use, or holds
                something else.
        """
        lock = lock_folder(folder)
        try:
            _claim(folder, identity, about)
            return cls(folder, lock)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        os.close(self._lock)

    @property
    def finished(self) -> set[str]:
        """Ids of the problems whose result is stored."""
        return set(self._files[RESULTS].ids)

    def add(self, result: Mapping[str, Any], tree: Mapping[str, Any] | None = None) -> None:
        """Store a finished problem. Both have an ``id``; the tree goes first, so that a result implies its tree."""
        if tree is not None and tree["id"] not in self._files[TREES].ids:
            self._files[TREES].append(tree)
        self._files[RESULTS].append(result)

    def results(self) -> Iterator[dict[str, Any]]:
        """The stored results, one at a time, in the file's order."""
        return read_lines(self.folder / RESULTS)

    def seal(self, order: Sequence[str], summary: Mapping[str, Any]) -> None:
        """Finish: lines in the order of the problem ids `order`, and ``summary.json``."""
        for file in self._files.values():
            file.reorder(order)
        write_json(self.folder / SUMMARY, summary)


class _Lines:
    """An append-only JSONL file of records with an ``id``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.ids: dict[str, int] = {}  # id → byte offset of its line
        end = self._scan()
        self._out = file.open("ab")
        self._out.truncate(end)
        self._out.seek(end)

    def _scan(self) -> int:
        """Fill `ids`; returns where the last whole line ends."""
        end = 0
        if not self._file.exists():
            return end
        with self._file.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                try:
                    self.ids[json.loads(line)["id"]] = end
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(f"{self._file}: damaged at byte {end}: {error}") from error
                end += len(line)
        return end

    def append(self, record: Mapping[str, Any]) -> None:
        self.ids[record["id"]] = self._out.tell()
        self._out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        self._out.flush()
        os.fsync(self._out.fileno())

    def reorder(self, order: Sequence[str]) -> None:
        """Rewrite the file atomically with the lines of `order` in that order; a file without lines is removed."""
        self.close()
        if not self.ids:
            self._file.unlink(missing_ok=True)
            return
        part = self._file.with_suffix(".part")
        with self._file.open("rb") as lines, part.open("wb") as out:
            for name in order:
                if name in self.ids:
                    lines.seek(self.ids[name])
                    out.write(lines.readline())
            out.flush()
            os.fsync(out.fileno())
        part.replace(self._file)

    def close(self) -> None:
        self._out.close()


def lock_folder(folder: Path) -> int:
    """Create `folder` if need be and lock it for this process: a descriptor that unlocks it when closed.

    Raises:
        ResumeError: another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ResumeError(f"{folder} is in use by another process") from error
    return lock


def _claim(folder: Path, identity: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    file = folder / CONFIG
    if not file.exists():
        foreign = [name.name for name in folder.iterdir()]
        if foreign:
            raise ResumeError(f"{folder} is not a run folder, and not empty: it holds {foreign[0]!r}")
        write_json(file, {"identity": dict(identity), **about})
        return
    try:
        old = json.loads(file.read_text(encoding="utf-8"))["identity"]
    except (ValueError, KeyError) as error:
        raise ResumeError(f"{file} is not the configuration of a run: {error}") from error
    differ = [k for k in sorted(identity.keys() | old.keys()) if identity.get(k) != old.get(k)]
    if differ:
        rows = "\n".join(f"  {k}: {old.get(k)!r} there, {identity.get(k)!r} now" for k in differ)
        raise ResumeError(f"{folder} was begun with another configuration; choose another --out, or undo:\n{rows}")


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file; a torn last line is passed over."""
    with file.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield json.loads(line)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON file atomically."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(file)
