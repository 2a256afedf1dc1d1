"""How a child is chosen: UCT (arXiv 2501.04519, section 3.2; c = 2 in the published code).

Pure functions of the statistics. Closed children (terminal, failed or exhausted) are never chosen. A child without a
visit comes before all visited ones; among equals the one that more samples agreed on, then the more probable one.
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
    """The open child of highest UCT, or None when there is none."""
    best: Node | None = None
    best_key = (-math.inf, 0, -math.inf)
    for child in node.children:
        if child.closed:
            continue
        key = (uct(child.total, child.visits, node.visits, c), child.votes, child.prior)
        if best is None or key > best_key:
            best, best_key = child, key
    return best
