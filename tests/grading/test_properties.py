"""What holds for every answer."""

import unittest.mock
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.grading import grade, is_equivalent

numbers = st.fractions(min_value=-1000, max_value=1000, max_denominator=60)


def _plain(value: Fraction) -> str:
    return str(value)


def _latex(value: Fraction) -> str:
    sign = "-" if value < 0 else ""
    return sign + rf"\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


typography = st.sampled_from(
    [
        lambda text: f"${text}$",
        lambda text: f"  {text} ",
        lambda text: rf"\({text}\).",
        lambda text: text.replace(r"\frac", r"\dfrac"),
        lambda text: text.replace("(", r"\left(").replace(")", r"\right)"),
        lambda text: text.replace(",", r",\ "),
    ]
)
sentences = st.sampled_from(
    [
        lambda text: text,
        lambda text: rf"\boxed{{{text}}}",
        lambda text: f"<answer>{text}</answer>",
        lambda text: f"The answer is {text}.",
        lambda text: f"**Answer:** {text}",
    ]
)
answers = st.one_of(
    numbers.map(_plain),
    numbers.map(_latex),
    st.tuples(numbers, numbers).map(lambda pair: f"({_latex(pair[0])}, {_plain(pair[1])})"),
    st.lists(st.integers(-50, 50), min_size=2, max_size=5).map(str),
    st.tuples(numbers, st.integers(2, 9)).map(lambda pair: rf"({_latex(pair[0])})x^{{{pair[1]}}}"),
)


@given(st.text(max_size=60))
def test_nothing_raises_and_every_text_has_a_verdict(text):
    assert grade("5", text).outcome in ("correct", "wrong", "unparseable", "error")
    assert grade(text, "5").outcome in ("correct", "wrong", "unparseable", "error")


@given(st.text(alphabet=r"0123456789+-*/^_!(){}[]|,.=<>\$% xei", max_size=24))
def test_grading_is_symmetric_on_noise(text):
    for other in ("5", "(1, 2)", "2x"):
        assert is_equivalent(text, other) == is_equivalent(other, text)


@given(answers)
def test_every_answer_equals_itself(answer):
    assert is_equivalent(answer, answer)


@given(answers, typography, sentences)
def test_dress_does_not_matter(answer, typed, said):
    assert is_equivalent(answer, said(typed(answer)))
    assert is_equivalent(said(answer), typed(answer))


@given(numbers, numbers)
def test_numbers_are_equal_exactly_when_their_values_are(first, second):
    assert is_equivalent(_plain(first), _latex(second)) == (first == second)
    assert is_equivalent(_latex(first), _latex(first + Fraction(1, 10**9))) is False


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=5), st.data())
def test_a_changed_element_is_noticed(values, data):
    place = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:place], values[place] + data.draw(st.integers(1, 5)), *values[place + 1 :]]
    assert not is_equivalent(str(values), str(changed))
    assert not is_equivalent(str(tuple(values)), str(tuple(changed)))


@given(numbers, numbers.filter(bool))
@settings(deadline=None, max_examples=25)
def test_a_changed_coefficient_is_noticed(value, change):
    assert not is_equivalent(rf"({_latex(value)})x+\sqrt2", rf"\sqrt{{2}}+({_latex(value + change)})x")


leaves = st.one_of(st.integers(1, 12).map(str), st.sampled_from(["x", "y", r"\pi", r"\frac{1}{3}", "0.5"]))
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]}+{pair[1]}"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]})({pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: rf"\frac{{{pair[0]}}}{{({pair[1]})^2+1}}"),
        st.tuples(inner, st.integers(2, 3)).map(lambda pair: f"({pair[0]})^{{{pair[1]}}}"),
        inner.map(lambda text: rf"\sqrt{{({text})^2+2}}"),
        inner.map(lambda text: rf"\sin({text})"),
    ),
    max_leaves=6,
)
rewriting = st.sampled_from(
    [
        lambda text: text.replace(r"\frac", r"\dfrac"),
        lambda text: text.replace(r"\frac", r"\tfrac"),
        lambda text: text.replace("(", r"\left(").replace(")", r"\right)"),
        lambda text: text.replace("(", r"\bigl(").replace(")", r"\bigr)"),
        lambda text: text.replace("+", " + ").replace(")(", r") \cdot ("),
        lambda text: text.replace("+", r"\,+\;"),
        lambda text: text.replace("{", "{ ").replace("}", " }"),
        lambda text: f"${text}$",
        lambda text: f"({text})",
        lambda text: f"0+{text}",
    ]
)


@given(expressions, rewriting, rewriting, sentences)
@settings(deadline=None)
def test_expressions_equal_themselves_however_they_are_written(text, once, twice, said):
    assert is_equivalent(text, text)
    assert is_equivalent(text, said(twice(once(text)))) == is_equivalent(said(twice(once(text))), text)
    assert is_equivalent(text, twice(once(text)))


@given(expressions, rewriting, st.sampled_from(["1", "x", r"\pi", "0.001", "10^{-30}"]))
@settings(deadline=None)
def test_expressions_do_not_equal_others(text, written, more):
    other = f"{written(text)}+{more}" if "$" not in written(text) else f"{text}+{more}"
    assert not is_equivalent(text, other)
    assert not is_equivalent(other, text)


@given(expressions, expressions)
@settings(deadline=None)
def test_equality_of_expressions_is_symmetric(first, second):
    assert grade(first, second).outcome == grade(second, first).outcome


pieces = st.lists(
    st.sampled_from(
        [r"\boxed{", "}", "42", "3/4", r"\frac{3}{4}", "$", " ", "\n", "####", "The answer is ", ".", "</think>",
         "<think>", "<answer>", "</answer>", r"\fbox{7}", "so ", "1,234", "x", "-0.5", r"\{", "{"]
    ),
    max_size=12,
)  # fmt: skip


@given(pieces, st.sampled_from(["42", "3/4", "1234", "-0.5", "7"]))
def test_fast_path_agrees_with_full_path(parts, gold):
    text = "".join(parts)
    fast = grade(gold, text).correct
    with unittest.mock.patch("rstar.grading.equality._grade_literals", return_value=None):
        assert grade(gold, text).correct == fast
