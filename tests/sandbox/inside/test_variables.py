"""The values of variables after a step."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from rstar.sandbox.api import Limits
from rstar.sandbox.inside.variables import MAX_LENGTH, MAX_VARIABLES, new_values
from rstar.sandbox.parent.execution import read_report
from rstar.sandbox.parent.local import LocalState
from tests.sandbox.conftest import Box


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (7, "7"),
        (-2.5, "-2.5"),
        (True, "True"),
        (10**30, str(10**30)),
        (10**100, None),
        ("abc", "'abc'"),
        ("a" * 50, None),
        ("é", None),
        (Fraction(1, 3), "1/3"),
        (Decimal("0.10"), "0.10"),
        (sympy.Integer(4), "4"),
        (sympy.Rational(2, 3), "2/3"),
        (sympy.oo, None),
        (sympy.Symbol("x"), None),
        (np.int64(5), "5"),
        (np.float64(0.5), "0.5"),
        (np.arange(3), None),
        ([1, 2.5, "a"], "[1, 2.5, 'a']"),
        ((1, 2), "(1, 2)"),
        ([[1]], None),
        (list(range(20)), None),
        ({1: 2}, None),
        (None, None),
        (sum, None),
    ],
)
def test_what_can_be_told(value: Any, shown: str | None) -> None:
    assert new_values({}, {"x": value}, 4) == ([] if shown is None else [("x", shown)])


def test_only_what_is_bound_anew() -> None:
    one = [1]
    before = {"kept": one, "again": 1, "other": 1, "_hidden": 1}
    assert new_values(before, before | {"other": 2, "new": 3, "_hidden": 4}, 4) == [("other", "2"), ("new", "3")]


@given(st.dictionaries(st.text(max_size=60), st.integers() | st.text() | st.lists(st.floats())), st.integers(1, 99))
def test_a_report_stays_short(space: dict[str, Any], most: int) -> None:
    found = new_values({}, space, most)
    assert len(found) <= min(most, MAX_VARIABLES)
    assert all(len(text) <= MAX_LENGTH for pair in found for text in pair)
    assert len(json.dumps({"status": "ok", "values": found})) < 4096  # what a keeper reads at once


def test_a_step_tells_its_values(box: Box) -> None:
    async def run() -> list[tuple[tuple[str, str], ...]]:
        state: LocalState | None = box.sandbox.start()
        found = []
        for code, values in (
            ("a = 1\nb = a / 4\nc = [a, b]", 2),
            ("b = b\nimport math\ndef f(): pass", 2),
            ("a = 5\n1 / 0", 2),
            ("d = a + 1", 0),
            ("class Odd:\n    __module__ = 'fractions'\n    def __str__(self): raise ValueError\ne = Odd()", 2),
        ):
            assert state is not None
            state, result = await state.run(code, Limits(values=values))
            found.append(result.values)
        assert result.ok
        return found

    assert box.do(run()) == [(("b", "0.25"), ("c", "[1, 0.25]")), (), (), (), ()]


def test_a_step_tells_what_it_changed_in_place(box: Box) -> None:
    codes = (
        "a, b = [3], []\nclass Odd:\n    __module__ = 'fractions'\n    def __str__(self): 1 / 0\nodd = Odd()",
        "b.append(a.pop())",
        "b.append([])",
        "b.pop()",
        "c, a = 1, a",
    )

    async def run(in_place: bool) -> list[tuple[tuple[str, str], ...]]:
        state: LocalState | None = box.sandbox.start()
        found = []
        for code in codes:
            assert state is not None
            state, result = await state.run(code, Limits(values=4, in_place=in_place))
            assert result.ok
            found.append(result.values)
        return found[1:]

    assert box.do(run(True)) == [(("a", "[]"), ("b", "[3]")), (), (("b", "[3]"),), (("c", "1"),)]
    assert box.do(run(False)) == [(), (), (), (("c", "1"),)]


@pytest.mark.parametrize("values", [5, [1], [["x"]], [["x", 3]], {"x": "y"}, [[["x"], "3"]]])
def test_a_report_of_another_form_is_not_believed(values: Any) -> None:
    assert read_report(json.dumps({"status": "ok", "values": values})).status == "killed"


def test_what_a_report_claims_is_cut() -> None:
    found = read_report(json.dumps({"status": "ok", "values": [["\ud800" * 99, "3"]]}))
    assert found.values == (("?" * MAX_LENGTH, "3"),)
