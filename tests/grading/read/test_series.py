"""Sums and products: the name of an index says nothing, its range and its terms say all."""

from hypothesis import given
from hypothesis import strategies as st

from rstar.grading import grade, is_equivalent

letters = st.sampled_from("kjm")
polynomials = st.lists(st.integers(-5, 5), min_size=1, max_size=3).filter(any)


def terms(coefficients: list[int], k: str) -> str:
    return "+".join(rf"({value}) \cdot {k}^{{{power}}}" for power, value in enumerate(coefficients))


@given(polynomials, st.integers(-3, 3), st.integers(-3, 3), letters)
def test_the_index_may_be_shifted_and_renamed(coefficients: list[int], start: int, shift: int, name: str) -> None:
    gold = rf"\sum_{{i={start}}}^{{n}} ({terms(coefficients, 'i')})"
    moved = rf"\sum_{{{name}={start - shift}}}^{{n-({shift})}} ({terms(coefficients, f'({name}+({shift}))')})"
    assert is_equivalent(gold, moved)
    assert is_equivalent(moved, gold)


@given(polynomials, st.integers(0, 3), st.integers(0, 9))
def test_a_finite_sum_is_its_value(coefficients: list[int], start: int, length: int) -> None:
    value = sum(c * k**p for k in range(start, start + length) for p, c in enumerate(coefficients))
    text = rf"\sum_{{k={start}}}^{{{start + length - 1}}} ({terms(coefficients, 'k')})"
    assert is_equivalent(str(value), text)
    assert not is_equivalent(str(value + 1), text)


@given(polynomials, polynomials)
def test_other_terms_are_another_series(first: list[int], second: list[int]) -> None:
    gold, said = (rf"\sum_{{k=1}}^{{\infty}} ({terms(some, 'k')}) x^k" for some in (first, second))
    same = [*first, 0, 0][:3] == [*second, 0, 0][:3]
    assert is_equivalent(gold, said) == same


def test_a_series_is_never_a_finite_sum() -> None:
    assert not is_equivalent(r"\sum_{k=1}^{\infty} \frac{1}{k^2}", r"\sum_{k=1}^{37} \frac{1}{k^2}")


def test_too_many_terms_are_refused() -> None:
    assert grade("5", r"\sum_{k=1}^{1000000000} k").outcome == "unparseable"
