"""Tables of equal and unequal answers, by category. Every pair is graded in both directions."""

import pytest

from rstar.grading import grade, is_equivalent

EQUAL = {
    "letters in a row": [("xy", "yx"), ("IV", r"\text{IV}")],
    "scales": [("5,000,000", "5 million"), ("24 eggs", "2 dozen eggs"), ("$5 million", "5000000 dollars")],
    "lists of long numbers": [("100,200,300", "100, 200, 300"), ("123,456", "123456")],
    "whole numbers": [("84", "84"), ("007", "7"), ("-3", "−3"), ("1234567", r"1{,}234{,}567"), ("1234.5", "1,234.5")],
    "powers": [
        ("2^{10}", "1024"),
        ("1000000", "10^6"),
        ("x^{10}", "x^10"),
        ("2^6 3^5", "2^6 * 3^5"),
        ("1e-5", "0.00001"),
    ],
    "decimals and fractions": [
        (r"\frac{1}{2}", "0.5"),
        (r"\frac12", "1/2"),
        (r"\dfrac{2}{3}", r"\tfrac23"),
        ("-1/2", r"\frac{-1}{2}"),
        ("1.1", "1.10"),
        (r"\frac17", r"0.\overline{142857}"),
        ("1/3", "0.3333333333333333"),
        ("4.123105625617661", r"\sqrt{17}"),
        (r"\frac{9.5}{3.14159}", r"\frac{9.5}{3.14159} \approx 3.01"),
    ],
    "mixed numbers": [("2.625", r"2\frac58"), ("2 1/2", "5/2"), (r"-2\frac13", "-7/3"), ("½", "0.5")],
    "percent": [("50%", "0.5"), (r"50\%", "1/2"), ("10", "10%"), ("10%", "10 percent")],
    "units": [
        ("12", "12 hours"),
        (r"\frac34\text{ hour}", r"0.75 \text{ hours}"),
        (r"5\text{ cm}^2", "5 cm^2"),
        (r"90^\circ", "90"),
        (r"90^{\circ}", "90 degrees"),
        (r"25^\circ\text{C}", "25 °C"),
        (r"5\text{ m}", "5"),
    ],
    "money and time": [(r"\$12.50", "12.5"), (r"\$5", "5 dollars"), ("3:30 p.m.", "3:30 PM")],
    "names": [("5", "x = 5"), ("x^2+1", "f(x) = 1+x^2"), ("70", "100 - 30 = 70"), ("(1,2)", "(x,y) = (1,2)")],
    "sequences": [
        ("[2, 4, 1]", "[2,4,1]"),
        ("[2, 4, 1]", "2, 4, 1"),
        (r"\left(\tfrac32, -\tfrac52\right)", "(1.5,-2.5)"),
        ("[1/2, 3]", "[0.5, 3]"),
    ],
    "sets and lists": [
        (r"\{1,2\}", "2, 1"),
        ("2, 3, 5", "5, 3, 2"),
        (r"\pm 2021", "{-2021, 2021}"),
        (r"x=\pm 2", "-2, 2"),
        (r"\{1\pm\sqrt{5},-2\}", r"-2, 1+\sqrt5, 1-\sqrt5"),
        ("x=1, x=2", "1 and 2"),
        ("5", r"\{5\}"),
        (r"\emptyset", r"\{\}"),
        ("100, 200, 300", "300, 200, 100"),
    ],
    "intervals": [
        (r"(-\infty,3)\cup(5,\infty)", r"(5,\infty)\cup(-\infty,3)"),
        (r"(-\infty,1)\cup(2,\infty)", "(−∞,1)∪(2,∞)"),
        (r"(-\infty, 3]", r"x \le 3"),
        (r"-2 \le x \le 7", r"x \in [-2,7]"),
        (r"x<1 \text{ or } x>2", r"(-\infty,1)\cup(2,\infty)"),
        (r"x \le 3", "3 >= x"),
        ("(0, 1/2]", "(0, 0.5]"),
    ],
    "equations": [("2x+y=3", "4x+2y=6"), ("x+y=3", "3=y+x"), ("y=2x+1", "2x+1"), (r"x \neq 5", "x != 5")],
    "matrices": [
        (r"\begin{pmatrix} 1 & 0.5 \\ 1/3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 1/2 \\ 1/3 & 4 \end{pmatrix}"),
        (
            r"\begin{pmatrix}6 \\ 8\end{pmatrix}",
            r"\begin{pmatrix}1 \\ 2\end{pmatrix}+\begin{pmatrix}5 \\ 6\end{pmatrix}",
        ),
    ],
    "symbolic": [
        (r"\frac{1}{\sqrt2}", r"\frac{\sqrt{2}}{2}"),
        (r"\sqrt{8}", r"2\sqrt2"),
        ("x^2+2x+1", "(x+1)**2"),
        (r"\tan x", r"\frac{\sin x}{\cos x}"),
        (r"\sin 2x", r"2\sin x\cos x"),
        ("|x|", r"\sqrt{x^2}"),
        ("e^{x+y}", "e^x e^y"),
        ("e^{16} - 1", "-1 + exp(16)"),
        ("n!", r"n \cdot (n-1)!"),
        (r"(-1)^n", r"\cos(n\pi)"),
        ("x^{1/3}", r"\sqrt[3]{x}"),
        (r"\log_2 8", "3"),
        (r"\ln 4", r"2\ln 2"),
        ("100!", r"99!\cdot 100"),
        ("3^{2005}", r"3 \cdot 3^{2004}"),
        ("2πr", r"2\pi r"),
        (r"\binom{5}{2}", "10"),
    ],
    "complex": [("6-5i", r"6 - 5\mathrm{i}"), ("|3+4i|", "5"), (r"\sqrt{-4}", "2i"), (r"e^{i\pi}", "-1")],
    "choices and words": [
        ("C", "(C)"),
        ("C", r"\text{C}"),
        ("C", "(C) 12"),
        ("12", "(C) 12"),
        (r"\text{Tuesday}", "tuesday"),
        ("even", "The number is even."),
        (r"\overline{CD}", r"$\overline{CD}$"),
        ("a regular hexagon", r"\text{A regular hexagon.}"),
        (r"\int_0^1 x\,dx", r"$\int _0^1 x \, dx$"),
    ],
}

