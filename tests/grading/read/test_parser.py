"""Parse trees: precedence, implicit multiplication, brackets, groups, units, limits and errors."""

from fractions import Fraction

import pytest

from rstar.grading.read.lexer import TooLargeError, UnreadableError
from rstar.grading.read.nodes import Apply, Group, Interval, Matrix, Node, Number, Quantity, Relation, Symbol, Text
from rstar.grading.read.parser import MAX_DOUBLE_FACTORIAL, parse
from rstar.grading.read.primaries import MAX_DEPTH
from rstar.grading.read.units import PERCENT, UNITS

X, Y, A, B = (Symbol(name) for name in "xyab")


def number(top: int, bottom: int = 1) -> Number:
    return Number(Fraction(top, bottom))


def plus(*terms: Node) -> Apply:
    return Apply("+", terms)


def times(*factors: Node) -> Apply:
    return Apply("*", factors)


def inverse(node: Node) -> Apply:
    return Apply("inv", (node,))


def power(base: Node, exponent: Node) -> Apply:
    return Apply("^", (base, exponent))


PRECEDENCE = {
    "1+2*x": plus(number(1), times(number(2), X)),
    "(1+2)*x": times(plus(number(1), number(2)), X),
    "a-b-x": plus(A, times(number(-1), B), times(number(-1), X)),
    "a/b/x": times(A, inverse(B), inverse(X)),
    "a/b*x": times(A, inverse(B), X),
    "-x^2": times(number(-1), power(X, number(2))),
    "2^x^y": power(number(2), power(X, Y)),
    "2x^3": times(number(2), power(X, number(3))),
    "x^10": power(X, number(10)),
    "n!^2": power(Apply("factorial", (Symbol("n"),)), number(2)),
    "2x=y+1": Relation((times(number(2), X), plus(Y, number(1))), ("=",)),
}


@pytest.mark.parametrize(("form", "tree"), PRECEDENCE.items())
def test_precedence(form: str, tree: Node) -> None:
    assert parse(form) == tree


IMPLICIT_PRODUCTS = {
    "2x": times(number(2), X),
    "ab": times(A, B),
    "2(x+1)": times(number(2), plus(X, number(1))),
    "(x)(y)": times(X, Y),
    r"2\sqrt{3}": times(number(2), Apply("root", (number(3), number(2)))),
    r"2\pi x": times(number(2), Symbol("π"), X),
    r"\sin 2x": Apply("sin", (times(number(2), X),)),
    r"\sin x\cos y": times(Apply("sin", (X,)), Apply("cos", (Y,))),
    r"x\frac12": times(X, times(number(1), inverse(number(2)))),
}


@pytest.mark.parametrize(("form", "tree"), IMPLICIT_PRODUCTS.items())
def test_implicit_multiplication(form: str, tree: Node) -> None:
    assert parse(form) == tree


@pytest.mark.parametrize(
    ("form", "value"), [(r"2\frac58", (21, 8)), ("2 5/8", (21, 8)), ("0.125", (1, 8)), (r"0.\overline{3}", (1, 3))]
)
def test_numbers(form: str, value: tuple[int, int]) -> None:
    assert parse(form) == number(*value)


@pytest.mark.parametrize("form", [r"2\frac{8}{5}", r"2\frac85"])
def test_an_improper_fraction_is_a_factor(form: str) -> None:
    assert parse(form) == times(number(2), times(number(8), inverse(number(5))))


def test_thousands_and_logarithms_have_two_readings() -> None:
    assert parse("1,234") == number(1234)
    assert parse("1,234", thousands=False) == Group("bare", (number(1), number(234)))
    assert parse(r"\log x") == Apply("ln", (X,))
    assert parse(r"\log x", decadic=True) == Apply("log", (X, number(10)))
    assert parse("25_8") == parse("(25)_8") == Symbol("25 in base 8")


