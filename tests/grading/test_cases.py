"""Several hundred pairs of answers, right and wrong, as people and models write them."""

from pathlib import Path

import pytest

from rstar.grading import grade

FOLDER = Path(__file__).parent


def pairs(name: str) -> list:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    found = [line.replace("␤", "\n").split(" ||| ") for line in lines if not line.startswith("# ")]
    assert all(len(pair) == 2 for pair in found)
    return [pytest.param(*pair, id=" as ".join(pair)) for pair in found]


@pytest.mark.parametrize(("gold", "prediction"), pairs("equal.txt"))
def test_right(gold, prediction):
    assert grade(gold, prediction).outcome == "correct"


@pytest.mark.parametrize(("gold", "prediction"), pairs("unequal.txt"))
def test_wrong(gold, prediction):
    assert grade(gold, prediction).outcome in ("wrong", "unparseable")
    assert grade(prediction, gold).outcome in ("wrong", "unparseable")
