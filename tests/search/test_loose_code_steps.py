"""Programs as models write them that were only shown the format of code steps."""

import pytest

from rstar.models.engine import Completion, StopReason
from rstar.search.code_steps import CODE_STEPS
from rstar.search.format import Reading
from rstar.search.loose_code_steps import LOOSE_CODE_STEPS

STEP, CODE, ANSWER = "<end_of_step>", "<end_of_code>", "<end_of_answer>"


def completion(text: str, stop: str | None) -> Completion:
    reason: StopReason = "eos" if stop is None else "stop"
    return Completion(text + (stop or ""), (), (), reason, stop)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("# add\nx = 3 + 4\n", "# add\nx = 3 + 4\n"),
        ("```python\nx = 7\n", "x = 7\n"),
        ("```python\nx = 7\n```\n", "x = 7\n"),
        ("x = 7\n```\n", "x = 7\n"),
        ("~~~py\nx = 7\n~~~\n", "x = 7\n"),
        ("Sure! Here is the program:\n\n```python\nx = 7\n```\nThis adds them.\n", "x = 7\n"),
        ("# sum\n```python\nx = 7\n```\nHere, the code sets `x`.\n```\n7\n```\n", "# sum\nx = 7\n"),
        ("```python\nx = 7\n```\n这里是说明。\n", "x = 7\n"),
        ("I'll add, and then print.\n\nx = 7\n", "x = 7\n"),
        ("Here is the code\nx = 7\n", "x = 7\n"),
        ("**Step 1:** add\n```\nx = 7\n", "x = 7\n"),
        ("1. Add:\n   ```python\n   x = 7\n   if x:\n       y = 8\n   ```\n", "x = 7\nif x:\n    y = 8\n"),
        ("# given: 3 rolls.\n```python\nX = 1.\n```\n", "# given: 3 rolls.\nX = 1.\n"),
        ("for x in y:\n    Total = x\n", "for x in y:\n    Total = x\n"),
        ("```python\nx = 7\n```\nand\n```python\n", "x = 7\n"),
    ],
)
def test_code_is_found(text: str, code: str) -> None:
    assert LOOSE_CODE_STEPS.read(completion(text, STEP)) == Reading(code=code)
    assert LOOSE_CODE_STEPS.read(completion(text, CODE)) == Reading(code=code, complete=True, shows=True)
    assert LOOSE_CODE_STEPS.read(completion(text, None)) == Reading(code=code, complete=True, shows=True), (
        "its turn ends there"
    )


def test_what_is_no_step() -> None:
    assert LOOSE_CODE_STEPS.read(Completion("x = 7", (), (), "length")) == Reading(failure="length")
    assert LOOSE_CODE_STEPS.read(completion("Sure!\n```python\n```", STEP)) == Reading(failure="no_step")
    assert LOOSE_CODE_STEPS.read(completion("Nobody knows.", ANSWER)) == Reading(failure="no_answer")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{7}", "7"),
        ("The answer is 7.", "7"),
        ("7", "7"),
        ("\n7</answer>", "7"),
        ("The answer is \\boxed{7}. It is not 8.", "7"),
        ("yes", "yes"),
        ("I cannot tell.", None),
        ("", None),
    ],
)
def test_stated_answers_are_read(text: str, answer: str | None) -> None:
    assert LOOSE_CODE_STEPS.answer(text) == answer
    assert LOOSE_CODE_STEPS.answer(text + ANSWER) == answer


def test_trained_models_are_read_strictly() -> None:
    assert CODE_STEPS.answer(f"The answer is 7.{ANSWER}") is None
    assert CODE_STEPS.read(completion("print(7)", None)) == Reading(failure="no_step")
