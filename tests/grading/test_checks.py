"""Verifiers of answers that are not unique."""

import pytest

from rstar.answers import AnswerKey
from rstar.errors import DataError
from rstar.grading import verify

GAME = {"kind": "expression", "numbers": [4, 7, 8, 8], "target": 24}


def _outcome(prediction, check=GAME):
    return verify(AnswerKey("(7 - 8 / 8) * 4", check), prediction).outcome


@pytest.mark.parametrize(
    "prediction",
    [
        "(7 - 8 / 8) * 4",
        "4*(7-8/8) = 24",
        r"\boxed{4 \times \left(7 - 8 \div 8\right)}",
        "The answer is (7 - 8/8)×4.",
        "[7 - (8 / 8)] · 4",
    ],
)
def test_accepted(prediction):
    assert _outcome(prediction) == "correct"


@pytest.mark.parametrize(
    "prediction",
    [
        "24",
        "4 * 6",
        "(7 - 8 / 8) * 4 + 0",
        "4 * 7 - 8 / 8",  # uses the numbers, makes 27
        "4 * 7 - 8 / (8 - 8)",
        "7 * 8 / (4 - 4)",
        "(7 - 8 / 8) * 4 = 25",
    ],
)
def test_wrong(prediction):
    assert _outcome(prediction) == "wrong"


@pytest.mark.parametrize(
    "prediction",
    [
        None,
        "no idea",
        "-(-7 + 8 / 8) * 4",
        "4 ** 7 - 8 - 8",
        "8 // 8 * 4 * 7",
        "(7 - 8 / 8 * 4",
        "__import__('os')",
        "4_7 + 8 - 8",
        "7 8 8 4",
        "(" * 5_000 + "4" + ")" * 5_000,
        "(" * 900 + "4" + ")" * 900,
        "9" * 4_000,
    ],
)
def test_not_an_expression(prediction):
    assert _outcome(prediction) == "unparseable"


def test_numbers_count_as_often_as_they_are_given():
    check = {"kind": "expression", "numbers": [2, 2, 3], "target": 7}
    assert _outcome("2 * 2 + 3", check) == "correct"
    assert _outcome("2 + 2 + 3", check) == "correct"
    assert _outcome("2 * 3 + 1", check) == "wrong"
    assert _outcome("3 + 2 * 2 + 2 - 2", check) == "wrong"


def test_values_are_exact():
    check = {"kind": "expression", "numbers": [3, 3, 7, 7], "target": 24}
    assert _outcome("7 * (3 + 3 / 7)", check) == "correct"


def test_without_a_check_the_answer_decides():
    assert verify(AnswerKey("1/2"), "0.5").correct
    assert not verify(AnswerKey("1/2"), "0.4").correct


@pytest.mark.parametrize(
    "check",
    [
        {"kind": "poem"},
        {},
        {"kind": "expression", "target": 24},
        {"kind": "expression", "numbers": [1, "2"], "target": 24},
        {"kind": "expression", "numbers": [1, True], "target": 24},
        {"kind": "expression", "numbers": [1, 2], "target": None},
    ],
)
def test_a_broken_check_is_an_error_of_the_data(check):
    with pytest.raises(DataError):
        _outcome("1", check)


WORKUP = {"kind": "workup", "diagnosis": "Varnic fever", "topics": ["travel"], "tests": ["opal stain"]}


@pytest.mark.parametrize("prediction", ["Varnic fever", "\\boxed{\\text{varnic fever}}", "The answer is Varnic Fever."])
def test_a_condition_is_known_by_its_name(prediction):
    assert _outcome(prediction, WORKUP) == "correct"


@pytest.mark.parametrize(
    ("prediction", "outcome"), [("Varnic ague", "wrong"), ("fever", "wrong"), (None, "unparseable")]
)
def test_another_name_is_another_condition(prediction, outcome):
    assert _outcome(prediction, WORKUP) == outcome


def test_a_task_of_another_library_is_not_graded_here():
    assert _outcome("4", {"kind": "verifiers", "name": "sums", "task": {"prompt": "2 + 2?"}}) == "error"
    with pytest.raises(DataError, match="needs 'name', a text, and 'task', an object"):
        _outcome("4", {"kind": "verifiers", "name": "sums"})
