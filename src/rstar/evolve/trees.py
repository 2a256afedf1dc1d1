"""Search trees as they lie in a run folder, with verified ends.

`rstar.search.tree.record` writes them; this is the reading side, for trees whose terminal values are +1 or -1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rstar.errors import DataError
from rstar.prompts import steps as prompt
from rstar.runs import CONFIG, RESULTS, TREES, read_lines

RIGHT, WRONG = 1.0, -1.0
"""Values of ends."""

VERIFIED_ENDS = {"ends": "verified"}
"""What the identity of a run says whose search learnt from gold answers how trajectories ended: no other run goes on in
its folder, and training data comes from no other."""

_ANSWER_BEGINS = f"{prompt.END_OUTPUT}\n{prompt.ANSWER}"


@dataclass(slots=True, eq=False)
class StoredNode:
    """A node of a stored tree.

    Attributes:
        text: what the policy wrote in this step; empty at the root.
        shown: what came after it: the program's output, and the answer that the policy then wrote.
        logprobs: log-probabilities of the text's tokens; empty where the run did not record them.
        values: name to new value of variables, after the step; empty also where the run did not record them.
        status: of the step's run, None where nothing ran.
        q: mean of the values that were backed up through it.
        value: +1 or -1 where a solution ended with an answer; a reward's estimate elsewhere, or None.
        answer: the answer, where there is one.
        finish: why the solution ended here, None where it goes on.
        right, wrong: how many solutions at or below it ended with a correct, with a wrong answer.
    """

    parent: StoredNode | None
    text: str
    shown: str
    logprobs: list[float]
    values: dict[str, str]
    status: str | None
    q: float
    value: float | None
    answer: str | None
    finish: str | None
    children: list[StoredNode] = field(default_factory=list)
    right: int = 0
    wrong: int = 0

    @property
    def ran(self) -> bool:
        """Whether the step's code ran without an error, if it has any."""
        return self.status in ("ok", None)

    def path(self) -> list[StoredNode]:
        """The steps from the first to this one."""
        nodes: list[StoredNode] = []
        node: StoredNode | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass(slots=True)
class Solved:
    """A solution that ended with an answer.

    Attributes:
        steps: its nodes, first to last.
        correct: whether the answer is right.
        mean_q: mean Q of the steps.
    """

    steps: list[StoredNode]
    correct: bool
    mean_q: float

    @property
    def text(self) -> str:
        """All that follows the prompt."""
        return "".join(node.text + node.shown for node in self.steps)

    @property
    def ran(self) -> bool:
        """Whether every step's code ran without an error."""
        return all(node.ran for node in self.steps)

    def pieces(self) -> list[str]:
        """What the policy wrote and what it was shown, in turns, the policy's part first."""
        code, shown = "".join(node.text for node in self.steps), self.steps[-1].shown
        if not shown:
            return [code]
        output, begin, answer = shown.partition(_ANSWER_BEGINS)
        return [code, output + begin, answer]


@dataclass(slots=True)
class StoredTree:
    """The tree of one problem: its root first, parents before children."""

    id: str
    question: str
    nodes: list[StoredNode]

    def solved(self) -> list[Solved]:
        """Every solution that ended with an answer, in the tree's order."""
        ends = [node for node in self.nodes if node.answer is not None]
        found = []
        for end in ends:
            steps = end.path()
            mean_q = sum(node.q for node in steps) / len(steps)
            found.append(Solved(steps, end.value == RIGHT, mean_q))
        return found


def read_trees(folder: Path) -> Iterator[StoredTree]:
    """The trees of a run folder, one at a time: memory does not grow with their number.

    A last tree whose result was not written any more is left out, as when the run goes on.

    Raises:
        DataError: there are none, their ends are not verified, they are damaged, or not those of the folder's results.
    """
    check_verified(folder)
    trees = folder / TREES
    lines = read_lines(trees)
    line = next(lines, None)
    for result in read_lines(folder / RESULTS):
        name = result["id"]
        if line is None or line["id"] != name:
            if not result.get("trajectories"):  # nothing was found
                continue
            raise DataError(f"{trees}: the tree of problem {name!r} is not at its place, which is that of its result")
        try:
            yield StoredTree(name, _text(result, "question"), _nodes(line["nodes"]))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise DataError(f"{trees}: the tree of problem {name!r} is damaged: {error!r}") from error
        line = next(lines, None)
    if line is not None and next(lines, None) is not None:
        raise DataError(f"{trees}: problem {line['id']!r} and others after it have no result")


def check_verified(folder: Path) -> None:
    """Raise `DataError` for what is no run folder of trees with verified ends."""
    for name in (CONFIG, TREES, RESULTS):
        if not (folder / name).exists():
            raise DataError(f"{folder}: no {name} in it")
    if not is_verified(folder):
        raise DataError(f"{folder}: a run whose ends were not verified; `rstar evolve search` makes those that were")


def is_verified(folder: Path) -> bool:
    """Whether the ends of a run's trees were checked with gold answers. Raises `DataError` for no run folder."""
    try:
        identity = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["identity"]
        return VERIFIED_ENDS.items() <= dict(identity).items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{folder / CONFIG} is not the configuration of a run: {error}") from error


def _text(row: dict[str, Any], name: str) -> str:
    text = row.get(name, "")
    if not isinstance(text, str):
        raise TypeError(f"{name} = {text!r}")
    text.encode()  # half a surrogate pair could not be written again
    return text


def _number(row: dict[str, Any], name: str) -> float:
    number = row[name]
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise TypeError(f"{name} = {number!r}")
    return number


def _nodes(rows: list[dict[str, Any]]) -> list[StoredNode]:
    nodes: list[StoredNode] = []
    for row in rows:
        parent = nodes[row["parent"]] if row["parent"] >= 0 else None
        if parent is None and (nodes or row["answer"] is not None):
            raise ValueError("one node has no parent, the first, and it is no end")
        node = StoredNode(
            parent,
            _text(row, "text"),
            _text(row, "shown"),
            row.get("logprobs", []),
            row.get("values", {}),
            row.get("status"),
            _number(row, "q"),
            row["value"],
            row["answer"],
            row["finish"],
        )
        if node.answer is not None and node.value not in (RIGHT, WRONG):
            raise ValueError(f"an end of value {node.value!r}")
        if parent is not None:
            parent.children.append(node)
        nodes.append(node)
    for node in reversed(nodes):  # children come after their parents
        if node.answer is not None:
            node.right += node.value == RIGHT
            node.wrong += node.value == WRONG
        if node.parent is not None:
            node.parent.right += node.right
            node.parent.wrong += node.wrong
    return nodes
