import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.evals.metrics import pass_at_k, percent, sign_test, wilson


def test_wilson_by_hand() -> None:
    """Values of the worked example in Brown, Cai & DasGupta (2001) form: 50 of 100."""
    low, high = wilson(50, 100)
    assert (round(low, 4), round(high, 4)) == (0.4038, 0.5962)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_share_and_shrinks(drawn: tuple[int, int]) -> None:
    right, n = drawn
    low, high = wilson(right, n)
    assert 0 <= low <= right / n <= high <= 1
    wider = wilson(right * 4, n * 4)
    assert wider[1] - wider[0] < high - low


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_subsets_with_a_success(drawn: tuple[int, int, int]) -> None:
    n, correct, k = drawn
    subsets = list(combinations([True] * correct + [False] * (n - correct), k))
    assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_pass_at_k_of_too_few_samples_is_unknown() -> None:
    assert math.isnan(pass_at_k(4, 4, 8))


def test_sign_test() -> None:
    assert sign_test([(True, True)] * 50 + [(False, False)] * 50) == 1.0
    assert sign_test([(True, False)] * 6) == pytest.approx(2 / 64)
    assert sign_test([(True, False)] * 5 + [(False, True)] * 5) == 1.0
    assert sign_test([(True, False)] * 3000) < 1e-300


def test_percent() -> None:
    assert percent(1, 2) == "50.0% [9.5, 90.5]"
    assert percent(0, 0) == "–"