GROUPS = {
    "1,2": Group("bare", (number(1), number(2))),
    "(1,2)": Group("tuple", (number(1), number(2))),
    "[1,2]": Group("list", (number(1), number(2))),
    r"\{1,2\}": Group("set", (number(1), number(2))),
    "{x}": X,
    "1:2": Group("ratio", (number(1), number(2))),
    "[0,1)": Interval(number(0), number(1), True, False),
    "]0,1]": Interval(number(0), number(1), False, True),
    r"(0,1)\cup(2,3)": Group("union", (Group("tuple", (number(0), number(1))), Group("tuple", (number(2), number(3))))),
    "x=1 or x=2": Group("bare", (Relation((X, number(1)), ("=",)), Relation((X, number(2)), ("=",)))),
    "x<1 or x>2": Group("union", (Relation((X, number(1)), ("<",)), Relation((X, number(2)), (">",)))),
    "x>1 and x<2": Group("both", (Relation((X, number(1)), (">",)), Relation((X, number(2)), ("<",)))),
    r"2k,k\in\mathbb{Z}": Group("given", (times(number(2), Symbol("k")), Relation((Symbol("k"), Symbol("ℤ")), ("∈",)))),
    r"\emptyset": Group("set", ()),
    r"\begin{pmatrix}1&x\\2&y\end{pmatrix}": Matrix(((number(1), X), (number(2), Y))),
    r"\begin{cases}x&x>0\\1&\text{otherwise}\end{cases}": Group(
        "cases",
        (
            Group("tuple", (X, Relation((X, number(0)), (">",)))),
            Group("tuple", (number(1), Text("otherwise"))),
        ),
    ),
}


@pytest.mark.parametrize(("form", "tree"), GROUPS.items())
def test_groups(form: str, tree: Node) -> None:
    assert parse(form) == tree


def test_units() -> None:
    assert parse("5%") == Quantity(number(5), PERCENT)
    assert parse(r"5\text{ m}/\text{s}^2") == Quantity(number(5), UNITS["m"].times(UNITS["s"], -2))
    assert parse("5 feet 6 inches") == Quantity(plus(number(5), times(number(6), number(1, 12))), UNITS["ft"])
    assert parse("3 million dollars") == Quantity(times(number(3), number(1_000_000)), UNITS["dollar"])


@pytest.mark.parametrize(("opener", "closer"), [("(", ")"), ("|", "|"), (r"\sqrt{", "}"), ("-(", ")"), ("2^{", "}")])
def test_nesting_is_limited(opener: str, closer: str) -> None:
    assert parse(f"{opener}x{closer}")
    deep = opener * (4 * MAX_DEPTH) + "x" + closer * (4 * MAX_DEPTH)
    if opener == "(":  # doubled brackets are one
        assert parse(deep) == X
    else:
        with pytest.raises(UnreadableError):
            parse(deep)


def test_depth_counts_up_to_its_limit() -> None:
    assert parse("-" * MAX_DEPTH + "x")
    with pytest.raises(TooLargeError, match="nested too deeply"):
        parse("-" * (MAX_DEPTH + 1) + "x")


ERRORS = {
    "": "unexpected end",
    "1+": "unexpected end",
    "(1": "unexpected end",
    "1)": r"unexpected '\)'",
    "(1]": "brackets do not match",
    "2 3": "two numbers side by side",
    r"\frac12 3": "two numbers side by side",
    r"\sin": "a function without an argument",
    "3!!!": "triple factorial",
    f"{MAX_DOUBLE_FACTORIAL + 1}!!": "a double factorial",
    "1/2/": "unexpected end",
    r"\foo": r"unknown command \\foo",
    "x people": "a letter before a word",
    r"\begin{pmatrix}1&2\\3\end{pmatrix}": "not a matrix",
    r"5\text{ m}^x": "the power of a unit is not an integer",
    "5 mod": "is not a unit",
    "#": "unexpected '#'",
}


@pytest.mark.parametrize(("form", "message"), ERRORS.items())
def test_errors(form: str, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        parse(form)


def test_double_factorials() -> None:
    assert parse("7!!") == number(105)
    assert parse("0!!") == number(1)
