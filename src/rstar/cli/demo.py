"""``rstar demo``: the main feature in two minutes."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.cli.common import console, run_folder
from rstar.cli.solve import print_summary, solve_file
from rstar.config import resolve
from rstar.datasets import read_problems
from rstar.evals.metrics import percent
from rstar.jsonl import read_lines
from rstar.runs import TREES
from rstar.trees import Tree
from rstar.view.terminal import results_table, search_tree

MCTS = {
    "search.method": "mcts",
    "search.rollouts": 1000,
    "search.max_tokens": 2000,
    "search.expansions": 4,
}
"""As in recipes/tiny/compare.toml: a budget of tokens instead of rollouts."""


def demo(
    n: Annotated[int, typer.Option("--n", help="Number of bundled problems.", min=1, max=20)] = 20,
    out: Annotated[Path | None, typer.Option(help="Folder for the two runs.", show_default="runs/demo-…")] = None,
    seed: Annotated[int, typer.Option(help="Seed for the search.", min=0)] = 0,
) -> None:
    """Compare tree search with greedy decoding on 20 problems that the bundled model has not seen.

    The command prints the results of tree search, one search tree, and both accuracies with their 95% intervals.
    """
    with as_file(files("rstar.tiny") / "demo.jsonl") as file:
        problems = read_problems(file).head(n)
    folder = out or run_folder("demo")
    screen = console()
    greedy = solve_file(resolve(options={"search.method": "greedy", "seed": seed}), problems, folder / "greedy")
    searched = solve_file(resolve(options=MCTS | {"seed": seed}), problems, folder / "mcts")
    screen.print(results_table(searched.results, title="Monte Carlo tree search over code steps, bundled model"))
    trees = {line["id"]: Tree.from_json(line) for line in read_lines(folder / "mcts" / TREES)}
    example = _most_telling(searched.results, greedy.results)
    screen.print(f"\nThe search tree of {escape(example['id'])}:", highlight=False)
    screen.print(search_tree(trees[example["id"]], example["question"], most=25, answer=example["answer"]))
    screen.print(f"answer [bold]{escape(str(example['answer']))}[/], gold {escape(example['gold'])}\n", highlight=False)
    right = sum(row["correct"] for row in greedy.results)
    screen.print(f"greedy decoding: accuracy {percent(right, len(greedy.results))}", highlight=False)
    screen.print("tree search:     ", end="")
    print_summary(searched.results, searched.folder)
    screen.print(
        f"another tree: [bold]rstar view {escape(str(searched.folder))} {escape(searched.results[0]['id'])}[/];"
        " half of these problems are from the search families, so both accuracies are lower than over all families",
        highlight=False,
    )


def _most_telling(searched: list[dict[str, object]], greedy: list[dict[str, object]]) -> dict[str, str]:
    """A result to show the tree of: solved by search and not greedily, with failed branches; else the first."""
    missed = {row["id"] for row in greedy if not row["correct"]}
    gained = [row for row in searched if row["correct"] and row["id"] in missed]
    with_failures = [row for row in gained if row["failures"]]
    return (with_failures or gained or searched)[0]  # type: ignore[return-value]
