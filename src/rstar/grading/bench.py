"""Grading speed in verdicts per CPU-second, on exact golds and on expressions.

Expressions are compared with math-verify, the best-known public grader. Every verdict is checked for correctness.
"""

from __future__ import annotations

import importlib.util
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rstar.grading.equality import is_equivalent

Pair = tuple[str, str, bool]
"""(gold, prediction, whether they are equal)."""

Grader = Callable[[str, str], bool]

EXPRESSIONS: tuple[Pair, ...] = (
    ("(x+1)^2", "x^2+2x+1", True),
    ("x^2-1", "(x-1)(x+1)", True),
    (r"\sqrt{12}", r"2\sqrt{3}", True),
    (r"\frac{1}{\sqrt{3}}", r"\frac{\sqrt{3}}{3}", True),
    (r"\frac{x+1}{2}", r"\frac{x}{2}+\frac{1}{2}", True),
    (r"\sin 2x", r"2\sin x\cos x", True),
    (r"\tan x", r"\frac{\sin x}{\cos x}", True),
    (r"\sin^2 x+\cos^2 x", "1", True),
    (r"\log_2 8", "3", True),
    (r"\ln 4", r"2\ln 2", True),
    ("e^{x+y}", "e^x e^y", True),
    (r"\frac{a+b}{c}", r"\frac{a}{c}+\frac{b}{c}", True),
    (r"2^{n+1}", r"2\cdot 2^n", True),
    (r"\frac{\pi}{2}", r"\pi/2", True),
    (r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}", True),
    (r"(a+b)(a-b)", "a^2-b^2", True),
    (r"\sqrt[3]{16}", r"2\sqrt[3]{2}", True),
    (r"3-2\sqrt{2}", r"(\sqrt{2}-1)^2", True),
    ("x^2+1", "x^2-1", False),
    (r"\sqrt{2}", r"\sqrt{3}", False),
    ("2x+3y", "3x+2y", False),
    (r"\frac{x}{y}", r"\frac{y}{x}", False),
    (r"\sin x", r"\cos x", False),
    ("e^{x+y}", "e^x+e^y", False),
    (r"\frac{1}{x+y}", r"\frac{1}{x}+\frac{1}{y}", False),
    (r"\frac{\pi}{3}", r"\frac{\pi}{6}", False),
    (r"2^{n}-1", r"2^{n}+1", False),
    (r"\log_2 3", r"\log_3 2", False),
)


def exact_pairs(count: int, seed: int = 0) -> list[Pair]:
    """Generate exact numeric golds with predictions that are bare, in boxes or in sentences; half are wrong."""
    draw = random.Random(seed)
    pairs: list[Pair] = []
    for place in range(count):
        top, bottom = draw.randrange(1, 100_000), draw.randrange(2, 1_000)
        kind = place % 4
        gold = (str(top), f"{top / 100:.2f}", rf"\frac{{{top}}}{{{bottom}}}", f"{top:,}")[kind]
        equal = draw.random() < 0.5
        if not equal:
            top += draw.randrange(1, 9)
        prediction = (str(top), f"{top / 100:.2f}", f"{top}/{bottom}", str(top))[kind]
        template = ("{}", r"\boxed{{{}}}", r"So the answer is $\boxed{{{}}}$.", "#### {}")[draw.randrange(4)]
        pairs.append((gold, template.format(prediction), equal))
    return pairs


@dataclass(frozen=True, slots=True)
class Speed:
    """Speed and error count of a grader."""

    verdicts_per_cpu_second: float
    wrong: int
    pairs: int


def measure(grader: Grader, pairs: Sequence[Pair], seconds: float = 1.0) -> Speed:
    """Grade all pairs repeatedly for at least `seconds` of CPU time."""
    wrong = sum(grader(gold, prediction) != equal for gold, prediction, equal in pairs)  # also warms up the caches
    done, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for gold, prediction, _ in pairs:
            grader(gold, prediction)
        done += len(pairs)
    return Speed(round(done / spent, 1), wrong, len(pairs))


def math_verify() -> Grader | None:
    """Return math-verify in its own setup for LaTeX and plain expressions; None if it is not installed."""
    if importlib.util.find_spec("math_verify") is None:
        return None
    from math_verify import parse, verify

    def compare(gold: str, prediction: str) -> bool:
        return bool(verify(parse(f"${gold}$"), parse(f"${prediction}$")))

    return compare


def bench_grading(seconds: float) -> dict[str, Speed]:
    """Measure the speed on each workload; the reference runs only if installed."""
    found = {
        "exact golds": measure(is_equivalent, exact_pairs(200_000), seconds),
        "expressions": measure(is_equivalent, EXPRESSIONS, seconds),
    }
    reference = math_verify()
    if reference is not None:
        found["expressions, math-verify"] = measure(reference, EXPRESSIONS, seconds)
    return found
