"""Several methods on the same problems: one table, with cost beside accuracy and paired tests against the first entry.

A recipe is a TOML file of ``[[entry]]`` tables, each with a ``name`` and the settings that differ from the defaults;
settings outside of them hold for all entries that do not say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from rstar.config import Config, build, read_toml
from rstar.errors import ConfigError
from rstar.evals.metrics import percent, sign_test
from rstar.evals.solve import Finished, Record
from rstar.search.solver import Solver


@dataclass(frozen=True, slots=True)
class Entry:
    """A method of a comparison."""

    name: str
    config: Config


@dataclass(frozen=True, slots=True)
class Row:
    """What an entry achieved.

    Attributes:
        name: of the entry.
        n: graded problems.
        right: solved.
        search_n, search_right: the same among the search families (label ``kind`` = ``search``).
        some: problems where at least one trajectory was right (pass@k of the samples drawn).
        tokens: generated, mean per problem.
        p: paired exact test against the first entry, two-sided; None for that one itself.
    """

    name: str
    n: int
    right: int
    search_n: int
    search_right: int
    some: int
    tokens: float
    p: float | None

    def plain(self) -> Record:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def read_entries(recipe: Path, options: Mapping[str, Any]) -> list[Entry]:
    """The entries of a recipe; `options` (those that are not None) hold for all. Raises `ConfigError`."""
    shared = read_toml(recipe)
    tables = shared.pop("entry", None)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{recipe}: it needs [[entry]] tables, each with a name and the settings of a method")
    return entries_of(tables, shared, options, str(recipe))


def entries_of(
    tables: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], options: Mapping[str, Any], where: str
) -> list[Entry]:
    """The entries of tables with a ``name`` and settings. Raises `ConfigError` that begins with `where`.

    Args:
        tables: one for each entry.
        shared: settings of all that do not say otherwise.
        options: settings of all (those that are not None).
        where: what the tables are in.
    """
    entries: list[Entry] = []
    for number, table in enumerate(tables, 1):
        own = dict(table)
        name = own.pop("name", None)
        if not isinstance(name, str) or not name or "/" in name or name in (".", ".."):
            raise ConfigError(f"{where}: entry {number} needs a 'name' that can be a folder's")
        if name in {entry.name for entry in entries}:
            raise ConfigError(f"{where}: two entries are named {name!r}")
        given = {key: value for key, value in options.items() if value is not None}
        entries.append(Entry(name, build(_merged(shared, own) | given, where=f"{where}: entry {name!r}")))
    return entries


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`own` settings over `shared` ones, table by table."""
    merged = dict(shared)
    for key, value in own.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def compare_methods(entries: Sequence[Entry], run: Callable[[Entry], Finished]) -> list[Row]:
    """Run every entry and compare. Raises `ConfigError` for any entry that cannot be run before the first one is."""
    for entry in entries:
        Solver(entry.config)
    rows: list[Row] = []
    base: dict[str, bool] = {}
    for entry in entries:
        results = [row for row in run(entry).results if "correct" in row]
        right = {row["id"]: bool(row["correct"]) for row in results}
        base = base or right
        search = [row for row in results if row["meta"].get("kind") == "search"]
        rows.append(
            Row(
                name=entry.name,
                n=len(results),
                right=sum(right.values()),
                search_n=len(search),
                search_right=sum(row["correct"] for row in search),
                some=sum(any(t["correct"] for t in row["trajectories"]) for row in results),
                tokens=sum(row["tokens_out"] for row in results) / max(len(results), 1),
                p=sign_test([(base[name], right[name]) for name in right]) if rows else None,
            )
        )
    return rows


def comparison_table(rows: Sequence[Row]) -> Table:
    """The rows as a table."""
    table = Table(header_style="bold", pad_edge=False)
    table.add_column("method")
    for name in ("accuracy [95%]", "search families [95%]", "some right", "tokens", "p"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.name,
            percent(row.right, row.n),
            percent(row.search_right, row.search_n),
            f"{100 * row.some / max(row.n, 1):.1f}%",
            f"{row.tokens:,.0f}",
            "" if row.p is None else f"{row.p:.1g}",
        )
    return table
