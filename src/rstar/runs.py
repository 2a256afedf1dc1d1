"""The run folder: what every long command writes, resumes from, and the viewer reads.

``config.json`` (resolved, with digest and versions), ``results.jsonl`` (one line per finished problem, appended as it
finishes), ``trees.jsonl``, ``summary.json``. Invariants:

* A line is written in one piece and flushed to the disk; a crash costs at most the line being written, and a torn last
  line is cut off when the folder is opened again.
* Nothing finished is lost or done twice: `Run.finished` says what is there.
* A result's tree is the one it came from: a tree whose result was not written any more is dropped with it.
* A folder is continued only under the configuration (and the problems) that it was begun with.
* `Run.seal` puts the lines into the order of the problems, so that a finished run's files do not depend on what
  finished first or how often it was interrupted.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from rstar.errors import ConfigError, DataError, ResumeError, StorageError

CONFIG, RESULTS, TREES, SUMMARY = "config.json", "results.jsonl", "trees.jsonl", "summary.json"
ROUNDS = "rounds.json"
"""In the folder of a self-evolution: its table."""


class Run:
    """An open run folder; use as ``with Run.open(...) as run:``. One process at a time."""

    def __init__(self, folder: Path, lock: int, config: Mapping[str, Any]) -> None:
        self.folder = folder
        self._lock, self._config = lock, config
        self._files = {name: _Lines(folder / name) for name in (RESULTS, TREES)}
        self._files[TREES].cut(self._files[RESULTS].ids)

    @classmethod
    def open(cls, folder: Path, identity: Mapping[str, Any], about: Mapping[str, Any]) -> Run:
        """Open a run in `folder`, or the one in it. Nothing is written before `begin`.

        Args:
            folder: created when missing.
            identity: what decides the results, flat; must equal that of the run in the folder.
            about: further content of ``config.json`` (versions, resolved settings), not compared.

        Raises:
            ResumeError: the folder belongs to a different run (names the keys that differ), is in use, or holds
                something else.
            ConfigError: it cannot be made.
        """
        lock = lock_folder(folder)
        try:
            _check(folder, identity)
            return cls(folder, lock, {"identity": dict(identity), **about})
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for file in self._files.values():
                file.close()
            with suppress(OSError):  # a run that achieved nothing leaves nothing behind
                if error is not None and [entry.name for entry in self.folder.iterdir()] == [CONFIG]:
                    (self.folder / CONFIG).unlink()
                self.folder.rmdir()
        finally:
            os.close(self._lock)

    def begin(self) -> None:
        """Claim the folder: from now on it belongs to this run."""
        file = self.folder / CONFIG
        if not file.exists():
            with _stored(self.folder):
                write_json(file, self._config)

    @property
    def finished(self) -> set[str]:
        """Ids of the problems whose result is stored."""
        return set(self._files[RESULTS].ids)

    def add(self, result: Mapping[str, Any], tree: Mapping[str, Any] | None = None) -> None:
        """Store a finished problem. Both have an ``id``; the tree goes first, so that a result implies its tree."""
        with _stored(self.folder):
            self.begin()
            if tree is not None:
                self._files[TREES].append(tree)
            self._files[RESULTS].append(result)

    def results(self) -> Iterator[dict[str, Any]]:
        """The stored results, one at a time, in the file's order."""
        file = self.folder / RESULTS
        return read_lines(file) if file.exists() else iter(())

    def seal(self, order: Sequence[str], summary: Mapping[str, Any]) -> None:
        """Finish: lines in the order of the problem ids `order`, and ``summary.json``."""
        with _stored(self.folder):
            self.begin()
            for file in self._files.values():
                file.reorder(order)
            write_json(self.folder / SUMMARY, summary)


