from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.config import ActionName
from rstar.models.engine import Completion, StopReason
from rstar.prompts.domains import FILES, open_domain
from rstar.search.actions import (
    ACTIONS,
    CODE,
    LOOSE_CODE,
    ROOT,
    TEXT,
    Style,
    allowed,
    asked,
    is_final_question,
    is_heading,
    opening,
    read,
    style_of,
)
from rstar.search.format import Reading

NAMES = get_args(ActionName)


def completion(text: str, reason: StopReason = "stop", stop: str | None = "\n") -> Completion:
    return Completion(text, (), (), reason, stop if reason == "stop" else None)


def test_rules_of_succession() -> None:
    """The table of arXiv 2408.06195, section 3.2."""
    follow = {last: {action.name for action in allowed(last, NAMES)} for last in (ROOT, *NAMES)}
    assert follow == {
        ROOT: {"step", "finish", "question", "rephrase"},
        "step": {"step", "finish"},
        "finish": set(),
        "question": {"step", "finish", "question", "reanswer"},
        "reanswer": {"step", "finish", "question"},
        "rephrase": {"step", "finish", "question"},
    }


@given(st.sets(st.sampled_from(NAMES)), st.sampled_from((ROOT, *NAMES)))
def test_actions_that_are_off_never_follow(names: set[ActionName], last: str) -> None:
    assert {action.name for action in allowed(last, sorted(names))} == names & {
        action.name for action in allowed(last, NAMES)
    }


@pytest.mark.parametrize(
    "text",
    [
        " **Find the total**",
        " Calculate the total cost\n",
        " Calculate the cost of 3 apples",
        " Now find the total.",
        " ### Set-up",
        "Identifying the knowns:",
        "Set-up:\n\n",
        "Total number of rolls",
        "",
        "**Final Answer:**\n",
        "So the answer is:",
    ],
)
def test_headings(text: str) -> None:
    assert is_heading(text)


@pytest.mark.parametrize(
    "text",
    [
        " 4 * 18 = 72.",
        " Penguins are birds",
        " Find the total: 4 * 18 = 72",
        "**Find the total**\n72 in all.",
        "**Answer:** 15",
        "Multiply 4 by 18 to get 72",
        "15 rolls left",
        "Consider all the rolls that the baker makes on one day and sells to the people of the town then",
    ],
)
def test_lines_that_say_something_are_no_headings(text: str) -> None:
    assert not is_heading(text)


def test_every_table_knows_every_action() -> None:
    assert set(ACTIONS) == set(FILES) == set(TEXT.openings) == set(CODE.stops) == set(NAMES)


@pytest.mark.parametrize(
    ("style", "action", "text", "expected"),
    [
        (TEXT, "step", "", "Step 1:"),
        (TEXT, "finish", "Step 1: a\nStep 2: b\n", "Step 3:"),
        (TEXT, "step", "Conditions: 1. a 2. b", "\nStep 1:"),
        (TEXT, "question", "Question 1: a\nAnswer 1: b\nStep 1: c\n", "Question 2:"),
        (TEXT, "answer", "Question 1: a\nAnswer 1: b\nQuestion 2: c\n", "Answer 2:"),
        (TEXT, "reanswer", "Question 1: a\n", "Answer 1: Let's think step by step."),
        (CODE, "step", "a = 1\n<end_of_step>", ""),
        (CODE, "question", "", "# question:"),
        (CODE, "question", "a = 1\n<end_of_step>", "\n# question:"),
        (CODE, "answer", "# question: how much?\n", ""),
    ],
)
def test_openings(style: Style, action: str, text: str, expected: str) -> None:
    assert opening(style, action, text) == expected


@pytest.mark.parametrize(
    ("action", "text", "final", "expected"),
    [
        ("step", "Half of 8 is 4.\n", False, Reading()),
        ("step", "So 4 are left. The answer is 4.\n", False, Reading(answer="4")),
        ("step", "Thus the result is \\boxed{4}.\n", False, Reading(answer="4")),
        ("step", "This answers nothing yet.\n", False, Reading()),
        ("step", " \n", False, Reading(failure="no_step")),
        ("finish", "3 + 4 = 7.\nStep 3: The answer is **7**.", False, Reading(answer="7")),
        ("finish", "and so on and on", False, Reading(failure="no_answer")),
        ("answer", "There are 72 rolls. The answer is 72.\n", False, Reading()),
        ("answer", "There are 72 rolls. The answer is 72.\n", True, Reading(answer="72")),
        ("answer", "nobody knows\n", True, Reading(failure="no_answer")),
        ("question", "How many?\n", False, Reading()),
    ],
)
def test_reading_text(action: str, text: str, final: bool, expected: Reading) -> None:
    assert read(TEXT, action, "", completion(text), final) == expected


def test_a_text_that_was_cut_off_is_no_step() -> None:
    assert read(TEXT, "finish", "", completion("The answer is 1", "length")) == Reading(failure="length")


def test_another_problem_after_the_solution_is_ignored() -> None:
    text = "The answer is 7.\n\n<|user|>:\nNext: the answer is 9."
    assert read(TEXT, "finish", "", completion(text)) == Reading(answer="7")


def test_reading_code() -> None:
    """Code runs with what the step holds already: the end of a line of comment, or code before a cut."""
    written = completion(" 4 trays\nn = 4\n<end_of_step>", stop="<end_of_step>")
    assert read(CODE, "rephrase", "# given:", written) == Reading(code="# given: 4 trays\nn = 4\n")
    ended = completion("2)\n<end_of_code>", stop="<end_of_code>")
    assert read(CODE, "finish", "print(1 + ", ended) == Reading(code="print(1 + 2)\n", complete=True)


def test_only_models_that_are_shown_the_format_are_read_loosely() -> None:
    assert style_of(open_domain("programs"), 0) is CODE
    assert style_of(open_domain("programs"), 2) is LOOSE_CODE
    assert style_of(open_domain("competition"), 2) == style_of(open_domain("competition"), 0) == TEXT
    assert style_of(open_domain("yes-no"), 2).yes_no
    written = completion("```python\nn = 4\n```\n<end_of_step>", stop="<end_of_step>")
    assert read(LOOSE_CODE, "step", "# question: how many?\n", written) == Reading(
        code="# question: how many?\nn = 4\n"
    )


@pytest.mark.parametrize("marker", ["<end_of_answer>", "<|user|>:"])
def test_a_marker_is_no_answer(marker: str) -> None:
    assert read(TEXT, "finish", "", completion(f"The answer is {marker}")) == Reading(failure="no_answer")
    assert read(TEXT, "step", "", completion(f"The answer is {marker}\n")) == Reading()


def test_final_questions() -> None:
    question = "How many rolls are left?"
    assert is_final_question("Now we can answer the question: How many rolls are left?", question)
    assert is_final_question("how many rolls are LEFT", question)
    assert not is_final_question("How many rolls does the baker make?", question)
    assert asked(" Question 2: How many?\n") == "How many?"
    assert asked("# question: How many?\n") == "How many?"


def test_a_thought_alone_is_no_step() -> None:
    assert read(TEXT, "step", "", completion("<think>Maybe 15?", "eos")).failure == "no_step"
    assert read(TEXT, "step", "", completion("<think>Maybe 15?</think> 15 rolls.\n")) == Reading()
