"""Runs in the terminal: a table of results, and a search tree.

Reads the records of a run folder (`rstar.runs`); draws with rich.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rich.tree
from rich.markup import escape
from rich.text import Text

from rstar.trajectories import ToolCall
from rstar.trees import Tree, TreeNode
from rstar.view.tables import Column, Grid

MARKS = {True: "[green]right[/]", False: "[red]wrong[/]", None: "[dim]–[/]"}
REASONS = {
    "code_error": "its code failed",
    "no_step": "no step written",
    "no_answer": "no answer in the last step",
    "gave_up": "gave up",
    "too_deep": "too many steps",
    "length": "too long",
    "repeated": "repeated calls that had failed",
    "deadline": "out of time",
}
NOTES = {
    "unknown_wording": "unknown wording",
    "not_a_puzzle": "not a puzzle",
    "not_an_agent": "not an agent",
    "low_value": "low value",
    "question_too_long": "question too long",
    "out_of_time": "out of time",
}
"""Notices of a result (`rstar.search.notices`) as short labels for a table."""
NOTICES = {
    "unknown_wording": "the bundled model was not trained on this wording: do not trust the answer "
    "(`rstar problems make --n 60 --seed 1 --out FILE` writes questions that it knows)",
    "not_a_puzzle": "the bundled agent was trained on puzzles, and this is another kind of problem: do not trust the "
    "answer (`--family search` draws puzzles)",
    "not_an_agent": "this bundled model was not trained to call tools: use `--policy tiny:agent`",
    "low_value": "the bundled PPM considers the answer more likely wrong than right (value below 0)",
    "question_too_long": "the question is too long for the model's context (engine.max_context)",
    "out_of_time": "rollouts ran out of time (search.rollout_seconds) and count as unanswered",
}
"""The same as sentences."""


def results_table(results: Sequence[dict[str, Any]], title: str = "") -> Grid:
    """One row per problem: question, answer, verdict, rollouts, tokens, seconds, notices."""
    graded = any("correct" in row for row in results)
    noted = any(row.get("notices") for row in results)
    columns = [
        Column("id"),
        Column("problem", flow="cut"),
        Column("answer", flow="cut", least=12),
        *([Column("right?")] if graded else []),
        Column("rollouts", number=True, rank=4),
        Column("tokens", number=True, rank=2),
        Column("seconds", number=True, rank=3),
        *([Column("notes", rank=1)] if noted else []),
    ]
    table = Grid(columns, title=title)
    for row in results:
        family = row["meta"].get("family")
        question = f"[cyan]{escape(str(family))}:[/] " if family else ""
        table.add(
            escape(row["id"]),
            question + escape(_line_of(row["question"])),
            escape(_line_of(row["answer"]) if row["answer"] is not None else "none"),
            *([MARKS[row.get("correct")]] if graded else []),
            str(row["rollouts"]),
            f"{row['tokens_out']:,}",
            f"{row['seconds']:.1f}",
            *([", ".join(NOTES[notice] for notice in row.get("notices", ()))] if noted else []),
        )
    return table


def _line_of(text: str) -> str:
    return " ".join(text.split())


def reasons(failures: Mapping[str, int]) -> str:
    """Why branches ended without an answer, as the end of a sentence.

    >>> reasons({"code_error": 3, "length": 1})
    ' (their code failed: 3, too long: 1)'
    """
    counts = ", ".join(f"{REASONS.get(name, name).replace('its', 'their')}: {n}" for name, n in failures.items())
    return f" ({counts})" if counts else ""


def search_tree(tree: Tree, title: str, most: int = 40, answer: str | None = None) -> rich.tree.Tree:
    """A search tree as text: each node with visits, mean value, the step's first line and the values it computed.

    For an agent's rollouts: each turn with the number of rollouts that share it, its calls and the first line of their
    responses. Turns that follow each other without a fork have one indent.

    Args:
        tree: the tree to draw.
        title: shown at the root.
        most: maximum number of nodes drawn, the most visited first; the rest is counted.
        answer: the answer given; the path to it is marked, and always drawn.
    """
    chosen = _way_to(tree, answer)
    kept = _most_visited(tree, most, chosen)
    of_agent = any(node.step is not None and node.step.calls for node in tree.nodes)
    legend = "×N rollouts that share a turn" if of_agent else "N visits, Q mean value of the visits"
    legend += ", V final value of an answer" + (", ▶ path to the chosen answer" if chosen else "")
    root = rich.tree.Tree(f"[bold]{escape(title)}[/]\n[dim]{legend}[/]", guide_style="dim")
    branches = {tree.nodes[0]: root}
    around = {tree.nodes[0]: root}
    hidden: dict[TreeNode, int] = {}
    for node in tree.nodes[1:]:
        parent = node.parent
        if parent in branches and node in kept:
            around[node] = (around if of_agent and _is_in_chain(node) else branches)[parent]
            branches[node] = around[node].add((_turn if of_agent else _line)(node, node in chosen))
        elif parent in branches:
            hidden[parent] = hidden.get(parent, 0) + 1
    for parent, count in hidden.items():
        branches[parent].add(f"[dim]… {count} more[/]")
    return root


def _is_in_chain(node: TreeNode) -> bool:
    """Whether the node is an only child, and its parent, too."""
    parent = node.parent
    above = parent and parent.parent
    return parent is not None and above is not None and len(parent.children) == len(above.children) == 1


def _way_to(tree: Tree, answer: str | None) -> set[TreeNode]:
    """The nodes on the path to the best leaf with the given answer."""
    leaves = [node for node in tree.nodes if answer is not None and node.answer == answer]
    best = max(leaves, key=lambda leaf: leaf.value or 0.0, default=None)
    return set() if best is None else set(best.path())


def _most_visited(tree: Tree, most: int, first: set[TreeNode]) -> set[TreeNode]:
    def rank(node: TreeNode) -> tuple[bool, bool, int, int]:
        return node not in first, node.answer is None, -node.visits, -node.votes

    ranked = sorted(tree.nodes[1:], key=rank)
    kept = {tree.nodes[0]}
    for node in ranked:
        path = [ancestor for ancestor in node.path() if ancestor not in kept]
        if len(kept) + len(path) <= most + 1:
            kept.update(path)
    return kept


def _headline(text: str) -> str:
    """The first non-empty line of a step, usually a comment."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _line(node: TreeNode, chosen: bool) -> Text:
    """A node on one line, cut at the terminal's width."""
    assert node.step is not None
    text = _headline(node.step.written.text)
    parts: list[str | tuple[str, str]] = [("▶ " if chosen else "", "bold green")]
    if node.step.action is not None:
        parts.append((f"{node.step.action}: ", "magenta"))
    if node.answer is not None:
        value = "" if node.value is None else f"V {node.value:.2f}  "
        parts += [(value, "dim"), text, (f"  ⇒ {node.answer}", "bold green" if chosen else "green")]
    elif node.finish_reason is not None:
        why = node.step.error or REASONS.get(node.finish_reason, node.finish_reason)
        parts += [(text, "dim"), (f"  ✗ {why}", "red")]
    else:
        values = ", ".join(f"{name} = {value}" for name, value in node.step.values)
        visited = f" Q {node.q:+.2f}" if node.visits else ""  # before its first visit, a step has no mean
        parts += [(f"N {node.visits}{visited}  ", "dim"), text, (f"  {values}", "cyan")]
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _turn(node: TreeNode, chosen: bool) -> Text:
    """An agent's turn on one line, cut at the terminal's width."""
    assert node.step is not None
    parts: list[str | tuple[str, str]] = [("▶ " if chosen else "", "bold green"), (f"×{node.votes}  ", "dim")]
    for call in node.step.calls:
        parts += [f"{_call(call)}  ", (f"{_headline(call.response)}  ", "cyan" if call.status == "ok" else "red")]
    if not node.step.calls:
        parts.append((_in_one_line(node.step.written.text), "" if node.answer is not None else "dim"))
    if node.answer is not None:
        value = "" if node.value is None else f"  V {node.value:.2f}"
        parts += [(value, "dim"), (f"  ⇒ {node.answer}", "bold green" if chosen else "green")]
    elif node.finish_reason is not None:
        parts.append((f"  ✗ {REASONS.get(node.finish_reason, node.finish_reason)}", "red"))
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _call(call: ToolCall) -> str:
    """A tool call in one line.

    >>> _call(ToolCall("jupyter_code", {"code": "# first\\nput(2)"}, "ok", "")), _call(ToolCall("undo", {}, "ok", ""))
    ('# first; put(2)', 'undo()')
    """
    code = call.arguments.get("code")
    if isinstance(code, str):
        return _in_one_line(code)
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def _in_one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())
