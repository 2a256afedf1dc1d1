"""Runs in the terminal: a table of results, and a search tree.

Reads the records of a run folder (`rstar.runs`); draws with rich.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

MARKS = {True: "[green]right[/]", False: "[red]wrong[/]", None: "[dim]–[/]"}
WIDTH = 72
REASONS = {
    "code_error": "its code failed",
    "no_step": "no step written",
    "no_answer": "no answer in the last step",
    "too_deep": "too many steps",
    "length": "too long",
}


def results_table(results: Sequence[dict[str, Any]], title: str = "") -> Table:
    """One row a problem: question, answer, right or wrong, rollouts, tokens, seconds."""
    table = Table(title=title or None, title_justify="left", header_style="bold", pad_edge=False, expand=True)
    table.add_column("id", overflow="ellipsis", no_wrap=True, max_width=18)
    table.add_column("problem", ratio=3, overflow="ellipsis", no_wrap=True)
    table.add_column("answer", ratio=1, overflow="ellipsis", no_wrap=True)
    table.add_column("", min_width=5)
    for name in ("rollouts", "tokens", "seconds"):
        table.add_column(name, justify="right", min_width=len(name))
    for row in results:
        family = row["meta"].get("family")
        question = f"[cyan]{escape(str(family))}[/] " if family else ""
        table.add_row(
            escape(row["id"]),
            question + escape(" ".join(row["question"].split())),
            escape(row["answer"] if row["answer"] is not None else "none"),
            MARKS[row.get("correct")],
            str(row["rollouts"]),
            f"{row['tokens_out']:,}",
            f"{row['seconds']:.1f}",
        )
    return table


def search_tree(nodes: Sequence[dict[str, Any]], title: str, most: int = 40) -> Tree:
    """A search tree as drawn text: each node with visits, mean value and the step's first line, failures dimmed.

    Args:
        nodes: the ``nodes`` of a line of ``trees.jsonl``.
        title: shown at the root.
        most: draw at most this many nodes, the most visited first; the rest is counted.
    """
    kept = _most_visited(nodes, most)
    root = Tree(f"[bold]{escape(title)}[/]", guide_style="dim")
    branches = {0: root}
    hidden: dict[int, int] = {}
    for index, node in enumerate(nodes[1:], 1):
        parent = node["parent"]
        if index in kept and parent in branches:
            branches[index] = branches[parent].add(_line(node))
        elif parent in branches:
            hidden[parent] = hidden.get(parent, 0) + 1
    for parent, count in hidden.items():
        branches[parent].add(f"[dim]… {count} more[/]")
    return root


def _most_visited(nodes: Sequence[dict[str, Any]], most: int) -> set[int]:
    ranked = sorted(range(1, len(nodes)), key=lambda i: (nodes[i]["answer"] is None, -nodes[i]["visits"], i))
    kept = {0}
    for index in ranked:
        path = []
        while index not in kept:
            path.append(index)
            index = nodes[index]["parent"]
        if len(kept) + len(path) <= most + 1:
            kept.update(path)
    return kept


def _headline(text: str) -> str:
    """What a step says of itself: its first line, which is a comment where the model wrote one."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= WIDTH else first[: WIDTH - 1] + "…"


def _line(node: dict[str, Any]) -> Text:
    text = _headline(node["text"])
    if node["answer"] is not None:
        return Text.assemble(
            (f"N {node['visits']} Q {node['q']:+.2f}  ", "dim"), text, (f"  ⇒ {node['answer']}", "bold green")
        )
    if node["finish"] is not None:
        why = node["error"] or REASONS.get(node["finish"], node["finish"])
        return Text.assemble((text, "dim"), (f"  ✗ {why}"[:WIDTH], "red"))
    return Text.assemble((f"N {node['visits']} Q {node['q']:+.2f}  ", "dim"), text)
