"""``rstar view``: shows a run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from rstar.cli.common import AsJson, console, counted, print_json
from rstar.cli.comparison import COMPARISON, Comparison
from rstar.cli.solve import print_summary
from rstar.errors import DataError
from rstar.evolve.trees import is_verified
from rstar.jsonl import read_lines
from rstar.rl.report import evaluations_table, is_training, read_evaluations, write_picture
from rstar.runs import CONFIG, RESULTS, ROUNDS, SUMMARY, TREES
from rstar.trees import Tree
from rstar.view.terminal import NOTICES, results_table, search_tree


def view(
    run: Annotated[Path, typer.Argument(help="Folder of a run or a comparison.", exists=True, file_okay=False)],
    problem: Annotated[str | None, typer.Argument(help="Id of a problem, to draw its search tree.")] = None,
    nodes: Annotated[int, typer.Option(help="Maximum number of nodes to draw.", min=1)] = 40,
    png: Annotated[
        Path | None,
        typer.Option(help="Draw the curves of a training run in this file.", dir_okay=False, show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of a run, the search tree of one of its problems, or the tables of a comparison or training.

    `--json` prints one JSON object. For a run, the object holds the summary (null while the run is not finished) and
    all results; for a problem, its result and its whole tree; for self-evolution, the rounds; for reinforcement
    learning, the evaluations. For a comparison, `--json` prints the same list as `rstar compare --json`. `--png` draws
    the curves of reinforcement learning; it needs the extra `rstar[pictures]`.

    Examples:
    `rstar view runs/first numbers-7-12`

    `rstar view runs/agent --png curves.png`
    """
    if png is not None and not is_training(run):
        raise DataError(f"--png: {run} is not a run of `rstar rl run` with an evaluation; it has no curves to draw")
    if (run / ROUNDS).is_file():
        if problem is not None:
            raise DataError(
                f"{run} is a self-evolution run; the trees are in its search folders, such as {run}/round1/search"
            )
        _rounds(run, as_json)
        return
    if is_training(run):
        if problem is not None:
            raise DataError(f"{run} is a training run; it has no search trees")
        _training(run, png, as_json)
        return
    if (run / COMPARISON).is_file():
        if problem is not None:
            raise DataError(f"{run} is a comparison; the trees are in its run folders: {_runs_in(run)}")
        Comparison.read(run).show(run, as_json)
        return
    if not (run / RESULTS).is_file():
        if (run / CONFIG).is_file():
            raise DataError(f"{run}: nothing to show yet; no problem, round or evaluation is finished")
        below = _runs_in(run)
        hint = f"; it holds runs: {below}" if below else ""
        raise DataError(f"{run} is not a run folder: it contains no {RESULTS}{hint}")
    results = list(read_lines(run / RESULTS))
    needed = {"id", "question", "answer", "meta", "rollouts", "tokens_out", "seconds"}
    if bad := next((n for n, row in enumerate(results, 1) if not needed <= row.keys()), None):
        raise DataError(f"{run / RESULTS}:{bad}: not the result of a problem")
    if problem is not None:
        _tree(run, results, problem, nodes, as_json)
    elif as_json:
        print_json({"summary": _content(run / SUMMARY), "results": results})
    else:
        _results(run, results)


def _runs_in(folder: Path) -> str:
    """The run folders in a folder."""
    return ", ".join(sorted(str(file.parent) for file in folder.glob(f"*/{RESULTS}")))


def _results(run: Path, results: list[dict[str, Any]]) -> None:
    console().print(results_table(results))
    verified = (run / CONFIG).is_file() and is_verified(run)
    print_summary(results, run, ends_verified=verified)
    if not (run / SUMMARY).is_file():
        total = (_content(run / CONFIG) or {}).get("problems")
        of = f"{len(results):,} of {counted(total, 'problem')}" if total else counted(len(results), "problem")
        console().print(f"[yellow]not finished: {of} so far[/]", highlight=False)


def _tree(run: Path, results: list[dict[str, Any]], problem: str, nodes: int, as_json: bool) -> None:
    row = next((row for row in results if row["id"] == problem), None)
    tree = next((t for t in read_lines(run / TREES) if t["id"] == problem), None) if (run / TREES).is_file() else None
    if row is None or tree is None:
        hint = f"; `rstar view {run}` lists the problems" if row is None else ""
        raise DataError(f"{run}: no {'result' if row is None else 'search tree'} for problem {problem!r}{hint}")
    if as_json:
        print_json({"result": row, "nodes": tree["nodes"]})
        return
    console().print(search_tree(_tree_of(run, tree), row["question"], nodes, row["answer"]))
    gold = f" (gold {row['gold']})" if "gold" in row else ""
    console().print(f"answer [bold]{escape(str(row['answer']))}[/]{escape(gold)}", highlight=False)
    for notice in row.get("notices", ()):
        console().print(f"[yellow]notice:[/] {NOTICES[notice]}", highlight=False)


def _tree_of(run: Path, line: dict[str, Any]) -> Tree:
    try:
        return Tree.from_json(line)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"{run / TREES}: the tree of problem {line['id']!r} is damaged: {error!r}") from error


def _content(file: Path) -> dict[str, Any] | None:
    """A small JSON file of a run, None where there is none. Raises `DataError` for anything but an object."""
    if not file.is_file():
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{file}: damaged: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}: damaged: not an object")
    return content


def _training(run: Path, png: Path | None, as_json: bool) -> None:
    if png is not None:
        write_picture(run, png)
    if as_json:
        print_json({"evaluations": read_evaluations(run)})
        return
    console().print(evaluations_table(read_evaluations(run)))
    console().print(f"curves in [bold]{escape(str(png or run / 'report.html'))}[/]", highlight=False, soft_wrap=True)


def _rounds(run: Path, as_json: bool) -> None:
    from rstar.evolve import report  # imports torch and all of search
    from rstar.evolve.rounds import read_results

    if as_json:
        print_json({"rounds": [result.to_json() for result in read_results(run)]})
        return
    console().print(report.results_table(read_results(run)))
    charts = run / "report.html"
    shown = f"charts in [bold]{escape(str(charts))}[/]; " if charts.is_file() else ""
    searches = sorted(folder.parent for folder in run.glob(f"round*/search*/{RESULTS}"))
    trees = f"trees: [bold]rstar view {escape(str(searches[0]))}[/]" if searches else ""
    console().print(shown + trees, highlight=False, soft_wrap=True)
