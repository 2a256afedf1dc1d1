"""What a completion is in the code-step format."""

import pytest

from rstar.models.engine import Completion, StopReason
from rstar.prompts import code_steps as prompts
from rstar.search.code_steps import CODE_STEPS
from rstar.search.format import Reading
from tests.search.scripted import ANSWER, CODE, STEP


@pytest.mark.parametrize(
    ("text", "reason", "stop", "reading"),
    [
        (f"# one\nx = 1\n{STEP}", "stop", STEP, Reading(code="# one\nx = 1\n")),
        (f"\nprint(x)\n{CODE}", "stop", CODE, Reading(code="print(x)\n", complete=True)),
        (f"<code>\nx = 1\n{STEP}", "stop", STEP, Reading(code="x = 1\n")),
        (f"x = 1\n{STEP}\nprint(x)\n{CODE}", "stop", CODE, Reading(code="x = 1\n\nprint(x)\n", complete=True)),
        (f"\n{STEP}", "stop", STEP, Reading(failure="no_step")),
        (CODE, "stop", CODE, Reading(failure="no_step")),
        (f"\\boxed{{7}}{ANSWER}", "stop", ANSWER, Reading(answer="7")),
        (f"It is \\boxed{{\\frac{{1}}{{2}}}}.{ANSWER}", "stop", ANSWER, Reading(answer="\\frac{1}{2}")),
        (f"seven{ANSWER}", "stop", ANSWER, Reading(failure="no_answer")),
        ("x = 1\n", "eos", None, Reading(failure="no_step")),
        ("\\boxed{7}", "eos", None, Reading(failure="no_step")),
        ("", "eos", None, Reading(failure="no_step")),
        ("x = 1\n" * 50, "length", None, Reading(failure="length")),
    ],
)
def test_what_a_completion_is(text: str, reason: StopReason, stop: str | None, reading: Reading) -> None:
    assert CODE_STEPS.read(Completion(text, (), (), reason, stop)) == reading


def test_where_steps_and_programs_end() -> None:
    assert CODE_STEPS.stops(whole=False) == (STEP, CODE, ANSWER)
    assert CODE_STEPS.stops(whole=True) == (CODE, ANSWER)
    assert CODE_STEPS.answer_stop == ANSWER


def test_what_the_policy_sees() -> None:
    assert CODE_STEPS.prompt("How much?", 2) == prompts.prompt("How much?", shots=2)
    assert CODE_STEPS.prompt("How much?", 0).endswith("<code>\n")
    assert CODE_STEPS.shown("\none\ntwo\n\n") == "\n<output>one\ntwo<end_of_output>\n<answer>"


def test_the_answer_in_the_last_step() -> None:
    assert CODE_STEPS.answer(f"\\boxed{{7}}{ANSWER}") == "7"
    assert CODE_STEPS.answer(f"7{ANSWER}") is None
