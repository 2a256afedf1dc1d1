"""``rstar grade --run``: regrades a finished run with another grader or corrected gold answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape

from rstar.cli.common import console, counted, print_json
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError, DataError
from rstar.evals.metrics import percent
from rstar.evals.regrade import Regraded, regrade, write_regraded
from rstar.evolve.trees import is_verified
from rstar.view.tables import Column, Grid


def grade_run(run: Path, problems: ProblemSet | None, out: Path | None, as_json: bool) -> None:
    """Grade a run anew and print what changes; with `out`, write a new run folder.

    Raises:
        DataError: the run is unfinished or its search used the gold answers, or the problems do not match it.
        ConfigError: `out` already exists.
    """
    if out is not None and out.exists():
        raise ConfigError(f"--out {out}: the path already exists; choose another name")
    found = regrade(run, problems)
    if is_verified(run):
        raise DataError(f"{run}: the search used the gold answers, so new verdicts would not fit the trees")
    if out is not None:
        write_regraded(run, found, out)
    if as_json:
        print_json(_plain(found))
        return
    if found.changed:
        console().print(_changes(found))
    before, after = ([row for row in rows if "correct" in row] for rows in (found.before, found.after))
    shares = [percent(sum(row["correct"] for row in rows), len(rows)) for rows in (before, after)]
    changed = f"{counted(len(found.changed), 'verdict')} of {counted(len(found.after), 'problem')} changed"
    console().print(
        f"{changed}: accuracy {shares[0]} before, [bold]{shares[1]}[/] now (95% intervals; paired exact test:"
        f" p = {found.p:.1g})",
        highlight=False,
    )
    if out is not None:
        console().print(f"new verdicts in run folder [bold]{escape(str(out))}[/]", highlight=False)


def _plain(found: Regraded) -> dict[str, Any]:
    fields = ("gold", "verdict", "reason", "correct")
    changes = [
        {
            "id": new["id"],
            "answer": new["answer"],
            **{when: {name: row.get(name) for name in fields} for when, row in (("before", old), ("now", new))},
        }
        for old, new in found.changed
    ]
    right = [sum(bool(row.get("correct")) for row in rows) for rows in (found.before, found.after)]
    return {"n": len(found.after), "right_before": right[0], "right_now": right[1], "p": found.p, "changed": changes}


def _changes(found: Regraded) -> Grid:
    table = Grid(
        [
            Column("id"),
            Column("answer", flow="wrap", least=10),
            Column("gold", flow="wrap", least=10),
            Column("before"),
            Column("now"),
            Column("why", flow="wrap", rank=1),
        ]
    )
    for old, new in found.changed:
        cells = (new["id"], new["answer"], new.get("gold"), old.get("verdict"), new.get("verdict"), new.get("reason"))
        table.add(*("–" if cell is None else escape(str(cell)) for cell in cells))
    return table
