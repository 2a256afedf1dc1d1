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
