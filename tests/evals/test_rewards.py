"""Rewards from gold answers."""

import pytest

from rstar.answers import AnswerKey
from rstar.evals.rewards import RIGHT, WRONG, verified
from rstar.problems import Problem


@pytest.mark.parametrize(
    ("answer", "reward"),
    [("1/2", RIGHT), ("0.5", RIGHT), (r"\frac{1}{2}", RIGHT), ("2", WRONG), ("", WRONG)],
)
def test_equivalent_answers_are_right(answer: str, reward: float) -> None:
    assert verified({"p": AnswerKey("1/2")})(Problem("p", "Half of one?"), answer) == reward


def test_each_problem_has_its_own_key() -> None:
    reward = verified({"one": AnswerKey("1"), "two": AnswerKey("2")})
    assert [reward(Problem(name, "?"), "2") for name in ("one", "two")] == [WRONG, RIGHT]
    with pytest.raises(KeyError):
        reward(Problem("three", "?"), "3")
