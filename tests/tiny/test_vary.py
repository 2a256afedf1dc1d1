"""Other programs for the same problem give the same output."""

from __future__ import annotations

import contextlib
import io
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.tiny.family import LEVELS
from rstar.tiny.generate import families
from rstar.tiny.vary import blur, vary


def output(steps: tuple[str, ...]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec("\n".join(steps), {})  # our own reference programs, not a model's
    return out.getvalue()


@pytest.mark.parametrize("name", [name for name, family in families().items() if family.kind != "search"])
def test_varied_programs_give_the_same_output(name: str) -> None:
    for level in LEVELS:
        steps = families()[name].draw(random.Random(level), level, "train").steps
        for seed in range(20):
            assert output(vary(steps, random.Random(seed))) == output(steps)


@pytest.mark.parametrize("name", [name for name, family in families().items() if family.kind == "search"])
def test_programs_of_search_families_stay(name: str) -> None:
    steps = families()[name].draw(random.Random(3), 3, "train").steps
    assert all(vary(steps, random.Random(seed)) == steps for seed in range(20))


def test_what_may_change() -> None:
    steps = ("# 3 at 4", "x = 3 * 4"), ("# 5 more", "t = x + 5")
    written = {vary(("\n".join(steps[0]), "\n".join(steps[1]), "print(t)"), random.Random(seed)) for seed in range(200)}
    assert ("# 3 at 4\nx = 3 * 4", "# 5 more\nt = x + 5", "print(t)") in written
    assert ("# 3 at 4\nx = 4 * 3", "# 5 more\nt = 5 + x", "print(t)") in written
    assert ("# 3 at 4, 5 more\nt = (3 * 4) + 5", "print(t)") in written
    assert {len(one) for one in written} == {2, 3}
    assert all(output(one) == "17\n" for one in written)


@pytest.mark.parametrize(
    "steps",
    [
        ("# n\nn = 4 * 5", "# twice\nx = n + n", "print(x)"),  # used twice
        ("# n\nn = 4 * 5", "# one more\nx = n + 1", "print(x, n)"),  # used later
        ("# n\nn = 4 * 5", "# all of n\nx = n + 1", "print(x)"),  # named in a comment
        ("# n\nn = 4 * 5", "# many\nx = [n for k in range(3)]", "print(x)"),  # would be computed again
    ],
    ids=["twice", "later", "comment", "loop"],
)
def test_results_that_are_needed_stay(steps: tuple[str, ...]) -> None:
    assert all(len(vary(steps, random.Random(seed))) == 3 for seed in range(60))


@given(st.integers(0, 2**32), st.integers(-9, 99), st.integers(1, 99))
def test_order_and_brackets_are_kept(seed: int, a: int, b: int) -> None:
    steps = (f"# first\nx = {a} - {b}", f"# then\ny = x * {b}", f"# last\nz = {b} - y", "print(z)")
    assert output(vary(steps, random.Random(seed))) == output(steps)


def test_blurring_changes_words_only() -> None:
    question = "Ann has 12 pens and buys {3} boxes of 4. How many pens does she have?"
    blurred = {blur(question, ["green"], random.Random(seed)) for seed in range(300)}
    assert question in blurred
    assert any("green" in one for one in blurred)
    assert any(len(one.split()) < len(question.split()) for one in blurred)
    assert all(re.findall(r"[0-9A-Z{}?.]", one) == re.findall(r"[0-9A-Z{}?.]", question) for one in blurred)
    changed = sum(blur(question, ["green"], random.Random(seed)) != question for seed in range(3_000)) / 3_000
    assert 0.3 < changed < 0.5  # of half of them, those with any changed word
