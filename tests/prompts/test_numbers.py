"""The numbers of a question, and of a program."""

from decimal import Decimal

import pytest

from rstar.prompts.numbers import IN_CODE, IN_TEXT, numbers


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1,234 tins at 2.50 and .5", ["1234", "2.50", "0.5"]),
        ("from (0, 0) to (5,11)", ["0", "0", "5", "11"]),
        ("x1 and y_2 and 3rd", ["3"]),
        ("1,2345", ["1", "2345"]),
        ("no number", []),
    ],
)
def test_in_texts(text, wanted):
    assert numbers(IN_TEXT, text) == [Decimal(number) for number in wanted]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("comb(10,200) + 1_000", ["10", "200", "1000"]),
        ("x1 = 3.5 * a.b2 - .25", ["3.5", "0.25"]),
        ("[1,234]", ["1", "234"]),
    ],
)
def test_in_programs(code, wanted):
    assert numbers(IN_CODE, code) == [Decimal(number) for number in wanted]
