"""Statements of final answers."""

import pytest

from rstar.search.stated import before_statement, stated_answer, states_answer


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 7.",
        "**Answer:** 7",
        "Final answer: 7",
        "The final answers are 7 and 8.",
        "So the answer to the question is 7.",
        "My answer = 7",
        "The correct answer, therefore, is 7.",
        "#### 7",
        "So \\boxed{7}.",
        "$$\\text{Answer: } 7$$",
        "答案是7。",
    ],
)
def test_statements(text: str) -> None:
    assert states_answer(text)
    assert before_statement(f"I add.\n{text}") >= len("I add.\n")
    assert before_statement(f"I add.\n{text}") < len(f"I add.\n{text}")


@pytest.mark.parametrize(
    "text",
    [
        "A student gives 15 answers; 3 of the answers are wrong.",
        "To answer the question, the first step is to count the trays: there are 6 trays.",
        "The answer to part (a) is 6.",
        "She answers 15 questions.",
    ],
)
def test_no_statements(text: str) -> None:
    assert not states_answer(text)
    assert before_statement(text) == len(text)


def test_a_number_or_a_yes_counts_without_a_statement() -> None:
    assert stated_answer("Nora has 7 rolls left.") == "7"
    assert stated_answer("I cannot tell.") is None
    assert stated_answer("") is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("No, because a whale is a mammal.", "No"),
        ("Yes, because it has 3 legs and 2 arms.", "Yes"),
        ("**No.** A spider has 8 legs.", "No"),
        ("Yes — the tower is 330 m tall.\n\nThe clock is 96 m tall.", "Yes"),
        ("No, the ship sank in 1912.", "No"),
        ("<think>5 or 6?</think>\nFalse, since 7 is prime.", "False"),
        ("No. The answer is yes.", "yes"),
        ("Yes, so \\boxed{7}.", "7"),
        ("No problem: 7 rolls are left.", "7"),
        ("Notes cost 3 dollars.", "3 dollars"),
    ],
)
def test_a_yes_or_no_at_the_beginning_counts(text: str, answer: str) -> None:
    assert stated_answer(text) == answer


def test_what_is_taken_back_does_not_count() -> None:
    assert stated_answer("Yes. Wait, whales are mammals.") is None


@pytest.mark.parametrize(
    "text",
    [
        "Please provide 2 more facts.",
        "I'm sorry, I can't help with that. Could you provide 2 more facts?",
        "I do not have enough information; there are 2 unknowns.",
        "I need 2 more facts.",
        "Let's set up x = 6.",
        "Step 2: We need 3 equations.",
        "First I count. I will use 2 variables.\nTo solve it, we use 3 equations.",
        "Step 1: Find the price of 3 pens.",
    ],
)
def test_refusals_and_plans_are_no_answers(text: str) -> None:
    assert stated_answer(text) is None


def test_the_label_of_a_step_is_no_part_of_the_answer() -> None:
    assert stated_answer("Step 1: x = 6.") == "x = 6."
