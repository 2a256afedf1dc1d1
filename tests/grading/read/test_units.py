"""Units, and numbers in words."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.grading import is_equivalent
from rstar.grading.read.number_words import number_in_words
from rstar.grading.read.units import NONE, UNITS, Unit, singular, unit_of

units = st.sampled_from(sorted(UNITS)).map(UNITS.__getitem__)


@given(units, units, units)
def test_products_are_a_commutative_group(a: Unit, b: Unit, c: Unit) -> None:
    assert a.times(b) == b.times(a)
    assert a.times(b).times(c) == a.times(b.times(c))
    assert a.times(NONE) == a
    assert a.times(a, -1) == NONE


@pytest.mark.parametrize(
    ("word", "one"),
    [("Hours", "hour"), ("feet", "feet"), ("inches", "inches"), ("apples", "apple"), ("gas", "gas"), ("m", "m")],
)
def test_singular(word: str, one: str) -> None:
    assert singular(word) == one


@pytest.mark.parametrize("word", ["tenths", "squared", "negative", "below", "thirds", "five", "percentile"])
def test_words_that_are_no_units(word: str) -> None:
    assert unit_of(word) is None
    assert not is_equivalent("5", f"5 {word}")


EQUAL = [
    ("2 hours", "120 minutes"),
    ("1 hour 30 minutes", "90 min"),
    ("5 feet 6 inches", "66 inches"),
    (r"12\text{ m/s}", "12 meters per second"),
    (r"9.8 \mathrm{m/s^2}", "9.8 meters per second squared"),
    ("60 mph", "60 miles per hour"),
    (r"12\text{ cm}^2", "12 square centimeters"),
    (r"5 \text{ L}", "5000 mL"),
    (r"\$5", "500 cents"),
    ("€5", "5 euros"),
    ("5 apples", "5"),
]
UNEQUAL = [
    ("2 hours", "2 minutes"),
    (r"12\text{ m/s}", r"12\text{ m}"),
    ("12 cm", "12 cm^2"),
    ("5 cents", r"\$5"),
    ("5 apples", "5 pears"),
    ("25 °C", "25 °F"),
    ("1 hour 30 minutes", "130 minutes"),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_the_same_measure(a: str, b: str) -> None:
    assert is_equivalent(a, b)
    assert is_equivalent(b, a)


@pytest.mark.parametrize(("a", "b"), UNEQUAL)
def test_another_measure(a: str, b: str) -> None:
    assert not is_equivalent(a, b)
    assert not is_equivalent(b, a)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("zero", 0),
        ("twenty one", 21),
        ("one hundred twenty three", 123),
        ("hundred and five", 105),
        ("two thousand five hundred", 2_500),
        ("one million two hundred thousand", 1_200_000),
        ("minus seven", -7),
        ("five twelfths", Fraction(5, 12)),
        ("half", Fraction(1, 2)),
        ("three and half", Fraction(7, 2)),
        ("negative one third", Fraction(-1, 3)),
    ],
)
def test_numbers_in_words(words: str, value: Fraction) -> None:
    assert number_in_words(words.split()) == value


@pytest.mark.parametrize("words", ["", "five five", "twenty ten", "thousand", "and", "one and", "five apples", "tens"])
def test_words_that_are_no_number(words: str) -> None:
    assert number_in_words(words.split()) is None
