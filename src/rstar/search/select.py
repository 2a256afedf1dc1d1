"""Selection in the tree by PUCT, in which a sample of new steps is a move like any other.

Pure functions of the statistics. The published code expands a node once and then selects among its children by UCT
(arXiv 2501.04519, section 3.2). A child that was not sampled then is out of reach, and a policy that is sure of itself
samples one child. Here every node keeps one more arm: sample new steps. Its prior is the probability of the steps not
seen yet. So a node is widened where the policy is undecided, or where what was sampled looks bad (docs/deviations.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rstar.search.tree import FAILED_VALUE, NOTHING_NEW, Node


def puct(value: float, prior: float, visits: int, parent_visits: int, c: float) -> float:
    """Value plus exploration bonus of an arm: Q + c · P · sqrt(N_parent) / (1 + N)."""
    return value + c * prior * math.sqrt(max(parent_visits, 1)) / (1 + visits)


def select_arm(node: Node, c: float) -> Node | None:
    """The open child to descend to; None to sample new steps here.

    The priors of the children are the policy's probabilities of their steps. The prior of new steps is the probability
    of all that are unseen, but at most that of an average arm: where steps are long, nearly everything is unseen. An
    unvisited child, and a new step, count as valuable as their parent.
    """
    children = node.children
    rest = node.unseen
    if not children:
        return None
    widening = min(rest, 1 / (len(children) + 1))
    shares = node.shares
    scale = (1 - widening) / sum(shares)
    best, most = None, -math.inf
    if rest >= NOTHING_NEW:
        most = puct(node.q, widening, node.expansions, node.visits, c)
    for child, share in zip(children, shares, strict=True):
        if not child.closed:
            value = child.q if child.visits else node.q
            score = puct(value, share * scale, child.visits, node.visits, c)
            if score > most:
                best, most = child, score
    return best


def descend(nodes: Sequence[Node], c: float) -> list[Node]:
    """Where descents from `nodes` that run at the same time sample new steps; those from closed nodes end.

    Each descent counts as a failure until all have chosen (a virtual loss), so that the next ones look elsewhere.
    """
    places = []
    for node in nodes:
        if not node.closed:
            while (arm := select_arm(node, c)) is not None:
                node = arm
            places.append(node)
            _count_descent(node, 1)
    for place in places:
        _count_descent(place, -1)
    return places


def _count_descent(place: Node, times: int) -> None:
    place.expansions += times
    for node in (place, *place.ancestors()):
        node.visits += times
        node.total += times * FAILED_VALUE
