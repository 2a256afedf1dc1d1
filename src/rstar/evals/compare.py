"""Comparison of methods on the same problems: one table with accuracy, cost and paired tests against the first entry.

A recipe is a TOML file of ``[[entry]]`` tables, each with a ``name`` and the settings that differ from the defaults;
settings outside the tables are defaults for all entries. An entry with ``samples_of`` samples nothing: it chooses among
the solutions of an earlier entry (`rstar.evals.compare_samples`). ``budgets = [300, 1000]`` runs each entry once for
each limit of tokens per problem; greedy decoding, which hardly depends on it, only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.markup import escape

from rstar.agent.solver import open_solver
from rstar.config import Config, build
from rstar.errors import ConfigError
from rstar.evals.metrics import paired_difference, percent, sign_test
from rstar.evals.run import FinishedRun
from rstar.jsonl import Record
from rstar.sections import flatten, merged, read_toml
from rstar.view.chart import Chart
from rstar.view.tables import Grid, figures_table

_CHOICE = ("value", "search.choose", "search.top_k")
"""Settings allowed in an entry with ``samples_of``; all others are those of its source entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A method of a comparison.

    Attributes:
        name: also names its run folder.
        config: its settings.
        samples_of: earlier entry whose solutions it chooses among; None: it searches.
        method: its name in the recipe; the same for all budgets.
        budget: maximum tokens per problem, if the recipe has ``budgets``.
    """

    name: str
    config: Config
    samples_of: str | None = None
    method: str = ""
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an entry on one graded problem.

    Attributes:
        correct: the given answer is right.
        any_correct: at least one trajectory was right.
        tokens: generated.
        meta: the problem's labels.
    """

    correct: bool
    any_correct: bool
    tokens: int
    meta: Record


Outcomes = dict[str, dict[str, Outcome]]
"""Entry name → problem id → outcome; entries and problems in their order."""


@dataclass(frozen=True, slots=True)
class Row:
    """Results of an entry over all problems.

    Attributes:
        name: of the entry.
        n: graded problems.
        right: solved problems.
        search_n, search_right: the same among the search families (label ``kind`` = ``search``).
        any_correct: problems with at least one right trajectory (pass@k of the samples drawn).
        tokens: generated, mean per problem.
        p: paired exact test against the first entry, two-sided; None for the first entry.
        won, lost: problems solved only by this entry, and only by the first; None for the first entry, and in tables of
            earlier versions.
    """

    name: str
    n: int
    right: int
    search_n: int
    search_right: int
    any_correct: int
    tokens: float
    p: float | None
    won: int | None = None
    lost: int | None = None

    def to_json(self) -> Record:
        """JSON form; `any_correct` is stored as ``some``."""
        return {"some" if name == "any_correct" else name: value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Row:
        """Inverse of `to_json`. Raises `TypeError` for malformed data."""
        return cls(**{"any_correct" if name == "some" else name: value for name, value in row.items()})


def read_entries(recipe: Path, options: Mapping[str, Any]) -> list[Entry]:
    """Read the entries of a recipe; `options` other than None override all of them. Raises `ConfigError`."""
    shared = read_toml(recipe)
    tables = shared.pop("entry", None)
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{recipe}: expected [[entry]] tables, each with a name and the settings of a method")
    budgets = shared.pop("budgets", [])
    entries = entries_of(tables, shared, options, str(recipe))
    if not isinstance(budgets, list) or not all(type(budget) is int and budget > 0 for budget in budgets):
        raise ConfigError(f"{recipe}: budgets: expected a list of numbers of tokens, such as [300, 1000]")
    if len(set(budgets)) < len(budgets):
        raise ConfigError(f"{recipe}: budgets: a number is listed twice")
    if not budgets:
        return entries
    once = [entry for entry in entries if entry.config.search.method == "greedy"]
    each = [(table, entry) for table, entry in zip(tables, entries, strict=True) if entry not in once]
    found = list(once)
    for budget in budgets:
        limited = [_limited(table, budget) for table, _ in each]
        made = entries_of(limited, shared, options, str(recipe))
        found += [replace(one, method=entry.name, budget=budget) for one, (_, entry) in zip(made, each, strict=True)]
    return found


def _limited(table: Mapping[str, Any], budget: int) -> Record:
    """The table of an entry with a limit of tokens, also in its name; an entry with `samples_of` has its source's."""
    own = {**table, "name": f"{table['name']} at {budget}"}
    if "samples_of" in own:
        return own | {"samples_of": f"{own['samples_of']} at {budget}"}
    return merged(own, {"search": {"max_tokens": budget}})


def entries_of(
    tables: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], options: Mapping[str, Any], where: str
) -> list[Entry]:
    """Build entries from tables with a ``name`` and settings. Raises `ConfigError` that begins with `where`.

    Args:
        tables: one per entry.
        shared: default settings of all entries.
        options: settings that override all entries; None values are skipped.
        where: source of the tables, for messages.
    """
    entries: list[Entry] = []
    trees: dict[str, Mapping[str, Any]] = {}
    chosen = {key: value for key, value in options.items() if value is not None}
    for number, table in enumerate(tables, 1):
        own = dict(table)
        name, samples_of = own.pop("name", None), own.pop("samples_of", None)
        if not isinstance(name, str) or not _is_folder_name(name):
            raise ConfigError(f"{where}: entry {number} needs a 'name' that can be the name of a folder")
        if name in trees:
            raise ConfigError(f"{where}: two entries are named {name!r}")
        label = f"{where}: entry {name!r}"
        tree = merged(shared, own)
        if samples_of is not None:
            source = next((entry for entry in entries if entry.name == samples_of), None)
            _check_source(samples_of, source, own, label)
            # It stores no trees: the source has them.
            tree = merged(merged(trees[samples_of], own), {"search": {"keep_trees": False, "record_tokens": False}})
        trees[name] = tree
        entries.append(Entry(name, build(tree | chosen, where=label), samples_of, method=name))
    return entries


