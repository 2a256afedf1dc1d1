"""The warm interpreter is chosen by what the code names."""

from __future__ import annotations

import time

import pytest

from rstar.sandbox.tiers import Tier, tier_of

from .conftest import Box


@pytest.mark.parametrize(
    ("code", "tier"),
    [
        ("print(1)", "bare"),
        ("import sympy", "math"),
        ("from numpy.linalg import det", "numpy"),
        ("import math, numpy as np", "numpy"),
        ("__import__('sympy')", "math"),
        ("import numpy\nfrom mpmath import pi", "math"),
        ("mysympy = 1", "bare"),
        ("import random, fractions", "bare"),
    ],
)
def test_tier_of(code: str, tier: Tier) -> None:
    assert tier_of(code) == tier


def test_both_tiers_give_the_same(box: Box) -> None:
    for code in ("1 + 1", "import sys\nsorted(vars())", "import os\nos.getcwd()", "import random\nrandom.random()"):
        assert box.run(code).stdout == box.run(f"{code}  # sympy").stdout


def test_packages_are_warm_in_the_math_tier(box: Box) -> None:
    assert box.run("import sys\n'sym' 'py' in sys.modules, 'num' 'py' in sys.modules").stdout == "(False, False)\n"
    warm = "import sys\n'sympy' in sys.modules, 'numpy' in sys.modules  # sympy, numpy"
    assert box.run(warm).stdout == "(True, True)\n"
    assert not box.run("import sys\n[name for name in sys.modules if 'rstar' in name]  # numpy").stdout.strip("[]\n")


def test_values_are_right(box: Box) -> None:
    code = "from sympy import symbols, solve\nx = symbols('x')\nsolve(x**2 - 5*x + 6, x)"
    assert box.run(code).stdout == "[2, 3]\n"
    assert (
        box.run("import numpy as np\nnp.arange(4).reshape(2, 2) @ np.eye(2)").stdout
        == "array([[0., 1.],\n       [2., 3.]])\n"
    )


def test_numbers_at_random_start_from_the_same_seed(box: Box) -> None:
    code = "import numpy as np\nnp.random.rand(2)"
    assert box.run(code).stdout == box.run(code).stdout


def test_a_cheap_start_moves_to_the_math_tier(box: Box) -> None:
    first, second, third = box.steps(
        "x = 3\nimport sys", "import sympy\nsympy.Integer(x) ** 2", "'numpy' in sys.modules"
    )
    assert (first.stdout, second.stdout, third.stdout) == ("", "9\n", "True\n")


def test_a_dear_start_stays_and_imports(box: Box) -> None:
    async def steps() -> tuple[float, str]:
        start = box.sandbox.start()
        state, _ = await start.run("import time\nprint(time.monotonic())\ntime.sleep(0.3)")
        assert state is not None
        before = time.monotonic()
        after, result = await state.run("import numpy\nint(numpy.ones(3).sum())")
        assert after is not None
        for one in (start, state, after):
            one.release()
        return before, result.stdout

    assert box.do(steps())[1] == "3\n"
    assert {tree.tier for tree in box.sandbox._states.trees} <= {"bare", "math"}
