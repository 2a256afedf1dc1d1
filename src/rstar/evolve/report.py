"""The rounds as a table, and as an HTML page with charts."""

from __future__ import annotations

from collections.abc import Sequence

from rstar.evals.compare import Row
from rstar.evals.metrics import percent
from rstar.evolve.rounds import Result
from rstar.view.chart import curves, page, table
from rstar.view.tables import Column, Grid

CLASSES = ("easy", "medium", "hard")


def results_table(results: Sequence[Result]) -> Grid:
    """Accuracy by round, and results of the searches."""
    head, rows = _cells(results)
    first, *entries, any_correct, solved, trees = head
    others = [Column(name, number=True, rank=4 if place else 0) for place, name in enumerate(entries)]
    counts = [Column(name, number=True, rank=rank) for rank, name in ((2, any_correct), (1, solved), (3, trees))]
    return Grid([Column(first), *others, *counts], [*rows])


def report(results: Sequence[Result]) -> str:
    """An HTML page: tables and curves."""
    numbers = {result.name: float(place) for place, result in enumerate(results)}

    def curve(values: dict[str, float]) -> list[tuple[float, float]]:
        return [(numbers[name], value) for name, value in values.items()]

    accuracy = {name: curve(_by_round(results, name)) for name in _names(results)}
    any_correct = {name: curve(_by_round(results, name, "any_correct")) for name in _names(results)}
    labels = list(dict.fromkeys(label for result in results for label in result.solved))
    solved = {
        label: curve({r.name: 100 * r.solved[label][0] / r.solved[label][1] for r in results if label in r.solved})
        for label in labels
    }
    charts = [
        curves("Accuracy on held-out problems", accuracy, "round (0: base)", "% right"),
        curves("At least one solution right", any_correct, "round (0: base)", "% of problems"),
        curves("Training problems with a verified solution", solved, "round", "% of problems searched"),
    ]
    counts = [(result.name, result.counts) for result in results if result.counts]
    names = dict.fromkeys((group, name) for _, c in counts for group, part in c.items() for name in sorted(part))
    extracted = [
        [f"{group}: {name}", *(f"{found.get(group, {}).get(name, 0):,}" for _, found in counts)]
        for group, name in names
    ]
    tables = [table(*_cells(results)), table(["extracted", *(name for name, _ in counts)], extracted)]
    return page("Self-evolution", [*tables, *charts])


def _names(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(row.name for result in results for row in result.rows))


def _by_round(results: Sequence[Result], entry: str, what: str = "right") -> dict[str, float]:
    found = {result.name: _row(result, entry) for result in results}
    return {name: 100 * getattr(row, what) / max(row.n, 1) for name, row in found.items() if row is not None}


def _row(result: Result, entry: str) -> Row | None:
    return next((row for row in result.rows if row.name == entry), None)


def _cells(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    entries = _names(results)
    head = ["", *(f"{name} [95%]" for name in entries), "any correct", "solved in search", "easy / medium / hard trees"]
    rows = []
    for result in results:
        cells = [result.name]
        for name in entries:
            row = _row(result, name)
            cells.append("–" if row is None else percent(row.right, row.n))
        best = max(result.rows, key=lambda row: row.any_correct, default=None)
        cells.append("–" if best is None else f"{100 * best.any_correct / max(best.n, 1):.1f}% ({best.name})")
        right, n = result.solved.get("all", (0, 0))
        cells.append(f"{right:,} of {n:,}" if n else "–")
        classes = result.counts.get("difficulty", {})
        cells.append(" / ".join(f"{classes.get(name, 0):,}" for name in CLASSES) if classes else "–")
        rows.append(cells)
    return head, rows