def _is_folder_name(name: str) -> bool:
    return 0 < len(name.encode(errors="replace")) < 256 and not {"/", "\0"} & set(name) and name not in (".", "..")


def _check_source(samples_of: object, source: Entry | None, own: Mapping[str, Any], label: str) -> None:
    """Raise `ConfigError` for a source without usable solutions, or for settings that the source decides."""
    if source is None or source.samples_of is not None:
        raise ConfigError(f"{label}: samples_of = {samples_of!r} is not an earlier entry with samples of its own")
    search = source.config.search
    if not search.keep_trees or not search.record_tokens:
        raise ConfigError(f"{label}: its samples are those of {source.name!r}, which needs search.record_tokens = true")
    if foreign := [key for key in flatten(own) if key not in _CHOICE]:
        raise ConfigError(
            f"{label}: {', '.join(foreign)} cannot be set together with samples_of; allowed: {', '.join(_CHOICE)}"
        )


def run_entries(entries: Sequence[Entry], run: Callable[[Entry], FinishedRun]) -> Outcomes:
    """Run every entry. Raises `ConfigError` for an entry that cannot run, before the first one starts."""
    for entry in entries:
        open_solver(entry.config)
    return {
        entry.name: {
            row["id"]: Outcome(
                correct=bool(row["correct"]),
                any_correct=any(t["correct"] for t in row["trajectories"]),
                tokens=row["tokens_out"],
                meta=row["meta"],
            )
            for row in run(entry).results
            if "correct" in row
        }
        for entry in entries
    }


def compare_methods(outcomes: Outcomes, among: Callable[[Record], bool] = lambda meta: True) -> list[Row]:
    """One row per entry, compared with the first, over the problems whose labels `among` accepts."""
    rows: list[Row] = []
    first: dict[str, Outcome] = {}
    for name, by_problem in outcomes.items():
        selected = {key: outcome for key, outcome in by_problem.items() if among(outcome.meta)}
        first = first or selected
        pairs = [(first[key].correct, outcome.correct) for key, outcome in selected.items()]
        search = [outcome.correct for outcome in selected.values() if outcome.meta.get("kind") == "search"]
        rows.append(
            Row(
                name=name,
                n=len(selected),
                right=sum(outcome.correct for outcome in selected.values()),
                search_n=len(search),
                search_right=sum(search),
                any_correct=sum(outcome.any_correct for outcome in selected.values()),
                tokens=sum(outcome.tokens for outcome in selected.values()) / max(len(selected), 1),
                p=sign_test(pairs) if rows else None,
                won=sum(this and not other for other, this in pairs) if rows else None,
                lost=sum(other and not this for other, this in pairs) if rows else None,
            )
        )
    return rows


def compare_budgets(
    entries: Sequence[Entry], outcomes: Outcomes, groups: Mapping[str, Callable[[Record], bool]]
) -> dict[tuple[str, int | None], list[Row]]:
    """The rows of each group of problems and budget; entries without a budget stand last in the rows of each."""
    found: dict[tuple[str, int | None], list[Row]] = {}
    budgets = dict.fromkeys(entry.budget for entry in entries if entry.budget is not None)
    for budget in budgets or (None,):
        limited = [entry for entry in entries if entry.budget == budget]
        others = [entry for entry in entries if entry.budget is None and budgets]
        chosen = {entry.name: outcomes[entry.name] for entry in (*limited, *others)}
        found |= {(name, budget): compare_methods(chosen, among) for name, among in groups.items()}
    return found


