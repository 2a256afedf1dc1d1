"""The process that decides whether two expressions are the same function: sympy, away from the caller.

Run as ``python -m rstar.grading.worker`` by `rstar.grading.symbolic`. It reads one JSON line per question,
``["compare", tree, tree]`` or ``["digits", tree]``; a tree is ``["n", numerator, denominator]``, ``["s", name]`` or
``["a", op, trees…]``. It answers with one JSON line: ``{"equal": true | false, "why": text}``,
``{"value": text | null}`` or ``{"error": text}``. No text is ever parsed as an expression here: sympy objects are
built from the trees, operation by operation, and nothing is simplified.

How it decides. Constants: the difference is evaluated with rising precision until it is seen to differ from zero, or
known to be below 10^-300. With variables: the same at fixed rational points of all signs. Two
expressions are equal when they agree wherever *both* are defined as real functions, and that is at `ENOUGH` points
(so ``x^2/x`` is ``x``, and ``2 ln x`` is ``ln x^2``, but ``sqrt(x^2)`` is not ``x``); with the imaginary unit in them
they are compared as complex functions. What is defined nowhere else (``(-1)^n``) is compared at whole numbers.

CPU time per question is limited by the process's own clock (`CPU_SECONDS`): the kernel ends the process, even inside
one long operation on integers and even when nobody is left to kill it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import sympy as sp

CPU_SECONDS = 1.5
MEMORY_BYTES = 2 << 30
ENOUGH = 3
_DIGITS = 15
_MOST_DIGITS = 300
_PRIME = 97

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": sp.sin,
    "cos": sp.cos,
    "tan": sp.tan,
    "cot": sp.cot,
    "sec": sp.sec,
    "csc": sp.csc,
    "sinh": sp.sinh,
    "cosh": sp.cosh,
    "tanh": sp.tanh,
    "coth": sp.coth,
    "arcsin": sp.asin,
    "arccos": sp.acos,
    "arctan": sp.atan,
    "arccot": sp.acot,
    "abs": sp.Abs,
    "floor": sp.floor,
    "ceil": sp.ceiling,
    "factorial": sp.factorial,
    "binom": sp.binomial,
}
_HALF = sp.Rational(1, 2)
_CONSTANTS = {"π": sp.pi, "e": sp.E, "i": sp.I}


class _Builder:
    """Builds sympy objects from trees.

    Attributes:
        real_if: pairs (base, power): a real value needs a base that is not negative, or a whole power.
    """

    def __init__(self) -> None:
        self.real_if: list[tuple[Any, Any]] = []

    def build(self, tree: list[Any]) -> Any:
        match tree:
            case ["n", top, bottom]:
                return sp.Rational(int(top), int(bottom))
            case ["s", name]:
                return _CONSTANTS.get(name) or sp.Symbol(name, real=True)
            case ["a", op, *args]:
                return self._apply(op, [self.build(arg) for arg in args])
        raise ValueError("not a tree")

    def _apply(self, op: str, args: list[Any]) -> Any:
        match op, args:
            case "+", _:
                return sp.Add(*args)
            case "*", _:
                return sp.Mul(*args)
            case "inv", [value]:
                return 1 / value
            case "^", [base, power]:
                return self._power(base, power)
            case "root", [value, index]:
                return self._power(value, 1 / index)
            case "ln", [value]:
                self.real_if.append((value, _HALF))
                return sp.log(value)
            case "log", [value, base]:
                self.real_if += [(value, _HALF), (base, _HALF)]
                return sp.log(value) / sp.log(base)
        return _FUNCTIONS[op](*args)

    def _power(self, base: Any, power: Any) -> Any:
        """A power as school has it: an odd root of a negative number is real."""
        if power.is_Rational and power.q > 1 and power.q % 2 and base.is_real:
            root = sp.sign(base) * sp.Abs(base) ** sp.Rational(1, power.q)
            return root**power.p
        if not power.is_Integer and not base.is_positive:
            self.real_if.append((base, power))
        return base**power


def compare(first: list[Any], second: list[Any]) -> dict[str, Any]:
    """Whether two trees are the same function; see the module."""
    builder = _Builder()
    a, b = builder.build(first), builder.build(second)
    if a == b:
        return {"equal": True, "why": "the same expression"}
    if _undefined(a) or _undefined(b):
        return {"equal": False, "why": "not defined"}
    difference = a - b
    names = sorted(a.free_symbols | b.free_symbols, key=str)
    if not names:
        zero = _is_zero(difference.evalf(_DIGITS, maxn=_MOST_DIGITS))
        return {"equal": zero, "why": "the values agree" if zero else "the values differ"}
    complex_ = a.has(sp.I) or b.has(sp.I)
    for points in (_real_points(len(names)), _whole_points(len(names))):
        agreed = 0
        for point in points:
            at = dict(zip(names, point, strict=True))
            same = _agree(a, b, difference, at, [] if complex_ else builder.real_if)
            if same is False:
                where = ", ".join(f"{name} = {value}" for name, value in at.items())
                return {"equal": False, "why": f"the values differ at {where}"[:200]}
            agreed += same is True
        if agreed >= ENOUGH:
            return {"equal": True, "why": f"the values agree at {agreed} points"}
    return {"equal": False, "why": "not defined at enough common points"}


def digits(tree: list[Any]) -> str | None:
    """40 significant digits of a real constant; None when it is not real."""
    value = _Builder().build(tree).evalf(40, maxn=_MOST_DIGITS)
    return str(value) if value.is_Float else None


def _agree(a: Any, b: Any, difference: Any, at: dict[Any, Any], real_if: list[tuple[Any, Any]]) -> bool | None:
    """Whether both have the same value at a point; None when one of them has none."""
    for base, power in real_if:
        value, exponent = (part.evalf(_DIGITS, subs=at, maxn=_MOST_DIGITS) for part in (base, power))
        if not (value.is_real and exponent.is_real) or (value < 0 and not float(exponent).is_integer()):
            return None
    for side in (a, b):
        if not _is_finite(side.evalf(_DIGITS, subs=at, maxn=_MOST_DIGITS)):
            return None
    return _is_zero(difference.evalf(_DIGITS, subs=at, maxn=_MOST_DIGITS))


def _undefined(value: Any) -> bool:
    return bool(value.has(sp.nan, sp.zoo, sp.oo, -sp.oo))


def _is_finite(value: Any) -> bool:
    """Whether an evaluation has come to a complex number, and not to a pole or a function without a value."""
    return all((part.is_Float or part.is_Rational) and part.is_finite for part in value.as_real_imag())


def _is_zero(value: Any) -> bool:
    """Whether an evaluated number is zero; evalf leaves one bit of precision where it could find no digit."""
    return _is_finite(value) and all(
        part.is_zero or (part.is_Float and part._prec == 1) for part in value.as_real_imag()
    )


def _real_points(count: int) -> Iterator[tuple[Any, ...]]:
    """Points with positive, negative and mixed signs; no whole numbers, at which much would agree by chance."""
    draw = random.Random(count)
    tops = [top for top in range(15, 290) if top % _PRIME]
    for signs in ((1,), (-1,), (1,), (-1,), (1, -1), (1,), (1, -1), (1, -1)):
        yield tuple(sp.Rational(draw.choice(signs) * draw.choice(tops), _PRIME) for _ in range(count))


def _whole_points(count: int) -> Iterator[tuple[Any, ...]]:
    draw = random.Random(count)
    for start in range(1, 8):
        yield tuple(sp.Integer(start + draw.randrange(3) * (position > 0)) for position in range(count))


def _serve() -> None:
    """Answer questions until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")  # nothing that a library prints can look like an answer
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # its default action ends the process
        try:
            what, *trees = json.loads(line)
            answer = compare(*trees) if what == "compare" else {"value": digits(*trees)}
        except Exception as error:  # whatever sympy raises is an answer too, and the process goes on
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
