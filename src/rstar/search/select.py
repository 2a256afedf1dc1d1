"""Selection by UCT (arXiv 2501.04519, section 3.2; c = 2 in the published code), and where to widen a tree.

Pure functions of the statistics. Closed children (terminal, failed or exhausted) are never selected. Unvisited children
come before visited ones; ties go to the more probable child, then to the one with more votes.
"""

from __future__ import annotations

import math

from rstar.config import Schedule
from rstar.search.tree import Node


def uct(total: float, visits: int, parent_visits: int, c: float) -> float:
    """Upper confidence bound of a child: total / N + c · sqrt(ln N_parent / N); infinite for N = 0."""
    if visits == 0:
        return math.inf
    return total / visits + c * math.sqrt(math.log(max(parent_visits, 1)) / visits)


def select_child(node: Node, c: float) -> Node | None:
    """The open child of highest UCT; None if there is none."""
    return max(
        (child for child in node.children if not child.closed),
        key=lambda child: (uct(child.total, child.visits, node.visits, c), child.chance or 0.0, child.votes),
        default=None,
    )


def exploration(c: float, schedule: Schedule, done: int, rollouts: int) -> float:
    """The exploration constant of rollout number `done` of `rollouts` (arXiv 2408.06195, published code).

    ``constant``: c. ``linear`` and ``exponential``: from c at the first rollout to c / 10 at the last.
    """
    share = done / max(1, rollouts - 1)
    if schedule == "linear":
        return c * (1 - 0.9 * share)
    return c if schedule == "constant" else float(c * 0.1**share)


def unexplored(root: Node) -> Node:
    """The node where another sample is most likely to find something new for its cost.

    That is the probability that the policy reaches the node, times the probability that a sample there differs from the
    node's children, divided by the mean length of the samples so far, in tokens if the engine knows them. Nodes where
    the solution ended do not count. Returns the root if nothing is known.

    Without log-probabilities, shares of samples estimate both: the probability of a step is the share of samples that
    took it, and that of an unseen one is the share of samples seen only once (Good-Turing, plus half a sample so that
    no node is ruled out).
    """
    best, most = root, 0.0
    stack = [(root, 1.0)]
    while stack:
        node, reached = stack.pop()
        if not node.children:
            continue
        samples = sum([child.votes for child in node.children])
        length = sum([child.votes * child.length for child in node.children])
        unseen, exact = node.unseen, True
        if unseen is None:
            once = sum([child.votes == 1 for child in node.children])
            unseen, exact = (once + 0.5) / (samples + 1), False
        if (gain := reached * unseen * samples / (length + 1)) > most:
            best, most = node, gain
        for child in node.children:
            if child.finish_reason is None:
                taken = child.chance if exact and child.chance is not None else child.votes / samples
                stack.append((child, reached * taken))
    return best
