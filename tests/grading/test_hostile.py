"""Texts made to hurt: each has a verdict that does not match, and soon."""

import pytest

from rstar.grading import grade

HOSTILE = {
    "tower": "9^{9^{9}}",
    "tower of brackets": "((((9^9)^9)^9)^9)^9",
    "tower of variables": "x^{x^{x^{x}}}",
    "tower of e": "e^{e^{e^{e^{e}}}}",
    "factorial": "(10^7)!",
    "factorials": "5" + "!" * 100,
    "power": "10^{10^{10}}",
    "small power": "2^{-10^9}",
    "binomial": r"\binom{100000}{50000}",
    "cosh": r"\cosh(10^9)",
    "digits": "1" * 100_000,
    "period": r"0.\overline{" + "1" * 5_000 + "}",
    "parentheses": "(" * 5_000 + "1" + ")" * 5_000,
    "braces": "{" * 100_000,
    "boxes": r"\boxed{" * 20_000,
    "closed boxes": r"\boxed{" * 200 + "1" + "}" * 200,
    "powers": "x^" * 500 + "x",
    "roots": r"\sqrt{" * 500,
    "fractions": r"\frac" * 1_000,
    "signs": "-" * 1_900 + "1",
    "bars": "|" * 1_000,
    "dollars": "$" * 100_001,
    "stars": "**" * 50_000,
    "equals": "= " * 20_000,
    "cues": "the answer is " * 5_000,
    "tags": "<answer>" * 10_000,
    "thoughts": "</think>" * 20_000,
    "spaces": "\\ " * 10_000,
    "functions": "sin " * 400 + "x",
    "matrices": r"\begin{pmatrix}" * 200,
    "control": "\x00\x01\x02",
    "list": ",".join(map(str, range(2_000))),
    "division": "1/0",
    "dots": r"\boxed{" + "." * 40_000 + "x}",
    "breaks": r"\boxed{" + r"\\" * 20_000 + "x}",
    "commas": r"\boxed{" + " ," * 20_000 + "x}",
    "opened formulas": r"\(" * 24_000,
    "opened displays": r"\[" * 24_000,
    "says": "is " * 16_000 + "= =",
    "backslashes": "\\" * 900 + "6",
    "dots before a digit": "." * 900 + "6",
    "dotted line": "Total " + "." * 900 + " 42",
    "commas and a digit": "," * 1_900 + "6",
    "digits and commas": "1,2,3," * 16_000,
    "joined boxes": r"\boxed{1} and " * 6_000,
    "headings": "####" * 12_000,
    "logarithms": r"\log_" * 400 + "2",
    "four choices": r"(\pm1,\pm1,\pm1,\pm2)",
}


@pytest.mark.parametrize("gold", ["5", "x^2+1", r"\{1, 2\}"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.timeout(5)
def test_hostile_texts_are_refused(gold, text):
    assert grade(gold, text).outcome in ("wrong", "unparseable")
    assert grade(text, gold).outcome in ("wrong", "unparseable", "error")  # the gold answer cannot be read


@pytest.mark.timeout(20)
def test_large_but_harmless_powers_are_compared():
    assert grade("(x+1)^{100000}", "x^{100000}+1").outcome == "wrong"
    assert grade("(x+1)^{100000}", "(1+x)^{100000}").outcome == "correct"
