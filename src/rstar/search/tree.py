"""The search tree of one problem: nodes, back-up, and what is kept of it.

A node is a partial solution; the edge to it is its last step. Statistics live in the node: `visits` is N(s, a), `total`
the sum of the values backed up through it, so that Q(s, a) = total / visits (arXiv 2501.04519, section 3.2). A node is
`closed` when selection has nothing more to gain from it: it is terminal, or all its children are closed.

This module holds no policy: what is selected is in `select`, how nodes come to be is in `expand`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rstar.errors import EngineError
from rstar.models.engine import Context
from rstar.sandbox.api import State
from rstar.trajectories import Finish, Step, Trajectory

FAILED_VALUE = -1.0


@dataclass(slots=True, eq=False)
class Node:
    """A partial solution.

    Attributes:
        parent: None at the root.
        step: the step that led here, None at the root.
        context: what the model is shown to continue from here.
        state: the interpreter after the step's code; None when nothing can be run from here.
        stdout: everything the program has printed so far.
        depth: number of steps from the root.
        errors: failed steps in a row up to here.
        votes: how many identical samples this node stands for.
        prior: mean log-probability per token of the step: breaks ties between unvisited siblings.
        finish: why the solution ended here, None when it goes on.
        answer: the final answer, when there is one.
        value: the reward's own estimate for this node, None when it gave none.
        place: which child of which child of the root this is: names the node's random stream.
        expansions: how often it was expanded.
        texts: every text that was sampled here -> the child that stands for it (merged expansions only).
    """

    parent: Node | None
    step: Step | None
    context: Context
    state: State | None
    stdout: str = ""
    depth: int = 0
    errors: int = 0
    votes: int = 1
    prior: float = 0.0
    finish: Finish | None = None
    answer: str | None = None
    value: float | None = None
    place: tuple[int, ...] = ()
    expansions: int = 0
    children: list[Node] = field(default_factory=list)
    texts: dict[str, Node] = field(default_factory=dict)
    expanded: bool = False
    closed: bool = False
    visits: int = 0
    total: float = 0.0

    @property
    def q(self) -> float:
        """Mean backed-up value, 0 before the first."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def mass(self) -> float:
        """Share of the policy's samples that came this way, step by step from the root; see `Trajectory.mass`."""
        mass, node = 1.0, self
        while node.parent is not None:
            mass *= node.votes / sum(child.votes for child in node.parent.children)
            node = node.parent
        return mass

    def path(self) -> list[Node]:
        """The nodes from the root's child to this one."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and node.step is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first, siblings in order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def trajectory(self) -> Trajectory:
        """The solution up to here; `Trajectory.finish` is ``no_step`` while it is still going on."""
        steps = tuple(node.step for node in self.path() if node.step is not None)
        return Trajectory(steps, self.finish or "no_step", self.answer, self.value, self.votes, self.mass)


def back_up(node: Node, value: float) -> None:
    """Add `value` to the node and to all its ancestors: q(s_i) ← q(s_i) + value for every step of the trajectory."""
    current: Node | None = node
    while current is not None:
        current.visits += 1
        current.total += value
        current = current.parent


def fail(node: Node) -> None:
    """Give a failed leaf its value −1 and close it. The value is its own: it is not backed up."""
    node.visits += 1
    node.total += FAILED_VALUE
    node.value = FAILED_VALUE
    node.closed = True


def close(node: Node) -> None:
    """Close a node, and every ancestor that has no open child left."""
    node.closed = True
    parent = node.parent
    while parent is not None and parent.expanded and all(child.closed for child in parent.children):
        parent.closed = True
        parent = parent.parent


def reopen(node: Node) -> None:
    """Open a node, to be expanded again, and the way from the root to it."""
    node.expanded = node.closed = False
    parent = node.parent
    while parent is not None:
        parent.closed = False
        parent = parent.parent


def record(root: Node, tokens: bool = False) -> list[dict[str, Any]]:
    """The tree as plain data, parents before children: the form of a line of ``trees.jsonl``.

    Each node is a dict; `parent` is an index into the list (-1 for the root); `values`, where there are any, is name to
    new value of variables. With `tokens`, token ids and log-probabilities are kept.

    Raises:
        EngineError: they are to be kept, and the model did not tell log-probabilities.
    """
    index: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for node in root.walk():
        index[id(node)] = len(rows)
        row: dict[str, Any] = {
            "parent": -1 if node.parent is None else index[id(node.parent)],
            "visits": node.visits,
            "q": round(node.q, 6),
            "value": None if node.value is None else round(node.value, 6),
            "votes": node.votes,
            "finish": node.finish,
            "answer": node.answer,
        }
        if node.step is not None:
            step = node.step
            row |= {"text": step.text, "shown": step.shown, "status": step.status, "error": step.error}
            row["logprob"] = round(sum(step.logprobs), 4)
            if step.values:
                row["values"] = dict(step.values)
            if tokens:
                if step.text and not step.logprobs:
                    raise EngineError("search.record_tokens: this model does not tell log-probabilities")
                row |= {"ids": list(step.ids), "logprobs": [round(x, 5) for x in step.logprobs]}
        rows.append(row)
    return rows


def stored_solutions(nodes: Sequence[Mapping[str, Any]]) -> list[Trajectory]:
    """The solutions with an answer in a tree that `record` made, in its order; what it did not keep is empty.

    Raises:
        LookupError, TypeError, ValueError: damaged nodes.
    """
    votes = Counter[int]()
    for node in nodes:
        votes[node["parent"]] += node["votes"]
    steps: list[tuple[Step, ...]] = []
    masses: list[float] = []
    found: list[Trajectory] = []
    for place, node in enumerate(nodes):
        parent = node["parent"]
        if not -1 <= parent < place or (parent == -1) != (place == 0):
            raise ValueError("a node whose parent does not come before it")
        if parent == -1:
            steps.append(())
            masses.append(1.0)
            continue
        steps.append((*steps[parent], _stored_step(node)))
        masses.append(masses[parent] * node["votes"] / votes[parent])
        if node["answer"] is not None:
            found.append(
                Trajectory(steps[-1], node["finish"], node["answer"], node["value"], node["votes"], masses[-1])
            )
    return found


def _stored_step(node: Mapping[str, Any]) -> Step:
    return Step(
        text=node["text"],
        shown=node["shown"],
        ids=tuple(node.get("ids", ())),
        logprobs=tuple(node.get("logprobs", ())),
        status=node["status"],
        error=node["error"],
        values=tuple(node.get("values", {}).items()),
    )
