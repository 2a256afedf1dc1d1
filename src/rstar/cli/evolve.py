"""``rstar evolve``: models that train themselves from their own verified search trees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rstar.cli.common import AsJson, console, print_json
from rstar.evolve.extract import Counts, ExtractConfig

app = typer.Typer(no_args_is_help=True, help="Self-evolution: search trees become training data.")

_DEFAULTS = ExtractConfig()


@app.command("extract")
def extract(
    runs: Annotated[list[Path], typer.Argument(help="Run folders whose trees have verified ends.", file_okay=False)],
    out: Annotated[Path, typer.Option(help="Folder that gets sft.jsonl, pairs.jsonl and counts.json.")],
    solutions: Annotated[
        int, typer.Option(help="Correct solutions of a problem for the policy, of highest mean Q.", min=1)
    ] = _DEFAULTS.solutions,
    candidates: Annotated[
        int, typer.Option(help="Candidates on either side of a step's pairs.", min=1)
    ] = _DEFAULTS.candidates,
    margin: Annotated[
        float, typer.Option(help="Least difference of Q between the two of a pair.", min=0, max=2)
    ] = _DEFAULTS.margin,
    distance: Annotated[
        int, typer.Option(help="Least edit distance between the two of a pair, characters.", min=0)
    ] = _DEFAULTS.distance,
    as_json: AsJson = False,
) -> None:
    """Turn trees into solutions for the policy (sft.jsonl) and preference pairs for the PPM (pairs.jsonl).

    Example: `rstar evolve extract runs/round1/search --out runs/round1/data`
    """
    from rstar.evolve.extract import extract as run

    config = ExtractConfig(solutions=solutions, candidates=candidates, margin=margin, distance=distance)
    counts = run(runs, out, config)
    if as_json:
        print_json(counts.record())
        return
    console().print(_table(counts))
    console().print(f"data in [bold]{escape(str(out))}[/]", highlight=False)


def _table(counts: Counts) -> Table:
    table = Table(header_style="bold", pad_edge=False)
    table.add_column("what")
    table.add_column("how many", justify="right")
    for title, some in (("", counts.found), ("dropped, ", counts.dropped), ("difficulty: ", counts.difficulty)):
        for name, count in sorted(some.items()):
            table.add_row(escape(title + name), f"{count:,}")
    return table
