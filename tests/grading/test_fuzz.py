"""`tests.grading.fuzz` finds nothing: briefly, and for ten minutes."""

import pytest

from tests.grading.fuzz import run


@pytest.mark.parametrize(
    ("seed", "limits"), [(1, {"pairs": 1_000}), pytest.param(2, {"seconds": 600.0}, marks=pytest.mark.soak)]
)
def test_random_latex(seed: int, limits: dict[str, float]) -> None:
    outcomes, wrong = run(seed, **limits)
    assert not wrong
    assert outcomes["wrong"]
    assert outcomes["correct"]
    assert outcomes["unparseable"]
