"""The search tree of one problem: nodes, back-up, and the stored record.

A node is a partial solution; the edge to it is its last step. Nodes hold the statistics: `visits` is N(s, a), `total`
the sum of the values backed up through the node, so Q(s, a) = total / visits (arXiv 2501.04519, section 3.2). A node is
`closed` when selection can gain nothing from it: it is terminal, or nothing is left to do below it.

This module makes no decisions: `select` picks nodes, `expand` creates them. `snapshot` creates the stored record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rstar.models.engine import Context
from rstar.sandbox.api import State
from rstar.trajectories import FinishReason, Segment, Step, Trajectory
from rstar.trees import Tree, TreeNode

FAILED_VALUE = -1.0
MOSTLY_KNOWN = 0.5
"""Probability of the known steps from which they, and not the numbers of samples, tell the policy's probabilities."""
NOTHING_NEW = 0.001
"""A node whose unseen steps have less probability than this is not sampled again."""


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
        probability: of the step under the policy, and of those merged into it; None if the engine reports none.
        finish_reason: why the solution ended here; None if it goes on.
        answer: final answer, if any.
        value: estimate of this node alone; None if there is none.
        place: child indices on the path from the root; names the node's random stream.
        expansions: number of times it was expanded.
        texts: sampled text → the child that represents it (merged expansions only).
    """

    parent: Node | None
    step: Step | None
    context: Context
    state: State | None
    stdout: str = ""
    depth: int = 0
    errors: int = 0
    votes: int = 1
    probability: float | None = None
    finish_reason: FinishReason | None = None
    answer: str | None = None
    value: float | None = None
    place: tuple[int, ...] = ()
    expansions: int = 0
    children: tuple[Node, ...] = ()
    texts: dict[str, Node] = field(default_factory=dict)
    closed: bool = False
    visits: int = 0
    total: float = 0.0

    @property
    def q(self) -> float:
        """Mean backed-up value; 0 before the first."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def known(self) -> float:
        """Probability of the steps seen here, under the policy; 0 if the engine reports no log-probabilities."""
        return sum([child.probability or 0.0 for child in self.children])

    @property
    def unseen(self) -> float:
        """Probability that the policy's next sample here is a step not seen yet.

        Exact where most of the probability is known: what the known steps leave of 1. Otherwise (long steps, or an
        engine without log-probabilities) estimated by the share of samples seen only once: Good–Turing, plus half a
        sample so that it is never 0.
        """
        if not self.children:
            return 1.0
        known = self.known
        if known >= MOSTLY_KNOWN:
            return max(0.0, 1.0 - known)
        samples = sum([child.votes for child in self.children])
        return (sum([child.votes == 1 for child in self.children]) + 0.5) / (samples + 1)

    @property
    def shares(self) -> list[float]:
        """The policy's probability of each child's step, or, where most of it is unknown, the share of the samples."""
        if self.known >= MOSTLY_KNOWN:
            return [child.probability or 0.0 for child in self.children]
        samples = sum([child.votes for child in self.children])
        return [child.votes / samples for child in self.children]

    @property
    def share(self) -> float:
        """The node's share among its siblings (see `shares`); 1 at the root."""
        return 1.0 if self.parent is None else self.parent.shares[self.parent.children.index(self)]

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to do below: all children are closed, and other steps are too improbable."""
        return bool(self.children) and all(child.closed for child in self.children) and self.unseen < NOTHING_NEW

    @property
    def mass(self) -> float:
        """Shares of the steps from the root, multiplied; see `Trajectory.mass`."""
        mass, node = 1.0, self
        while node.parent is not None:
            mass *= node.share
            node = node.parent
        return mass

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
        return Trajectory(root.prompt, steps, self.finish_reason, self.answer, self.value, self.votes, self.mass)

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


def close(node: Node) -> None:
    """Close a node, and every ancestor below which nothing is left to do."""
    node.closed = True
    for parent in node.ancestors():
        if not parent.exhausted:
            return
        parent.closed = True


def snapshot(root: Node) -> Tree:
    """The current tree as a record."""
    records: dict[int, TreeNode] = {}
    for node in root.walk():
        parent = None if node.parent is None else records[id(node.parent)]
        records[id(node)] = TreeNode(
            parent, node.step, node.visits, node.q, node.value, node.votes, node.share, node.finish_reason, node.answer
        )
        if parent is not None:
            parent.children.append(records[id(node)])
    return Tree(root.prompt, list(records.values()))