UNEQUAL = {
    "letters in a row": [("BAC", "ABC"), ("IV", "VI"), ("dog", "god")],
    "words that are no units": [
        ("5", "5 thousand"),
        ("12", "12 dozen"),
        ("3", "3 squared"),
        ("5", "5 tenths"),
        ("x mod 5", "5 mod x"),
        ("5 mod 3", "3 mod 5"),
    ],
    "a number is no list": [("1,234", "1 and 234"), ("12,345", "12, 345")],
    "determinants": [
        (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
    ],
    "no tolerance": [
        ("1/3", "0.333"),
        ("1234567", "1234568"),
        ("16777217", "16777216"),
        (r"\pi", "3.14"),
        ("1", "1.0000000000000001"),
        ("10^{-40}", "0"),
        (r"\pi", r"\pi+10^{-40}"),
        ("0.05", "0.5"),
        (r"\sqrt2", "1.414"),
    ],
    "percent needs its sign": [("50", "0.5"), ("0.25", "25")],
    "one value is asked": [
        ("3", "3 or 5"),
        ("3", r"\{3, 4\}"),
        ("123", "1,2,3"),
        ("1728", "1331 and 1728"),
        ("2", "x=1 or x=2"),
        ("204", r"x \in [0,999]"),
        ("A", r"A \text{ or } C"),
        ("A", "(A), (B)"),
        (r"\pm 2021", "2021"),
    ],
    "kinds of containers": [
        ("(1,2)", r"\{1,2\}"),
        ("(1,2)", "(2,1)"),
        ("[x+1, x]", "[x, x+1]"),
        (r"\{-1,0,1\}", r"\{-1,1\}"),
        ("(0,9)", "[0,9)"),
        (r"(-\infty,3)\cup(5,\infty)", r"(-\infty,3]\cup(5,\infty)"),
        (r"(-\infty,3)\cup(5,\infty)", "(3,5)"),
        ("2, 2, 3", "2, 3"),
        ("1:2", "2:1"),
    ],
    "units and times": [("5 cm", "5 m"), ("3:30 p.m.", "3:30 a.m."), (r"\$12.50", "12.05"), ("25 °C", "25 °F")],
    "relations": [
        ("x<1", "x>1"),
        ("x<1", r"x \le 1"),
        (r"x<1 \text{ or } x>2", "1<x<2"),
        ("a + 3z = 0", "0"),
        ("x+y=3", "x+y=x+y"),
        ("4", "x^2=4"),
        ("x=5", "y=5"),
        (r"\cos(x)=\frac{42}{59}", r"\sin(x)=\frac{42}{59}"),
    ],
    "beyond the parser": [
        (r"\int_0^1 x\,dx", r"\int_0^1 -x\,dx"),
        (r"\sum_{k} (k+1)", r"\sum_{k} k+1"),
        (r"p \to q", r"q \to p"),
    ],
    "expressions": [
        ("|x|", "x"),
        ("2x", "2y"),
        (r"\frac{a}{b}", r"\frac{b}{a}"),
        ("e^{x+y}", "e^x+e^y"),
        ("2^{3^2}", "64"),
        ("100!", "101!"),
        (r"6\pi", "6"),
        (r"\infty", r"-\infty"),
        ("5", "nan"),
    ],
    "notation": [
        ("25_7", "25_8"),
        (r"5\frac12", r"\frac{51}{2}"),
        ("12", "1 2"),
        ("on", "no"),
        ("odd", r"\text{oddd}"),
    ],
}


def _pairs(table: dict[str, list[tuple[str, str]]]) -> list:
    return [pytest.param(*pair, id=f"{name}-{k}") for name, pairs in table.items() for k, pair in enumerate(pairs)]


@pytest.mark.parametrize(("gold", "prediction"), _pairs(EQUAL))
def test_equal(gold, prediction):
    assert grade(gold, prediction).outcome == "correct"
    assert is_equivalent(prediction, gold)


@pytest.mark.parametrize(("gold", "prediction"), _pairs(UNEQUAL))
def test_unequal(gold, prediction):
    assert grade(gold, prediction).outcome in ("wrong", "unparseable")
    assert not is_equivalent(prediction, gold)


@pytest.mark.parametrize("prediction", [None, "", "  ", r"\boxed{}", r"\boxed{ }", "\\", "<think> it is 5"])
def test_no_answer_is_unparseable(prediction):
    assert grade("5", prediction).outcome == "unparseable"


def test_a_verdict_carries_the_forms_and_a_reason():
    verdict = grade(r"\frac12", r"The answer is $\boxed{\dfrac{1}{3}}$.")
    assert verdict.outcome == "wrong"
    assert not verdict.correct
    assert (verdict.gold_form, verdict.prediction_form) == (r"\frac12", r"\frac{1}{3}")
    assert verdict.reason


def test_a_gold_of_prose_equals_itself_only():
    proof = "It is shown that n has two divisors. Since they are prime, we are done."
    assert is_equivalent(proof, proof)
    assert not is_equivalent(proof, proof.replace("two", "three"))