def groups_by(by: str, labels: Iterable[Record]) -> dict[str, Callable[[Record], bool]]:
    """The groups of problems that `by` defines, each with a predicate on a problem's labels.

    Args:
        by: ``LABEL``, one group per value of the label; or ``LABEL=VALUE``, problems with this value and the rest.
        labels: of all problems. A problem without the label has the value ``None``.

    Raises:
        ConfigError: no problem has the label, or the value.
    """
    all_labels = list(labels)
    label, equals, wanted = by.partition("=")
    if not any(label in meta for meta in all_labels):
        known = ", ".join(sorted({name for meta in all_labels for name in meta})) or "none"
        raise ConfigError(f"--by {by}: no problem has the label {label!r}; labels of these problems: {known}")
    values = sorted({str(meta.get(label)) for meta in all_labels})
    if not equals:
        return {f"{label}={value}": _has(label, value) for value in values}
    if wanted not in values:
        raise ConfigError(f"--by {by}: no problem has {label} = {wanted!r}; values: {', '.join(values)}")
    chosen = _has(label, wanted)
    return {by: chosen, f"{label} other than {wanted}": lambda meta: not chosen(meta)}


def _has(label: str, value: str) -> Callable[[Record], bool]:
    return lambda meta: str(meta.get(label)) == value


def cpu_seconds(entries: Sequence[Entry], runs: Mapping[str, FinishedRun]) -> dict[str, float]:
    """CPU seconds per problem; with `samples_of`, including the source's.

    Entries whose runs were killed are left out. Their problems under way, mostly the longest ones, were solved in a
    later session, whose mean is therefore too high.
    """
    found: dict[str, float] = {}
    for entry in entries:
        summary = runs[entry.name].summary
        cpu = summary.get("cpu")
        if cpu is None or cpu["problems"] < summary["n"]:
            continue
        if entry.samples_of is None or entry.samples_of in found:
            found[entry.name] = cpu["seconds"] / cpu["problems"] + found.get(entry.samples_of or "", 0.0)
    return found


def comparison_charts(
    entries: Sequence[Entry], rows: Mapping[tuple[str, int | None], Sequence[Row]], cpu: Mapping[str, float]
) -> list[Chart]:
    """Accuracy by tokens and by CPU seconds of each group of problems (`compare_budgets`); one curve per method.

    CPU seconds are known for all problems together, so only the first group has that chart.
    """
    charts: list[Chart] = []
    methods = {entry.name: entry.method for entry in entries}
    for group in dict.fromkeys(group for group, _ in rows):
        by_name = {row.name: row for key, some in rows.items() if key[0] == group for row in some if row.n}
        costs = {"tokens": {name: row.tokens for name, row in by_name.items()}}
        if cpu and not charts:
            costs["CPU seconds"] = dict(cpu)
        for cost, of in costs.items():
            series: dict[str, set[tuple[float, float]]] = {}
            for name, row in by_name.items():
                if of.get(name):
                    series.setdefault(methods[name], set()).add((of[name], 100 * row.right / row.n))
            points = {method: sorted(pairs) for method, pairs in series.items()}
            charts.append(Chart(group, points, f"{cost} per problem", "accuracy, %", log_x=True))
    return charts


def comparison_table(rows: Sequence[Row], title: str = "", cpu: Mapping[str, float] | None = None) -> Grid:
    """The rows as a table, with CPU seconds per problem if known by name; search families get a column if only some of
    the problems belong to them.
    """
    apart = any(0 < row.search_n < row.n for row in rows)
    ranks = {"accuracy [95%]": 0} | ({"search families [95%]": 2} if apart else {})
    ranks |= {"any correct": 4, "tokens": 3} | ({"CPU s": 5} if cpu else {}) | {"difference [95%]": 1, "p": 0}
    table = figures_table("method", ranks, title)
    for row in rows:
        table.add(
            escape(row.name),
            percent(row.right, row.n),
            *((percent(row.search_right, row.search_n),) if apart else ()),
            f"{100 * row.any_correct / max(row.n, 1):.1f}%",
            f"{row.tokens:,.0f}",
            *((f"{cpu[row.name]:.2f}" if row.name in cpu else "",) if cpu else ()),
            "" if row.won is None or row.lost is None else _difference(row.won, row.lost, row.n),
            "" if row.p is None else f"{row.p:.1g}",
        )
    return table


def _difference(won: int, lost: int, n: int) -> str:
    """``-1.5 [-3.0, +0.1]``, in percentage points; a dash for n = 0."""
    if n == 0:
        return "–"
    difference, low, high = (100 * share for share in paired_difference(won, lost, n))
    return escape(f"{difference:+.1f} [{low:+.1f}, {high:+.1f}]")
