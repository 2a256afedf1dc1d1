"""Selection by UCT (arXiv 2501.04519, section 3.2; c = 2 in the published code), and where to widen a tree.

Pure functions of the statistics. Closed children (terminal, failed or exhausted) are never selected. Unvisited children
come before visited ones; ties go to the child with more votes, then to the more probable one.
"""

from __future__ import annotations

import math

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
        key=lambda child: (uct(child.total, child.visits, node.visits, c), child.votes, child.prior),
        default=None,
    )


def unexplored(root: Node) -> Node:
    """The node where another sample is most likely to find something new for its cost.

    The probability of reaching a node is the share of samples that took each step, multiplied. The probability of an
    unseen sample there is estimated by the share of samples seen only once (Good–Turing, plus half a sample so that no
    node is ruled out). A sample costs the mean length of earlier ones, in tokens if the engine knows them. Nodes where
    the solution ended do not count. Returns the root if nothing is known.
    """
    best, most = root, 0.0
    stack = [(root, 1.0)]
    while stack:
        node, reached = stack.pop()
        if not node.children:
            continue
        samples = sum([child.votes for child in node.children])
        once = sum([child.votes == 1 for child in node.children])
        length = sum([child.votes * child.length for child in node.children])
        if (gain := reached * (once + 0.5) / (samples + 1) * samples / (length + 1)) > most:
            best, most = node, gain
        stack += [(child, reached * child.votes / samples) for child in node.children if child.finish_reason is None]
    return best
