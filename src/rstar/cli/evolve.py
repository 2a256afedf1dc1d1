"""``rstar evolve``: models that train themselves from their own verified search trees."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rstar.cli.common import AsJson, console, print_json, progress
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


@app.command("run")
def run(
    recipe: Annotated[Path, typer.Argument(help="TOML file: models, problems, rounds.", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="Folder of this run; continued when it holds this one.")],
    smoke: Annotated[
        bool, typer.Option("--smoke", help="The same in small, as the recipe's table `smoke` says: does it all work?")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let a policy and a process preference model train themselves, round after round (rStar-Math).

    Each round searches problems with gold answers, takes solutions and preference pairs from the trees, trains the
    policy from the base and the PPM from the policy, and measures both on held-out problems. An interrupted run goes on
    where it was, and ends with the same table. `OUT/report.html` has the pictures.

    Example: `rstar evolve run recipes/tiny/evolve.toml --smoke --out runs/evolve-smoke`
    """
    from rstar.evolve.report import report, results_table
    from rstar.evolve.rounds import evolve  # torch and all of search are imported only when something is trained
    from rstar.evolve.settings import read_recipe

    def announce(stage: str) -> None:
        if not as_json:
            console(stderr=True).print(f"[dim]{datetime.now():%H:%M:%S}[/] {escape(stage)}", highlight=False)

    results = evolve(read_recipe(recipe, smoke), out, announce, progress)
    page = out / "report.html"
    page.write_text(report(results), encoding="utf-8")
    if as_json:
        print_json({"rounds": [result.plain() for result in results]})
        return
    console().print(results_table(results))
    console().print(f"pictures in [bold]{escape(str(page))}[/]", highlight=False)


def _table(counts: Counts) -> Table:
    table = Table(header_style="bold", pad_edge=False)
    table.add_column("what")
    table.add_column("how many", justify="right")
    for title, some in (("", counts.found), ("dropped, ", counts.dropped), ("difficulty: ", counts.difficulty)):
        for name, count in sorted(some.items()):
            table.add_row(escape(title + name), f"{count:,}")
    return table
