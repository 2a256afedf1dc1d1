"""``rstar demo``: tree search against greedy decoding, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.cli.common import console, run_folder
from rstar.cli.solve import solve_file
from rstar.config import build
from rstar.datasets import read_problems
from rstar.evals.compare import Entry, compare_methods, comparison_table, run_entries
from rstar.evals.run import FinishedRun
from rstar.jsonl import read_lines
from rstar.runs import RESULTS, TREES
from rstar.tiny.source import ProblemSource, draw_file
from rstar.trees import Tree
from rstar.view.progress import progress
from rstar.view.terminal import search_tree

SEARCH = {"method": "mcts", "rollouts": 1000, "max_tokens": 1000, "expansions": 4}
"""As in recipes/tiny/compare.toml, with half of the tokens."""


def demo(
    n: Annotated[int, typer.Option("--n", help="Number of problems.", min=1)] = 118,
    seed: Annotated[int, typer.Option(help="Seed for drawing the problems, and for the search.", min=0)] = 2027,
    out: Annotated[Path | None, typer.Option(help="Folder for the two runs.", show_default="runs/demo-…")] = None,
) -> None:
    """Compare tree search with greedy decoding on problems that the bundled model has not seen.

    The problems are drawn at random from all families, with numbers held out of training; another `--seed` draws
    others. The command prints both accuracies with their 95% intervals and an exact paired test, and the search tree of
    a problem that greedy decoding did not solve.
    """
    folder = out or run_folder("demo")
    source = ProblemSource(n=n, seed=seed, split="numbers")
    problems = read_problems(draw_file(source, folder / f"problems-{seed}-{n}.jsonl", progress))
    entries = [
        Entry("tree search", build({"search": SEARCH, "seed": seed}, where="demo")),
        Entry("greedy decoding", build({"search": {"method": "greedy"}, "seed": seed}, where="demo")),
    ]

    def run(entry: Entry) -> FinishedRun:
        return solve_file(entry.config, problems, folder / entry.name)

    rows = compare_methods(run_entries(entries, run))
    screen = console()
    screen.print(comparison_table(rows))
    searched, greedy = (folder / entry.name for entry in entries)
    if (example := _example(searched, greedy)) is not None:
        tree = next(line for line in read_lines(searched / TREES) if line["id"] == example["id"])
        screen.print("\nA problem that only tree search solved:", highlight=False)
        screen.print(search_tree(Tree.from_json(tree), example["question"], most=25, answer=example["answer"]))
        screen.print(f"answer [bold]{escape(str(example['answer']))}[/]\n", highlight=False)
    screen.print(
        f"n = {len(problems)}; solved only by tree search: {rows[1].lost}, only by greedy decoding: {rows[1].won}; all"
        f" trees: [bold]rstar view '{escape(str(searched))}'[/]",
        highlight=False,
    )


def _example(searched: Path, greedy: Path) -> dict[str, str] | None:
    """A result of which to show the tree: solved by search and not greedily, if possible with failed branches."""
    missed = {row["id"] for row in read_lines(greedy / RESULTS) if not row["correct"]}
    gained = [row for row in read_lines(searched / RESULTS) if row["correct"] and row["id"] in missed]
    return next((row for row in gained if row["failures"]), next(iter(gained), None))
