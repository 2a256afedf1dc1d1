"""Equal as functions, different as functions, and what cannot be decided; in threads and with other precisions."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import flint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.grading import grade, is_equivalent
from rstar.grading.compare import numeric
from rstar.grading.read.nodes import Apply, Group, Number, Symbol
from rstar.grading.read.parser import parse

SAME = [
    (r"\sqrt{(\sqrt{2})^2-2}", "0"),
    (r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"),
    (r"\sqrt[3]{-8}", "-2"),
    (r"\sqrt[3]{7+5\sqrt2}", r"1+\sqrt2"),
    ("x^{2/3}", r"\sqrt[3]{x^2}"),
    ("x^{1/3}x^{1/3}", "x^{2/3}"),
    (r"2\sqrt{x-100}", r"\sqrt{4x-400}"),
    ("x^2/x", "x"),
    (r"2\ln x", r"\ln x^2"),
    (r"\arctan x + \arctan(1/x)", r"\frac{\pi}{2}\cdot\frac{|x|}{x}"),
    (r"\lfloor x\rfloor", r"-\lceil -x\rceil"),
    (r"\binom{n}{2}", "n(n-1)/2"),
    (r"\binom{n}{k}", r"\frac{n!}{k!(n-k)!}"),
    ("(-1)^n", r"\cos(\pi n)"),
    (r"\sqrt{-4}", "2i"),
    (r"e^{i\pi/3}", r"\frac12+\frac{\sqrt3}{2}i"),
    (r"\sqrt{-x^2-1}", r"i\sqrt{x^2+1}"),
    (r"\log_2 x", r"\frac{\ln x}{\ln 2}"),
    (r"\sec^2 x - 1", r"\tan^2 x"),
    (r"\sinh x", r"\frac{e^x-e^{-x}}{2}"),
    ("a^2-b^2", "(a-b)(a+b)"),
]
DIFFERENT = [
    ("10-x", "|x-10|"),
    (r"\lfloor x^2/100\rfloor", "0"),
    (r"\sqrt{x^2}", "x"),
    (r"\pi", r"\pi+10^{-40}"),
    ("x", r"x+10^{-250}"),
    (r"\lfloor\pi\rfloor", r"\pi"),
    (r"\ln(-1)", "0"),
    ("i", "-i"),
    ("n!", "n!+1"),
    ("x^{1/2}", "x^{1/3}"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_same_functions(first, second):
    assert grade(first, second).outcome == "correct"
    assert grade(second, first).outcome == "correct"


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different_functions(first, second):
    assert grade(first, second).outcome == "wrong"
    assert grade(second, first).outcome == "wrong"


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=5), st.integers(0, 4), st.integers(1, 3))
@settings(deadline=None)
def test_polynomials_equal_only_their_expansion(roots, place, change):
    product = "".join(f"(x-({root}))" for root in roots)
    coefficients = [Fraction(1)]
    for root in roots:
        coefficients = [
            a - root * b for a, b in zip([*coefficients, Fraction(0)], [Fraction(0), *coefficients], strict=True)
        ]

    def written(numbers):
        return "+".join(f"({number})x^{{{len(numbers) - 1 - k}}}" for k, number in enumerate(numbers))

    assert is_equivalent(product, written(coefficients))
    coefficients[place % len(coefficients)] += change
    assert not is_equivalent(product, written(coefficients))


def test_undecided_values_are_a_timeout():
    hidden = r"\lfloor (\sqrt{2}+1)(\sqrt2-1)\rfloor"  # 1, if one knows; a ball around 1 may lie below it
    with pytest.raises(numeric.UndecidedError):
        numeric.same_function(parse(hidden), parse("1"))
    verdict = grade(hidden, "1")
    assert (verdict.outcome, verdict.correct) == ("timeout", False)


def test_more_than_arithmetic_is_refused():
    for node in (Group("tuple", ()), Symbol("∞"), Apply("±", (Number(Fraction(1)), Number(Fraction(2))))):
        with pytest.raises(numeric.UnreadableError):
            numeric.same_function(node, Number(Fraction(1)))


def test_proportional():
    assert numeric.proportional(parse("2x-4"), parse("x-2"))
    assert numeric.proportional(parse("x^2-y"), parse("3y-3x^2"))
    assert not numeric.proportional(parse("x-2"), parse("x^2-4"))
    assert not numeric.proportional(parse("x-x"), parse("x"))
    assert not numeric.proportional(parse(r"\sqrt{-1-x^2}"), parse("x"))


def test_approximation():
    value = numeric.approximation(parse(r"\sqrt2"))
    assert value is not None
    assert abs(value**2 - 2) < Fraction(1, 10**34)
    assert numeric.approximation(parse(r"\sqrt{-2}")) is None


def test_threads_and_event_loops_keep_the_precision():
    cases = [(rf"(x+{k})^2", rf"x^2+{2 * k}x+{k * k + k % 2}", k % 2 == 0) for k in range(1, 200)]
    flint.ctx.prec = 77
    try:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda case: is_equivalent(*case[:2]), cases))
        assert found == [equal for *_, equal in cases]

        async def both() -> list[bool]:
            pairs = ((r"\sqrt{8}", r"2\sqrt{2}"), (r"\sqrt{8}", r"3\sqrt{2}"))
            return await asyncio.gather(*(asyncio.to_thread(is_equivalent, *pair) for pair in pairs))

        assert asyncio.run(both()) == [True, False]
        assert flint.ctx.prec == 77
    finally:
        flint.ctx.default()


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "x.__class__", "lambda: 0", "f(open)"])
def test_python_is_not_an_expression(text):
    assert grade("x+1", text).outcome in ("wrong", "unparseable")
