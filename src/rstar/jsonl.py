"""JSON on disk: files with one record per line, and small files written atomically."""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json

from rstar.errors import DataError

Record = dict[str, Any]


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Encode a record as a line of UTF-8. Lone surrogates become JSON escapes."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace") + b"\n"


def decode_line(line: bytes) -> Any:
    """Inverse of `encode_line`. Raises `ValueError` for a line that is not JSON."""
    try:
        return from_json(line, cache_strings="keys")  # 2.8 times as fast as `json.loads`
    except ValueError:
        return json.loads(line)  # accepts lone surrogates, and names the place of an error


@contextmanager
def atomic_write(file: Path) -> Iterator[BinaryIO]:
    """Write a file atomically: it appears, or replaces an existing file, when the block ends without an error."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def write_new(file: Path) -> Iterator[BinaryIO]:
    """Write a file atomically that must not replace another one. Raises `DataError` if one of other content exists."""
    made = file.with_name(f"{file.name}.new")
    with atomic_write(made) as out:
        yield out
    if file.exists() and not filecmp.cmp(made, file, shallow=False):
        made.unlink()
        raise DataError(f"{file} exists and has other content: delete it first, or name another file")
    made.replace(file)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a small JSON file atomically."""
    with atomic_write(file) as out:
        out.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace"))


def write_lines(file: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of records atomically."""
    with atomic_write(file) as out:
        for record in records:
            out.write(encode_line(record))


def read_lines(file: Path, key: str = "id") -> Iterator[Record]:
    """Yield the records of a file; skip a torn last line. Raises `DataError` for any other damaged line."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.endswith(b"\n"):
                try:
                    record = decode_line(line)
                except ValueError as error:
                    raise DataError(f"{file}:{number}: damaged: {error}") from error
                if not isinstance(record, dict) or key not in record:
                    raise DataError(f"{file}:{number}: damaged: not an object with {key!r}")
                yield record


class RecordFile:
    """An append-only file of records with unique keys.

    Each line is written in one piece and flushed to disk, so a crash costs at most the line being written. The next
    `append` cuts off a torn last line.

    Args:
        file: created with the first record.
        key: field that identifies a record.

    Raises:
        DataError: a line other than the last is damaged.
    """

    def __init__(self, file: Path, key: str = "id") -> None:
        self.file, self._key = file, key
        self._places: dict[Any, int] = {}  # key → byte offset of its line
        self._end = self._scan()
        self._out: BinaryIO | None = None

    @property
    def keys(self) -> set[Any]:
        """The keys of all records."""
        return set(self._places)

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records in file order."""
        return read_lines(self.file, self._key) if self.file.exists() else iter(())

    def read(self, keys: Iterable[Any]) -> Iterator[Record]:
        """Yield the records of `keys`, in their order."""
        places = [self._places[key] for key in keys]
        if places:
            with self.file.open("rb") as lines:
                for place in places:
                    lines.seek(place)
                    yield decode_line(lines.readline())

    def _scan(self) -> int:
        """Fill `_places`; return the end of the last complete line."""
        end = 0
        if not self.file.exists():
            return end
        with self.file.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                try:
                    self._places[decode_line(line)[self._key]] = end
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(f"{self.file}: damaged at byte {end}: {error}") from error
                end += len(line)
        return end

    def cut(self, keep: Callable[[Any], bool]) -> None:
        """Drop trailing records whose keys `keep` rejects; the file changes with the next `append`."""
        self.close()  # `append` truncates when it reopens the file
        while self._places and not keep(last := next(reversed(self._places))):
            self._end = self._places.pop(last)

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        if self._out is None:
            self._out = self.file.open("ab")
            self._out.truncate(self._end)
            self._out.seek(self._end)
        start = self._out.tell()
        self._out.write(encode_line(record))
        self._out.flush()
        os.fsync(self._out.fileno())
        self._places[record[self._key]], self._end = start, self._out.tell()

    def reorder(self, order: Sequence[Any]) -> None:
        """Rewrite the file with the records of `order` in that order; remove a file without records."""
        self.close()
        if not self._places:
            self.file.unlink(missing_ok=True)
            return
        places: dict[Any, int] = {}
        with self.file.open("rb") as lines, atomic_write(self.file) as out:
            for key in order:
                if key in self._places:
                    lines.seek(self._places[key])
                    places[key] = out.tell()
                    out.write(lines.readline())
            self._end = out.tell()
        self._places = places

    def close(self) -> None:
        """Close the file; `append` reopens it."""
        if self._out is not None:
            with suppress(OSError):  # `append` has already raised for a failed write
                self._out.close()
            self._out = None
