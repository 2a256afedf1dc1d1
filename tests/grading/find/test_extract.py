"""Where the answer stands in a text."""

import pytest

from rstar.grading.find.boxes import boxed
from rstar.grading.find.extract import answer_of


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{1}, no: \boxed{2}", "2"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\text{a } \}}", r"\text{a } \}"),
        (r"\boxed{5} and \boxed{6", "5"),
        (r"\fbox {7}", "7"),
        (r"\boxed{a\boxed{b}}", r"a\boxed{b}"),
        (r"\boxed{ }", None),
        ("no box", None),
    ],
)
def test_boxed(text, answer):
    assert boxed(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("42", "42"),
        (r"x^2 + 1", "x^2 + 1"),
        ("The answer is 42.", "42"),
        ("The answer is 3.5, because 7/2 = 3.5.", "3.5"),
        ("#### 42", "42"),
        ("**Answer:** 42", "42"),
        ('**Answer: 42**"', "42"),
        ("**42**", "42"),
        ("The answer is 42!", "42"),
        ("x = **42**", "x = 42"),
        ("The answer is 2**3", "2**3"),
        ("Final Answer: **73**", "73"),
        ("Final Answer: The final answer is $(-6, 10)$. I hope it is correct.", "$(-6, 10)$"),
        ("Final answer is B", "B"),
        ("Final Answer: The largest $n$ is 34.", "34"),
        ("Thus, the number of residents is **73**.", "73"),
        ("Thus $x <= 2$ is our answer.", "x <= 2"),
        ("La somme est donc de 100 - 30 = 70", "70"),
        (r"First \boxed{1}. Then \boxed{2} and \boxed{3}.", "2, 3"),
        (r"\boxed{5}, that is, \boxed{5}.", "5"),
        ("I think <answer>7</answer>", "7"),
        (r"<answer>so it is \boxed{7}</answer> not \boxed{8}", "7"),
        ("<answer>The answer is 12<end_of_answer>", "12"),
        (r"<think>\boxed{5}</think> So \boxed{6}", "6"),
        (r"<think>so \boxed{5}</think>", "5"),
        (r"<think>\boxed{5} or maybe", None),
        ("Tom has 9 apples left.", "9"),
        ("Tom ate 3 apples and has 9 left.", None),
        ("We started with $5$. In the end there are 12 of them.", "12"),
        ("There are 5 cats and we then have 6 dogs around the old house.", None),
        (None, None),
    ],
)
def test_answer_of(text, answer):
    found = answer_of(text)
    assert found == answer or (found is not None and answer is not None and found.strip(r"\boxed{}") == answer)


def test_only_the_end_of_a_long_text_is_looked_at():
    assert answer_of(r"\boxed{1}" + " word" * 20_000) is None
    assert answer_of(" word" * 20_000 + r"\boxed{1}") == "1"
