"""Which results of the bundled model come with a notice, and that other models' come with none."""

from random import Random
from typing import Any

import pytest

from rstar.config import Config
from rstar.models.engine import Context
from rstar.search.notices import agent_notices, notices
from rstar.search.tree import Node
from rstar.tiny.generate import families

KNOWN, UNKNOWN = "Solve for x: 7x + 5 = 61.", "1+1"
TINY, FAKE = Config(value="ppm:tiny"), Config(policy="fake:steps")
ACTIONS = Config(policy="tiny:actions", search={"method": "mutual"})
BY_SHARE = Config(search={"method": "sample"})


def root(finish_reason: Any = None) -> Node:
    node = Node(None, None, Context(""), None)
    node.finish_reason = finish_reason
    return node


@pytest.mark.parametrize(
    ("config", "own", "finish_reason", "question", "value", "expected"),
    [
        (TINY, False, None, KNOWN, 0.9, ()),
        (TINY, False, None, KNOWN, -0.01, ("low_value",)),
        (TINY, False, None, KNOWN, None, ()),
        (TINY, False, None, UNKNOWN, 0.9, ("unknown_wording",)),
        (TINY, False, None, UNKNOWN, -0.9, ("unknown_wording", "low_value")),
        (TINY, False, "length", UNKNOWN, None, ("question_too_long", "unknown_wording")),
        (BY_SHARE, False, None, KNOWN, -0.9, ()),
        (TINY, True, None, UNKNOWN, -0.9, ()),
        (ACTIONS, False, None, UNKNOWN, None, ("unknown_wording",)),
        (ACTIONS, False, None, KNOWN, None, ()),
        (Config(policy="tiny:actions", value="ppm:tiny"), False, None, KNOWN, -0.9, ()),
        (ACTIONS, True, None, UNKNOWN, None, ()),
        (FAKE, False, None, UNKNOWN, -0.9, ()),
        (FAKE, False, "length", UNKNOWN, None, ("question_too_long",)),
    ],
)
def test_notices(
    config: Config, own: bool, finish_reason: str | None, question: str, value: float | None, expected: tuple[str, ...]
) -> None:
    assert notices(config, own, root(finish_reason), question, value) == expected


@pytest.mark.parametrize("name", ["latin", "game24", "registers", "shopping", "divisors"])
def test_low_values_are_told_where_they_mean_something(name: str) -> None:
    """Not in the families whose programs are right when they run to their end; in all wordings of a family alike."""
    for seed in range(5):
        question = families()[name].draw(Random(seed), 1, "numbers").question
        assert notices(TINY, False, root(), question, -0.99) == (
            () if families()[name].kind == "search" else ("low_value",)
        )
        assert notices(TINY, False, root(), question, 0.5) == ()


@pytest.mark.parametrize(
    ("own", "question", "late", "expected"),
    [
        (False, "Make 24 from 3, 3, 8 and 8.", False, ("unknown_wording",)),
        (False, KNOWN, False, ("not_a_puzzle",)),
        (False, KNOWN, True, ("out_of_time", "not_a_puzzle")),
        (True, KNOWN, False, ()),
        (True, UNKNOWN, True, ("out_of_time",)),
        (False, families()["game24"].draw(Random(1), 1, "numbers").question, False, ()),
    ],
)
def test_a_bundled_agent_knows_puzzles_only(own: bool, question: str, late: bool, expected: tuple[str, ...]) -> None:
    config = Config(search={"method": "agent"})
    assert agent_notices(config, own, question, late) == expected
    other = Config(policy="fake:steps", search={"method": "agent"})
    assert agent_notices(other, own, question, late) == expected[:late]


@pytest.mark.parametrize("name", ["tiny", "tiny:peer"])
def test_a_bundled_model_that_is_no_agent(name: str) -> None:
    config = Config(policy=name, search={"method": "agent"})
    assert agent_notices(config, False, KNOWN, False) == ("not_an_agent",)
    assert agent_notices(config, True, KNOWN, False) == ()
