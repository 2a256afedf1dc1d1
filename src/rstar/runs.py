"""The run folder: what every long command writes and resumes from, and what the viewer reads.

A `Folder` has ``config.json`` with its identity (what decides the results), append-only streams of records, and other
files. A search run has the streams ``results.jsonl`` (one line per finished problem) and ``trees.jsonl``, and at the
end ``summary.json``. Invariants:

* One process at a time. A folder is continued only under the identity that it was begun with.
* Nothing finished is lost or done twice: the keys of the first stream say what is finished.
* A record of another stream without one in the first, left by a crash between the two, is dropped.
* `Folder.seal` puts the records into a fixed order, so that the files of a finished run do not depend on what finished
  first or how often it was interrupted.
* A new folder in which nothing was achieved leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rstar.errors import ConfigError, DataError, ResumeError, StorageError
from rstar.jsonl import Record, Stream, write_json
from rstar.sections import flatten

CONFIG, RESULTS, TREES, SUMMARY = "config.json", "results.jsonl", "trees.jsonl", "summary.json"
ROUNDS = "rounds.json"
"""The table of a self-evolution."""


class Folder:
    """An open run folder; use as ``with Folder.open(...) as folder:``."""

    def __init__(self, path: Path, lock: int, config: Record, streams: Sequence[str]) -> None:
        self.path, self.new = path, not (path / CONFIG).exists()
        self._lock, self._config, self._kept = lock, config, not self.new
        self._streams = {name: Stream(path / name) for name in streams}
        if streams:
            first, *others = self._streams.values()
            for other in others:
                other.cut(first.keys.__contains__)

    @classmethod
    def open(
        cls,
        path: Path,
        identity: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
        streams: Sequence[str] = (),
    ) -> Folder:
        """Open the run in `path`, or a new one. Nothing is written before `begin`.

        Args:
            path: of the folder, made when missing.
            identity: what decides the results; must equal that of the run in the folder.
            about: further content of ``config.json`` (versions, resolved settings), not compared.
            streams: names of the files of records.

        Raises:
            ResumeError: the folder belongs to a different run (names the keys that differ), is in use, or holds
                something else.
            ConfigError: it cannot be made.
        """
        lock = _lock(path)
        try:
            _check(path, identity)
            return cls(path, lock, {"identity": dict(identity), **(about or {})}, streams)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for stream in self._streams.values():
                stream.close()
            if error is not None and not self._kept:
                with suppress(OSError):
                    _remove(self.path, everything=isinstance(error, ConfigError | DataError))
            with suppress(OSError):  # one that is not empty stays
                self.path.rmdir()
        finally:
            os.close(self._lock)

    def begin(self) -> None:
        """Claim the folder: from now on it belongs to this run."""
        file = self.path / CONFIG
        if not file.exists():
            with self._storing():
                write_json(file, self._config)

    def keep(self) -> None:
        """Something was achieved: whatever happens from now on, the folder stays."""
        self.begin()
        self._kept = True

    def stream(self, name: str) -> Stream:
        """A file of records."""
        return self._streams[name]

    def add(self, **records: Mapping[str, Any] | None) -> None:
        """Add a record to each stream (by its name without ``.jsonl``), the first stream last; None adds nothing."""
        self.keep()
        with self._storing():
            for name, stream in reversed(self._streams.items()):
                if (record := records.get(name.removesuffix(".jsonl"))) is not None:
                    stream.append(record)

    def seal(self, order: Sequence[str], summary: Mapping[str, Any]) -> None:
        """Finish: the records of all streams in the order of the keys `order`, and ``summary.json``."""
        self.keep()
        with self._storing():
            for stream in self._streams.values():
                stream.reorder(order)
            write_json(self.path / SUMMARY, summary)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Raise `StorageError` for what the file system refuses."""
        try:
            yield
        except OSError as error:
            message = f"cannot write to {self.path}: {error.strerror}; what was finished before is kept"
            raise StorageError(message) from error


def make_folder(path: Path) -> None:
    """Make a folder where there is none. Raises `ConfigError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {path}: {error.strerror}") from error


def read_config(path: Path) -> Record | None:
    """The ``config.json`` of a run folder; None where there is none. Raises `ResumeError` for anything else."""
    file = path / CONFIG
    if not file.exists():
        return None
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        dict(config["identity"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(f"{file} is not the configuration of a run: {error!r}") from error
    return dict(config)


def _lock(path: Path) -> int:
    """Lock a folder for this process: a descriptor that unlocks it when closed."""
    make_folder(path)
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"cannot open the folder {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ResumeError(f"{path} is in use by another process") from error
    return lock


def _check(path: Path, identity: Mapping[str, Any]) -> None:
    """Raise `ResumeError` for a folder that holds another run, or something else."""
    config = read_config(path)
    if config is None:
        foreign = sorted(entry.name for entry in path.iterdir() if entry.name != f"{CONFIG}.part")
        if foreign:
            raise ResumeError(f"{path} is not a run folder, and not empty: it holds {foreign[0]!r}")
        return
    old, new = flatten(config["identity"]), flatten(json.loads(json.dumps(identity)))
    if differ := [key for key in sorted(new.keys() | old.keys()) if new.get(key) != old.get(key)]:
        rows = "\n".join(f"  {key}: {old.get(key)!r} there, {new.get(key)!r} now" for key in differ)
        message = f"{path} was begun with another configuration; choose another --out, or undo:\n{rows}"
        raise ResumeError(message, frozenset(differ))


def _remove(path: Path, *, everything: bool) -> None:
    """Remove the claim to a folder or, with `everything`, all that is in it."""
    (path / CONFIG).unlink(missing_ok=True)
    for entry in path.iterdir() if everything else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
