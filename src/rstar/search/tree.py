"""The search tree of one problem: nodes, back-up, and the stored record.

A node is a partial solution; the edge to it is its last step. Nodes hold the statistics: `visits` is N(s, a), `total`
the sum of the values backed up through the node, so Q(s, a) = total / visits (arXiv 2501.04519, section 3.2). A node is
`closed` when selection can gain nothing from it: it is terminal, or all its children are closed.

This module makes no decisions: `select` picks nodes, `expand` creates them. `snapshot` creates the stored record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from rstar.models.engine import Completion, Context
from rstar.search.states import SharedState
from rstar.trajectories import FinishReason, Segment, Step, Trajectory
from rstar.trees import Tree, TreeNode

FAILED_VALUE = -1.0


@dataclass(slots=True, eq=False)
class Node:
    """A partial solution.

    Attributes:
        parent: None at the root.
        step: step that led here; None at the root.
        context: model input to continue from here; out of date once the solution has ended.
        state: interpreter after the step's code; None if nothing can run from here.
        stdout: everything the program has printed so far.
        depth: number of steps from the root.
        errors: failed steps in a row up to here.
        votes: number of identical samples it represents.
        logprob: sum of the log-probabilities of the sampled steps up to here; None if the engine does not report them.
        chance: probability that the policy goes on from the parent with this step, or with one that was merged into it;
            None if the engine does not report log-probabilities.
        length: of the sampled step, in tokens; in characters if the engine knows no ids.
        finish_reason: why the solution ended here; None if it goes on.
        answer: final answer, if any.
        value: estimate of this node alone; None if there is none.
        place: child indices on the path from the root; names the node's random stream.
        expansions: number of times it was expanded.
        texts: sampled text → the child that represents it (merged expansions only).
        known: the sample of each of these texts.
    """

    parent: Node | None
    step: Step | None
    context: Context
    state: SharedState | None
    stdout: str = ""
    depth: int = 0
    errors: int = 0
    votes: int = 1
    logprob: float | None = 0.0
    chance: float | None = None
    length: int = 0
    finish_reason: FinishReason | None = None
    answer: str | None = None
    value: float | None = None
    place: tuple[int, ...] = ()
    expansions: int = 0
    children: tuple[Node, ...] = ()
    texts: dict[str, Node] = field(default_factory=dict)
    known: list[Completion] = field(default_factory=list)
    expanded: bool = False
    closed: bool = False
    visits: int = 0
    total: float = 0.0

    @property
    def q(self) -> float:
        """Mean backed-up value; 0 before the first."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def probability(self) -> float | None:
        """Probability that the policy ends here, if known."""
        if self.parent is None or self.parent.logprob is None or self.chance is None:
            return None
        return math.exp(self.parent.logprob) * self.chance

    @property
    def unseen(self) -> float | None:
        """Probability that another sample from here is none of the children; None if unknown, or without children."""
        known = [child.chance for child in self.children if child.chance is not None]
        return max(0.0, 1.0 - sum(known)) if len(known) == len(self.children) > 0 else None

    @property
    def share(self) -> float:
        """Share of the policy's samples that took each step, multiplied over the steps from the root."""
        share, node = 1.0, self
        while node.parent is not None:
            share *= node.votes / sum([child.votes for child in node.parent.children])
            node = node.parent
        return share

    def ancestors(self) -> Iterator[Node]:
        """Yield the node's parent, its parent, …, the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def path(self) -> list[Node]:
        """The nodes from the root's child to this one."""
        return [self, *self.ancestors()][-2::-1]

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, parents first, siblings in order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def trajectory(self) -> Trajectory:
        """The solution up to this node."""
        root, *path = [self, *self.ancestors()][::-1]
        steps = tuple([node.step for node in path if node.step is not None])
        return Trajectory(root.prompt, steps, self.finish_reason, self.answer, self.value, self.votes, self.share)

    @property
    def prompt(self) -> Segment:
        """The node's context as one segment: at the root, the prompt."""
        return Segment(self.context.text, "template", self.context.ids)


def back_up(node: Node, value: float) -> None:
    """Add `value` to the node and all its ancestors: q(s_i) ← q(s_i) + value for every step of the trajectory."""
    current: Node | None = node
    while current is not None:
        current.visits += 1
        current.total += value
        current = current.parent


def fail(node: Node) -> None:
    """Give a failed leaf the value −1 and close it. The value is not backed up."""
    node.visits += 1
    node.total += FAILED_VALUE
    node.value = FAILED_VALUE
    node.closed = True


def close(node: Node) -> None:
    """Close a node, and every ancestor without an open child."""
    node.closed = True
    for parent in node.ancestors():
        if not parent.expanded or not all(child.closed for child in parent.children):
            return
        parent.closed = True


def reopen(node: Node) -> None:
    """Reopen a node for another expansion, and the path to it."""
    node.expanded = node.closed = False
    for parent in node.ancestors():
        parent.closed = False


def snapshot(root: Node) -> Tree:
    """The current tree as a record."""
    records: dict[int, TreeNode] = {}
    for node in root.walk():
        parent = None if node.parent is None else records[id(node.parent)]
        records[id(node)] = TreeNode(
            parent, node.step, node.visits, node.q, node.value, node.votes, node.finish_reason, node.answer
        )
        if parent is not None:
            parent.children.append(records[id(node)])
    return Tree(root.prompt, list(records.values()))
