"""Search trees as plain records: the only writer and reader of the lines of ``trees.jsonl``.

A line is ``{"id", "prompt": SEGMENT, "nodes": [{"parent", "visits", "q", "value", "votes", "finish", "answer", …STEP},
…]}``: the root first, without a step; parents before children. `rstar.trajectories` defines `SEGMENT` and `STEP`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rstar.trajectories import FinishReason, Segment, Step, Trajectory


@dataclass(slots=True, eq=False)
class TreeNode:
    """A partial solution; the edge to it is its last step.

    Attributes:
        parent: None at the root.
        step: step that led here; None at the root.
        visits: number of values backed up through it.
        q: mean of those values.
        value: estimate of this node alone, or the reward of an end; None if there is none.
        votes: number of identical samples it represents.
        finish_reason: why the solution ended here; None if it goes on.
        answer: final answer, if any.
    """

    parent: TreeNode | None
    step: Step | None
    visits: int
    q: float
    value: float | None
    votes: int
    finish_reason: FinishReason | None
    answer: str | None
    children: list[TreeNode] = field(default_factory=list)

    def path(self) -> list[TreeNode]:
        """The nodes from the root's child to this one."""
        nodes: list[TreeNode] = []
        node: TreeNode | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass(frozen=True, slots=True)
class Tree:
    """The search tree of one problem.

    Attributes:
        prompt: the model's input.
        nodes: the root first, parents before children.
    """

    prompt: Segment
    nodes: list[TreeNode]

    def ends(self, *, unanswered: bool = False) -> Iterator[tuple[TreeNode, Trajectory]]:
        """Yield every node with an answer, and the trajectory to it, in order; with `unanswered`, also other ends.

        The root is an end, with no steps, if nothing fitted into the context behind the prompt.
        """
        samples = {node: sum([child.votes for child in node.children]) for node in self.nodes if node.children}
        steps: dict[TreeNode, tuple[Step, ...]] = {}
        masses: dict[TreeNode, float] = {}
        for node in self.nodes:
            if node.parent is None or node.step is None:
                steps[node], masses[node] = (), 1.0
            else:
                steps[node] = (*steps[node.parent], node.step)
                masses[node] = masses[node.parent] * (node.votes / samples[node.parent])
            if node.answer is not None or (unanswered and node.finish_reason is not None):
                yield (
                    node,
                    Trajectory(
                        self.prompt, steps[node], node.finish_reason, node.answer, node.value, node.votes, masses[node]
                    ),
                )

    def to_json(self, tokens: bool) -> dict[str, Any]:
        """A line of ``trees.jsonl`` without its id; with `tokens`, including token ids and log-probabilities."""
        places = {id(node): place for place, node in enumerate(self.nodes)}
        rows = []
        for node in self.nodes:
            row: dict[str, Any] = {
                "parent": -1 if node.parent is None else places[id(node.parent)],
                "visits": node.visits,
                "q": round(node.q, 6),
                "value": None if node.value is None else round(node.value, 6),
                "votes": node.votes,
                "finish": node.finish_reason,
                "answer": node.answer,
            }
            rows.append(row if node.step is None else row | node.step.to_json(tokens))
        return {"prompt": self.prompt.to_json(tokens), "nodes": rows}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Tree:
        """Inverse of `to_json`. Raises `LookupError`, `TypeError`, `AttributeError` or `ValueError` if malformed."""
        nodes: list[TreeNode] = []
        for row in line["nodes"]:
            place = row["parent"]
            if not -1 <= place < len(nodes) or (place == -1) != (not nodes):
                raise ValueError("a node whose parent does not come before it")
            parent = nodes[place] if nodes else None
            step = None if parent is None else Step.from_json(row)
            if not math.isfinite(row["q"]):
                raise ValueError("a Q that is not finite")
            node = TreeNode(
                parent, step, row["visits"], row["q"], row["value"], row["votes"], row["finish"], row["answer"]
            )
            if parent is None and node.answer is not None:
                raise ValueError("a root with an answer")
            if parent is not None:
                parent.children.append(node)
            nodes.append(node)
        return cls(Segment.from_json(line["prompt"]), nodes)
