"""Notices: warnings to read before trusting an answer.

``question_too_long`` applies to every model, and ``out_of_time`` to agents: rollouts ended at `search.rollout_seconds`,
which says more about the machine than about the model. The others apply to bundled models only, whose training data and
values are known. ``unknown_wording``: none of their training templates makes the question. ``not_a_puzzle``: the
bundled agents were trained on puzzles, and the question is of another family. ``not_an_agent``: a bundled model that
was not trained to call tools was used with method ``agent``. ``low_value``: the policy's PPM gives the answer less than
`LOW_VALUE`. In the search families the value is uninformative, and there is no ``low_value``: a program that ran to its
end was nearly always right, whatever its value. It checks every move, and the PPM, which reads the policy's
log-probabilities, underrates moves that the policy finds unlikely (counts: docs/solving.md).
"""

from __future__ import annotations

from typing import Literal

from rstar.config import Config
from rstar.search.tree import Node
from rstar.search.value import value_name
from rstar.specs import AGENTS, Bundled, Ppm
from rstar.tiny.generate import families
from rstar.tiny.recognise import recognise_family

Notice = Literal["question_too_long", "out_of_time", "unknown_wording", "not_a_puzzle", "not_an_agent", "low_value"]

_TRAINED = (Bundled(), Bundled("actions"), Bundled("peer"))
"""The bundled models that were trained on all families."""

LOW_VALUE = 0.0
"""The PPM's value ranges from -1 (surely wrong) to 1 (surely right). docs/solving.md: accuracy on either side."""


def notices(config: Config, own_parts: bool, root: Node, question: str, value: float | None) -> tuple[Notice, ...]:
    """The notices of one result.

    Args:
        config: of the run.
        own_parts: the caller supplied the policy or the value, so nothing is known of it.
        root: of the search tree.
        question: the problem's text.
        value: of the chosen answer; None if there is none.
    """
    raised: list[Notice] = []
    if _leaves_no_room(root):
        raised.append("question_too_long")
    if config.policy in _TRAINED and not own_parts:
        family = recognise_family(question)
        if family is None:
            raised.append("unknown_wording")
        checked = family is not None and families()[family].kind == "search"
        has_ppm = config.policy == Bundled() and value_name(config) == Ppm(Bundled())
        if has_ppm and not checked and value is not None and value < LOW_VALUE:
            raised.append("low_value")
    return tuple(raised)


def agent_notices(config: Config, own_policy: bool, question: str, out_of_time: bool) -> tuple[Notice, ...]:
    """The notices of an agent's answer.

    Args:
        config: of the run.
        own_policy: the caller supplied the policy, so nothing is known of it.
        question: the problem's text.
        out_of_time: a rollout ended at its deadline.
    """
    raised: list[Notice] = ["out_of_time"] if out_of_time else []
    if config.policy in AGENTS and not own_policy:
        family = recognise_family(question)
        if family is None:
            raised.append("unknown_wording")
        elif families()[family].kind != "search":
            raised.append("not_a_puzzle")
    elif isinstance(config.policy, Bundled) and not own_policy:
        raised.append("not_an_agent")
    return tuple(raised)


def _leaves_no_room(root: Node) -> bool:
    """Whether the context was full before anything was written."""
    if not root.children:
        return root.finish_reason == "length"
    return all(
        node.finish_reason == "length" and node.step is not None and not node.step.text for node in root.children
    )
