"""The run folder: long commands write it and resume from it; the viewer reads it.

A `RunFolder` holds ``config.json`` with its identity (all that decides the results), append-only record files,
and other files. A search run has the record files ``results.jsonl`` (one line per finished problem) and
``trees.jsonl``, and at the end ``summary.json``. Invariants:

* One process at a time. A folder is resumed only under the identity it was created with, or one that goes on from it.
* Finished work is neither lost nor repeated: the keys of the first record file tell what is finished.
* A record of another file without one in the first, left by a crash between the two, is dropped.
* `RunFolder.seal` puts the records into a fixed order, so the files of a finished run do not depend on the order of
  completion or on interruptions.
* A new run that achieved nothing leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rstar.errors import ConfigError, DataError, ResumeError, StorageError
from rstar.jsonl import Record, RecordFile, write_json
from rstar.sections import flatten

CONFIG, RESULTS, TREES, SUMMARY = "config.json", "results.jsonl", "trees.jsonl", "summary.json"
FOLDER = "a folder"
"""Identity of a setting that names a folder: its content decides, under another key, and the folder may be moved."""
_MOST_SHOWN = 12
"""Maximum number of settings that the refusal of a folder lists."""
_DIGEST = re.compile("[0-9a-f]{16,64}")
ROUNDS = "rounds.json"
"""The result table of a self-evolution run."""


class RunFolder:
    """An open run folder; use as ``with Folder.open(...) as folder:``."""

    def __init__(self, path: Path, lock: int, config: Record, record_files: Sequence[str], grows: bool) -> None:
        self.path, self.new = path, not (path / CONFIG).exists()
        self._lock, self._config, self._kept = lock, config, not self.new
        self._grows = grows  # the folder holds a run that this one goes on from
        self._record_files = {name: RecordFile(path / name) for name in record_files}
        if record_files:
            first, *others = self._record_files.values()
            for other in others:
                other.cut(first.keys.__contains__)

    @classmethod
    def open(
        cls,
        path: Path,
        identity: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
        record_files: Sequence[str] = (),
        goes_on_from: Mapping[str, Any] | None = None,
    ) -> RunFolder:
        """Open the run in `path`, or a new one. Nothing is written before `begin`.

        Args:
            path: the folder; created if missing.
            identity: all that decides the results; must equal that of the run in the folder.
            about: other content of ``config.json`` (versions, resolved settings); not compared.
            record_files: their names.
            goes_on_from: identity of a run whose records are all records of this one, too; None if there is none. If
                the folder holds it, `begin` turns it into this run.

        Raises:
            ResumeError: the folder belongs to a different run (the message names the keys that differ), is in use, or
                holds other files.
            ConfigError: the folder cannot be created.
        """
        lock = _lock(path)
        try:
            grows = goes_on_from is not None and _differing(path, goes_on_from) == []
            if not grows:
                _check(path, identity, about or {})
            return cls(path, lock, {"identity": dict(identity), **(about or {})}, record_files, grows)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for file in self._record_files.values():
                file.close()
            if error is not None and not self._kept:
                with suppress(OSError):
                    _remove(self.path, everything=isinstance(error, ConfigError | DataError))
            with suppress(OSError):  # a folder that is not empty stays
                self.path.rmdir()
        finally:
            os.close(self._lock)

    def begin(self) -> None:
        """Claim the folder for this run."""
        file = self.path / CONFIG
        if not file.exists() or self._grows:
            with self._storing():
                (self.path / SUMMARY).unlink(missing_ok=True)
                write_json(file, self._config)
            self._grows = False

    def keep(self) -> None:
        """Claim the folder and keep it, whatever happens from now on."""
        self.begin()
        self._kept = True

    def record_file(self, name: str) -> RecordFile:
        """The record file of that name."""
        return self._record_files[name]

    def add(self, **records: Mapping[str, Any] | None) -> None:
        """Append a record to each record file (named without ``.jsonl``), the first file last; None appends nothing."""
        self.keep()
        with self._storing():
            for name, file in reversed(self._record_files.items()):
                if (record := records.get(name.removesuffix(".jsonl"))) is not None:
                    file.append(record)

    def seal(self, order: Sequence[str], summary: Mapping[str, Any]) -> None:
        """Finish: put the records of all record files in the key order `order` and write ``summary.json``."""
        self.keep()
        with self._storing():
            for file in self._record_files.values():
                file.reorder(order)
            write_json(self.path / SUMMARY, summary)

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Raise `StorageError` for errors of the file system."""
        try:
            yield
        except OSError as error:
            message = f"cannot write to {self.path}: {error.strerror}; records stored earlier are kept"
            raise StorageError(message) from error


def make_folder(path: Path) -> None:
    """Create a folder if missing. Raises `ConfigError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {path}: {error.strerror}") from error


def read_config(path: Path) -> Record | None:
    """The ``config.json`` of a run folder; None if there is none. Raises `ResumeError` if it is invalid."""
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
    """Lock a folder for this process; closing the returned descriptor unlocks it."""
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


def _differing(path: Path, identity: Mapping[str, Any]) -> list[str] | None:
    """Keys in which the run of a folder differs from `identity`; None if the folder holds no run."""
    if (config := read_config(path)) is None:
        return None
    old, new = flatten(config["identity"]), flatten(json.loads(json.dumps(identity)))
    return [key for key in sorted(new.keys() | old.keys()) if new.get(key) != old.get(key)]


def _check(path: Path, identity: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Raise `ResumeError` if the folder holds another run or other files."""
    config = read_config(path)
    if config is None:
        foreign = sorted(entry.name for entry in path.iterdir() if entry.name != f"{CONFIG}.part")
        if foreign:
            raise ResumeError(f"{path} is not a run folder, and not empty: it holds {foreign[0]!r}")
        return
    if differ := _differing(path, identity):
        old, new = flatten(config["identity"]), flatten(json.loads(json.dumps(identity)))
        there, now = (_named(of, about) for of, about in ((old, config), (new, about)))
        rows = "\n".join(f"  {key}: {_change(there.get(key), now.get(key))}" for key in differ[:_MOST_SHOWN])
        if len(differ) > _MOST_SHOWN:
            rows += f"\n  … and {len(differ) - _MOST_SHOWN} more: perhaps a run of another kind"
        message = f"{path} was begun with another configuration; choose another --out, or undo:\n{rows}"
        raise ResumeError(message, frozenset(differ))


def _change(there: Any, now: Any) -> str:
    """How a value of the stored run differs from the present one. Digests tell a user nothing but that they differ."""
    if all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in (there, now)):
        return "the content has changed"
    return f"{there!r} there, {now!r} now"


def _named(identity: Record, about: Mapping[str, Any]) -> Record:
    """An identity with the names of its folders, as far as the settings have them."""
    settings = flatten(about["config"]) if isinstance(about.get("config"), Mapping) else {}
    return {key: settings.get(key, value) if value == FOLDER else value for key, value in identity.items()}


def _remove(path: Path, *, everything: bool) -> None:
    """Remove the claim to a folder; with `everything`, all its contents."""
    (path / CONFIG).unlink(missing_ok=True)
    for entry in path.iterdir() if everything else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
