"""Search trees whose ends were verified with gold answers: the source of training data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rstar.errors import DataError, ResumeError
from rstar.evals.rewards import RIGHT, WRONG
from rstar.jsonl import read_lines
from rstar.runs import CONFIG, RESULTS, TREES, read_config
from rstar.trajectories import Trajectory
from rstar.trees import Tree, TreeNode

VERIFIED_ENDS = {"ends": "verified"}
"""Identity keys of a run whose search was told by gold answers how trajectories ended. Only such runs give training
data, and no other run can resume their folders."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A solution that ended with an answer.

    Attributes:
        nodes: first to last.
        trajectory: the same solution as a record.
        text: of the trajectory.
        correct: whether the answer is right.
        mean_q: mean Q of the nodes.
    """

    nodes: list[TreeNode]
    trajectory: Trajectory
    text: str
    correct: bool
    mean_q: float

    @property
    def ran(self) -> bool:
        """Whether every step's code ran without an error."""
        return all(step.ran for step in self.trajectory.steps)


@dataclass
class VerifiedTree:
    """The tree of one problem, with verified ends.

    Attributes:
        id, question: of the problem.
        tree: its ends have the value `RIGHT` or `WRONG`.
        right, wrong: number of solutions at or below a node with a correct, with a wrong answer.
        failed: number of samples at or below a node that ended without an answer.
        open: number of nodes at or below a node from which nothing was sampled yet.

    Raises:
        ValueError: an end has another value.
    """

    id: str
    question: str
    tree: Tree
    right: dict[TreeNode, int] = field(init=False)
    wrong: dict[TreeNode, int] = field(init=False)
    failed: dict[TreeNode, int] = field(init=False)
    open: dict[TreeNode, int] = field(init=False)

    def __post_init__(self) -> None:
        self.right, self.wrong, self.failed, self.open = (dict.fromkeys(self.tree.nodes, 0) for _ in range(4))
        for node in reversed(self.tree.nodes):  # children come after their parents
            if node.answer is not None:
                if node.value not in (RIGHT, WRONG):
                    raise ValueError(f"an end of value {node.value!r}")
                self.right[node] += node.value == RIGHT
                self.wrong[node] += node.value == WRONG
            elif node.finish_reason is not None:
                self.failed[node] += node.votes
            elif not node.children:
                self.open[node] += 1
            if node.parent is not None:
                for counts in (self.right, self.wrong, self.failed, self.open):
                    counts[node.parent] += counts[node]

    def is_dead_end(self, node: TreeNode, failures: int) -> bool:
        """Whether all samples below an unfinished node failed, and at least that many."""
        others = self.right[node] + self.wrong[node] + self.open[node]
        return node.finish_reason is None and not others and self.failed[node] >= failures

    @cached_property
    def solved(self) -> list[Solved]:
        """All solutions that ended with an answer, in tree order."""
        found = []
        for end, trajectory in self.tree.ends():
            nodes = end.path()
            mean_q = sum([node.q for node in nodes]) / len(nodes)
            found.append(Solved(nodes, trajectory, trajectory.text, end.value == RIGHT, mean_q))
        return found


def read_trees(folder: Path) -> Iterator[VerifiedTree]:
    """Yield the trees of a run folder, one at a time: memory does not grow with their number.

    A last tree without a result, left by an interruption, is skipped.

    Raises:
        DataError: the trees are missing, unverified or damaged, or do not match the folder's results.
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
            raise DataError(f"{trees}: the tree of problem {name!r} is not in the position of its result")
        try:
            question = result["question"]
            question.encode()  # raises for a lone surrogate, which cannot be written
            yield VerifiedTree(name, question, Tree.from_json(line))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise DataError(f"{trees}: the tree of problem {name!r} is damaged: {error!r}") from error
        line = next(lines, None)
    if line is not None and next(lines, None) is not None:
        raise DataError(f"{trees}: problem {line['id']!r} and others after it have no result")


def check_verified(folder: Path) -> None:
    """Raise `DataError` for a folder without trees with verified ends."""
    for name in (CONFIG, TREES, RESULTS):
        if not (folder / name).exists():
            raise DataError(f"{folder}: {name} is missing")
    if not is_verified(folder):
        raise DataError(f"{folder}: the ends of its trees were not verified; use a run of `rstar evolve search`")


def is_verified(folder: Path) -> bool:
    """Whether the ends of a run's trees were verified with gold answers. Raises `DataError` if there is no run."""
    try:
        config = read_config(folder)
    except ResumeError as error:
        raise DataError(str(error)) from error
    if config is None:
        raise DataError(f"{folder}: {CONFIG} is missing")
    return VERIFIED_ENDS.items() <= dict(config["identity"]).items()
