"""Notices: what a reader should know of a result before trusting its answer.

``question_too_long`` concerns every model. The other two are about the bundled model only, for which alone it is known
what it was trained on and what its values mean: ``unknown_wording``, a question that none of its training templates
makes, and ``low_value``, an answer to which its PPM gives less than `LOW_VALUE`. In the families `CHECKED` the value
says nothing, and ``low_value`` is not given.
"""

from __future__ import annotations

from typing import Literal

from rstar.config import Config
from rstar.search.tree import Node
from rstar.search.value import value_name
from rstar.specs import Bundled, Ppm
from rstar.tiny.wordings import wording_family

Notice = Literal["question_too_long", "unknown_wording", "low_value"]

LOW_VALUE = 0.0
"""The PPM's value runs from -1 (sure to be wrong) to 1 (sure to be right). docs/solving.md has the share of right
answers on either side."""

CHECKED = frozenset({"latin", "sudoku4"})
"""Search families in which the value says nothing: a program that ran to its end was right, whatever its value. It
copies the grid in one piece and checks every move; the PPM, which reads the policy's log-probabilities, undervalues
moves that the policy finds unlikely. The programs of the other search families check their moves, too, but the bundled
policy often copies the problem wrongly there, and most answers of low value are wrong (counts: docs/solving.md)."""


def notices(config: Config, own_parts: bool, root: Node, question: str, value: float | None) -> tuple[Notice, ...]:
    """The notices of one result.

    Args:
        config: of the run.
        own_parts: the caller brought a policy or a value of their own, of which nothing is known.
        root: of the search tree.
        question: what was asked.
        value: of the chosen answer, None without one.
    """
    found: list[Notice] = []
    if root.ending == "length" and not root.children:
        found.append("question_too_long")
    if config.policy == Bundled() and not own_parts:
        family = wording_family(question)
        if family is None:
            found.append("unknown_wording")
        if family not in CHECKED and value_name(config) == Ppm(Bundled()) and value is not None and value < LOW_VALUE:
            found.append("low_value")
    return tuple(found)
