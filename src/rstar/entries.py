"""Entries of data files, with their places for error messages.

Formats: JSONL with one object per line, a JSON list of objects, CSV with a header row (suffix ``.csv``), and Parquet
(suffix ``.parquet``; needs the extra ``parquet``).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rstar.errors import ConfigError, DataError


def read_entries(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield (place, parsed entry) pairs; an unreadable entry is a `ValueError`.

    Raises:
        ConfigError: Parquet cannot be read here, because pyarrow is not installed.
        DataError: the file cannot be read.
    """
    if file.suffix.lower() == ".parquet":
        yield from _read_parquet(file)
        return
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


def answer_text(value: object) -> str | None:
    """A field that holds an answer, as text: true and false are yes and no. None for anything but text or a number.

    >>> answer_text(True), answer_text(0.5), answer_text(["1"])
    ('yes', '0.5', None)
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else None


def _read_csv(file: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield a column → cell mapping per record, without empty cells."""
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


def _read_parquet(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield one object per row, read in batches: DAPO-Math-17k has 1.8 million rows."""
    try:
        import pyarrow.parquet  # large, and needed for nothing else
    except ImportError:
        raise ConfigError(f"{file}: reading Parquet needs pyarrow; install rstar[parquet]") from None
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            rows = (row for batch in table.iter_batches(batch_size=1024) for row in batch.to_pylist())
            yield from ((f"{file}: row {number}", row) for number, row in enumerate(rows, 1))
    except pyarrow.ArrowException as error:
        raise DataError(f"{file}: not readable as Parquet: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror or error}") from error
