"""``rstar grade``: verdicts on answers, one or a file of them; and whether gold answers can be graded at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from rstar.cli.common import AsJson, console, counted, print_json, progress
from rstar.datasets import read_entries
from rstar.errors import ConfigError, DataError
from rstar.grading import grade as compare
from rstar.grading.golds import GOLD_FIELDS, check_gold, gold_of
from rstar.grading.verdict import Verdict

MOST_SHOWN = 20
"""Golds that are named one by one in the text for people."""


def grade(
    gold: Annotated[str | None, typer.Argument(help="The right answer.", show_default=False)] = None,
    prediction: Annotated[str | None, typer.Argument(help="What was answered.", show_default=False)] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what was compared, and which rule decided.")] = False,
    file: Annotated[
        Path | None,
        typer.Option(help='JSONL of pairs: {"id"?, "gold", "pred"}.', dir_okay=False, exists=True, show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --file: where verdicts go, a JSON line each.", show_default=False)
    ] = None,
    check_golds: Annotated[
        Path | None,
        typer.Option(help="Check the gold answers of this file.", dir_okay=False, exists=True, show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare answers: are they equal as mathematics, and why?

    Two answers as arguments (`-- -5 …` where the first begins with a minus); many with `--file`; with `--check-golds`,
    whether each gold answer of a data set is found equal to itself. Exit code 1 says that the answer given as argument
    is not right, or that a gold cannot be graded.

    Example: `rstar grade '\\frac{1}{2}' 'The answer is 0.5.' --explain`
    """
    chosen = [gold is not None, file is not None, check_golds is not None]
    if sum(chosen) != 1 or (gold is None) != (prediction is None):
        raise ConfigError("give two answers, or --file, or --check-golds: one of the three")
    if out is not None and file is None:
        raise ConfigError("--out goes with --file")
    if file is not None:
        _grade_file(file, out, as_json)
    elif check_golds is not None:
        _check_golds(check_golds, as_json)
    else:
        assert gold is not None
        _grade_one(compare(gold, prediction), explain, as_json)


def _grade_one(verdict: Verdict, explain: bool, as_json: bool) -> None:
    if as_json:
        print_json(_plain(verdict))
    else:
        screen = console()
        screen.print(f"[{'green' if verdict.correct else 'red'}]{verdict.outcome}[/]", highlight=False)
        if explain:
            rows = (("why", verdict.reason), ("gold", verdict.gold_form), ("answer", verdict.prediction_form))
            for name, text in rows:
                screen.print(f"{name:7}{escape(text)}", highlight=False)
    if not verdict.correct:
        raise typer.Exit(1)


def _plain(verdict: Verdict) -> dict[str, str]:
    return {
        "verdict": verdict.outcome,
        "reason": verdict.reason,
        "gold_form": verdict.gold_form,
        "pred_form": verdict.prediction_form,
    }


def _grade_file(file: Path, out: Path | None, as_json: bool) -> None:
    pairs = list(_pairs(file))
    if out is not None and out.exists():
        raise ConfigError(f"--out {out}: there is a file of this name already")
    found: Counter[str] = Counter()
    lines = []
    with progress(len(pairs), "pairs") as advance:
        for name, gold, prediction in pairs:
            verdict = compare(gold, prediction)
            found[verdict.outcome] += 1
            lines.append(json.dumps({"id": name, **_plain(verdict)}, ensure_ascii=False))
            advance()
    if out is not None:
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    if as_json:
        print_json({"pairs": len(pairs), **found})
        return
    parts = ", ".join(f"{count:,} {outcome}" for outcome, count in found.most_common())
    console().print(f"{counted(len(pairs), 'pair')}: {parts}", highlight=False)
    if out is not None:
        console().print(f"verdicts in [bold]{escape(str(out))}[/]", highlight=False)


def _pairs(file: Path) -> Iterator[tuple[Any, str, str | None]]:
    """(id, gold, prediction) of each entry. Raises `DataError` that names the first bad ones, before any is graded."""
    errors = []
    for number, (where, entry) in enumerate(read_entries(file)):
        if isinstance(entry, ValueError):
            errors.append(f"{where}: {entry}")
        elif not isinstance(entry, dict) or not isinstance(entry.get("gold"), str):
            errors.append(f"{where}: expected an object with a text 'gold'")
        elif "pred" not in entry or not isinstance(entry["pred"], str | None):
            errors.append(f"{where}: expected a text 'pred', or null")
        else:
            yield entry.get("id", number), entry["gold"], entry["pred"]
    if errors:
        raise DataError("\n".join(errors[:MOST_SHOWN]))


def _check_golds(file: Path, as_json: bool) -> None:
    checked: list[dict[str, Any]] = []
    for number, (where, entry) in enumerate(read_entries(file)):
        if isinstance(entry, ValueError):
            raise DataError(f"{where}: {entry}")
        gold = gold_of(entry) if isinstance(entry, dict) else None
        if gold is None:
            raise DataError(f"{where}: no gold answer; looked for {', '.join(GOLD_FIELDS)}")
        check = check_gold(gold)
        name = entry.get("id", number)
        checked.append({"id": name, "gold": check.gold, "kind": check.kind, "reason": check.reason})
    kinds = Counter(row["kind"] for row in checked)
    bad = [row for row in checked if row["kind"] == "not gradeable"]
    if as_json:
        print_json({"golds": len(checked), "kinds": kinds, "not_gradeable": bad})
    else:
        parts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        console().print(f"{counted(len(checked), 'gold answer')}: {parts}", highlight=False)
        if bad:
            console().print(_bad_golds(bad))
    if bad:
        raise typer.Exit(1)


def _bad_golds(rows: list[dict[str, Any]]) -> Table:
    table = Table(header_style="bold", pad_edge=False)
    for name in ("id", "gold", "why"):
        table.add_column(name)
    for row in rows[:MOST_SHOWN]:
        table.add_row(escape(str(row["id"])), escape(row["gold"][:80]), escape(row["reason"]))
    if len(rows) > MOST_SHOWN:
        table.add_row("…", f"{len(rows) - MOST_SHOWN:,} more", "see --json")
    return table
