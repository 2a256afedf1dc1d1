"""Statements of final answers."""

import pytest

from rstar.search.stated import before_statement, printed_answer, stated_answer, states_answer


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
        ("**No.** A spider has 8 legs.", "No"),
        ("Yes — the tower is 330 m tall.\n\nThe clock is 96 m tall.", "Yes"),
        ("No, the ship sank in 1912.", "No"),
        ("Step 2: Yes, 3 is less than 7.", "Yes"),
        ("1876 is after 1827, so no.", "no"),
        ("So yes, it could.", "yes"),
        ("They could not meet.\n\nNo", "No"),
        ("Yes it is.", "Yes"),
        ("The answer is most likely no.", "no"),
        ("The answer is no (they could not meet).", "no"),
        ("No. The answer is yes.", "yes"),
        ("None of the 3 is.", None),
    ],
)
def test_answers_to_questions_for_a_yes_or_no(text: str, answer: str | None) -> None:
    assert stated_answer(text, yes_no=True) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("No, because a whale is a mammal.", "No"),
        ("Yes, because it has 3 legs and 2 arms.", "Yes"),
        ("**No.** Spiders have more legs.", "No"),
        ("Yes, that's correct! There are 44 eggs left.", "44 eggs left"),
        ("True, so there are 44 eggs left.", "44 eggs left"),
        ("<think>5 or 6?</think>\nFalse, since 7 is prime.", "False"),
        ("No. The answer is yes.", "yes"),
        ("Yes, so \\boxed{7}.", "7"),
        ("No problem: 7 rolls are left.", "7"),
        ("No. of eggs left: 44", "No. of eggs left: 44"),
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
        "Now we subtract the 57 rolls that were sold.",
        "Here's how to solve the problem in Python 3:",
        "How many rolls are in each of the 4 trays?",
        "The final answer is obtained by subtracting 5 from 7.",
        "The answer is unknown.",
        "The answer is as follows:",
        "The answer is not 144, because 100 are sold.",
        "So the answer is \\boxed{...}",
        "No, the code has an error. I will fix it.",
        "Yes, we can solve this with Python:",
        "False - I need to recheck the computation.",
        "John spends $240 in 4 weeks.",
        "Step 3: **Final Answer:**",
        "We check that the answer is correct.",
        "The answer is the number of rolls minus those sold.",
        "The final answer should be a whole number.",
        "Since the answer must be in dollars, we convert.",
        "Identify what the answer is asking for.",
        "The answer is of the form m/n.",
        "The result 72 cannot be right, because 57 of the rolls were sold.",
        '{"name": "python", "parameters": {"code": "print(15)"}}',
    ],
)
def test_refusals_and_plans_are_no_answers(text: str) -> None:
    assert stated_answer(text) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("There are **15** rolls left.\n\nLet me know if you have any questions!", "15 rolls left"),
        ("So 15 rolls are left.\nIs there anything else you'd like to know?", "15"),
        ("So 15 rolls are left. Do you want me to explain a step?", "15"),
        ("### Final Answer\n15", "15"),
        ("The answer is even.", "even"),
        ("The answer is in the morning.", "in the morning"),
        ("Therefore, the statement is false.", "false"),
        ("It is true.", "true"),
    ],
)
def test_what_surrounds_an_answer(text: str, answer: str) -> None:
    assert stated_answer(text) == answer


def test_the_label_of_a_step_is_no_part_of_the_answer() -> None:
    assert stated_answer("Step 1: x = 6.") == "x = 6."


@pytest.mark.parametrize(
    "text",
    [
        "B",
        "(B)",
        "**B**",
        "The correct option is (B).",
        "Option B is correct.",
        "I choose (B).",
        "The best answer is B.",
    ],
)
def test_options(text: str) -> None:
    answer = stated_answer(text)
    assert answer is not None
    assert answer.strip("()") == "B"


@pytest.mark.parametrize(
    "text",
    [
        "So, 15 rolls are left after selling 57 rolls.",
        "The output shows that 15 rolls are left out of the 72.",
        "There are **15** rolls left after selling 57 of the 72 rolls.",
        "15 rolls are left (72 - 57).",
        "Out of 72 rolls, 15 are left.",
        "After selling 57 rolls, the baker has 15 rolls left.",
    ],
)
def test_what_is_left_is_the_answer(text: str) -> None:
    assert stated_answer(text) == "15"


def test_the_number_that_the_code_printed() -> None:
    assert printed_answer("15\n", "Nora sells 57 rolls for $15 in all.") == "15"
    assert printed_answer("7\n15\n", "Nora sells 57 rolls for $15.00.") is None
    assert printed_answer("1500\n", "She pays $1,500 for 3 of them.") == "1500"
    for stdout, text in (
        ("15", "I sell 57."),
        ("15\n", "It is 151 or 2."),
        ("", "It is 15 or 2."),
        ("[15]", "Of 15, 2."),
        ("15\n", "The output is 15. Now I will subtract 2 from 15."),
        ("15\n", "Is 15 the number of the 57 rolls?"),
        ("15\n", "15 is not the answer, since 57 are sold."),
    ):
        assert printed_answer(stdout, text) is None