class _Lines:
    """An append-only JSONL file of records with an ``id``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.ids: dict[str, int] = {}  # id → byte offset of its line
        self._end = self._scan()
        self._out: BinaryIO | None = None

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

    def cut(self, keep: Container[str]) -> None:
        """Leave out a last line whose id is not in `keep`: with the next `append` it is gone."""
        if self.ids and (last := next(reversed(self.ids))) not in keep:
            self._end = self.ids.pop(last)

    def append(self, record: Mapping[str, Any]) -> None:
        if self._out is None:
            self._out = self._file.open("ab")
            self._out.truncate(self._end)
            self._out.seek(self._end)
        start = self._out.tell()
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        self._out.write(text.encode(errors="backslashreplace") + b"\n")  # lone surrogates become JSON's own escapes
        self._out.flush()
        os.fsync(self._out.fileno())
        self.ids[record["id"]] = start

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
        if self._out is not None:
            with suppress(OSError):  # what could not be written has been reported when it was to be
                self._out.close()


@contextmanager
def _stored(folder: Path) -> Iterator[None]:
    """Raise `StorageError` for what the file system refuses."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}; what was finished before is kept") from error


def lock_folder(folder: Path) -> int:
    """Create `folder` if need be and lock it for this process: a descriptor that unlocks it when closed.

    Raises:
        ResumeError: another process has it.
        ConfigError: it cannot be made.
    """
    make_folder(folder)
    try:
        lock = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"cannot open the folder {folder}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ResumeError(f"{folder} is in use by another process") from error
    return lock


def make_folder(folder: Path) -> None:
    """Create a folder where there is none. Raises `ConfigError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder}: {error.strerror}") from error


def abandon(folder: Path) -> None:
    """Remove a folder that was claimed in vain, and all that is in it. One that cannot be removed is left empty."""
    with suppress(OSError):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
        folder.rmdir()


def _refuse_foreign(file: Path) -> None:
    """Raise `ResumeError` where the folder of `file`, which is to say whose it is, holds something already."""
    foreign = sorted(entry.name for entry in file.parent.iterdir() if entry != file.with_suffix(".part"))
    if foreign:
        raise ResumeError(f"{file.parent} is not a run folder, and not empty: it holds {foreign[0]!r}")


def _check(folder: Path, identity: Mapping[str, Any]) -> None:
    """Raise `ResumeError` for a folder that holds another run, or something else."""
    file = folder / CONFIG
    if not file.exists():
        _refuse_foreign(file)
        return
    try:
        old = json.loads(file.read_text(encoding="utf-8"))["identity"]
        old.keys()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResumeError(f"{file} is not the configuration of a run: {error}") from error
    differ = [k for k in sorted(identity.keys() | old.keys()) if identity.get(k) != old.get(k)]
    if differ:
        rows = "\n".join(f"  {k}: {old.get(k)!r} there, {identity.get(k)!r} now" for k in differ)
        message = f"{folder} was begun with another configuration; choose another --out, or undo:\n{rows}"
        raise ResumeError(message, frozenset(differ))


def read_identity(file: Path) -> dict[str, Any] | None:
    """What a file says of whose folder it is in; None where there is none. Raises `ResumeError` for anything else."""
    if not file.exists():
        return None
    try:
        old = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        old = None
    if not isinstance(old, dict):
        raise ResumeError(f"{file} does not say whose folder it is")
    return old


def check_identity(file: Path, identity: Mapping[str, Any]) -> bool:
    """Whether `file` holds an identity, which is then this one; if not, its folder is empty.

    Raises:
        ResumeError: the folder holds another run (names what differs), or something else.
    """
    old = read_identity(file)
    if old is None:
        _refuse_foreign(file)
        return False
    if differ := sorted(k for k in identity.keys() | old.keys() if identity.get(k) != old.get(k)):
        raise ResumeError(f"{file.parent} belongs to another run; these differ: {', '.join(differ)}")
    return True


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The records of a JSONL file; a torn last line is passed over. Raises `DataError` where one is damaged."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n"):
                try:
                    record = json.loads(line)
                except ValueError as error:
                    raise DataError(f"{file}:{number}: damaged: {error}") from error
                if not isinstance(record, dict) or "id" not in record:
                    raise DataError(f"{file}:{number}: damaged: not an object with an id")
                yield record


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON file atomically."""
    part = file.with_suffix(".part")
    with part.open("w", encoding="utf-8", errors="backslashreplace") as out:
        out.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)
