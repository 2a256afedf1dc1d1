import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.evals.metrics import (
    clustered_wilson,
    mean_difference,
    paired_difference,
    pass_at_k,
    percent,
    sign_test,
    wilson,
)


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


def test_clusters_of_one_are_independent_trials() -> None:
    low, high = clustered_wilson([(1, 1)] * 80 + [(0, 1)] * 20)
    assert (low, high) == pytest.approx(wilson(80 * 0.99, 99))  # G - 1 instead of G


def test_trials_that_repeat_each_other_tell_nothing_more() -> None:
    once = clustered_wilson([(1, 1)] * 80 + [(0, 1)] * 20)
    assert clustered_wilson([(9, 9)] * 80 + [(0, 9)] * 20) == pytest.approx(once)


def test_the_clustered_interval_by_hand() -> None:
    """p = 0.7; the squares are (2 - 2.1)², (4 - 2.8)², (1 - 2.1)²: variance 3/2 · 2.66 / 100."""
    n = 0.21 / (1.5 * 2.66 / 100)
    assert clustered_wilson([(2, 3), (4, 4), (1, 3)]) == pytest.approx(wilson(0.7 * n, n))


@given(st.lists(st.integers(1, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2))
def test_the_clustered_interval_contains_the_share_and_is_never_the_narrower(clusters: list[tuple[int, int]]) -> None:
    right, n = (sum(column) for column in zip(*clusters, strict=True))
    low, high = clustered_wilson(clusters)
    assert 0 <= low <= right / n + 1e-12
    assert right / n - 1e-12 <= high <= 1
    assert high - low >= wilson(right, n)[1] - wilson(right, n)[0] - 1e-12


def test_one_cluster_tells_nothing_of_others() -> None:
    assert clustered_wilson([(90, 100)]) == clustered_wilson([]) == (0.0, 1.0)
    assert clustered_wilson([(9, 9)] * 12) == wilson(12, 12)


def test_paired_difference_by_hand() -> None:
    """20 - 10 of 100: the middle is 10 / 102, its standard error sqrt(31 / 102 - (10 / 102)²) / sqrt(102)."""
    found, low, high = paired_difference(20, 10, 100)
    assert found == 0.1
    assert ((low + high) / 2, (high - low) / 2) == pytest.approx((10 / 102, 1.959964 * 0.0537161), abs=1e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n))))
def test_the_paired_interval_contains_the_difference(drawn: tuple[int, int, int]) -> None:
    won, lost, n = drawn
    lost = min(lost, n - won)
    found, low, high = paired_difference(won, lost, n)
    assert -1 <= low <= found <= high <= 1
    assert paired_difference(lost, won, n) == pytest.approx((-found, -high, -low))


def test_mean_difference_by_hand() -> None:
    """Differences 0.5, 0 and 0.1: standard deviation sqrt(0.07)."""
    found, low, high = mean_difference([(0.25, 0.75), (1.0, 1.0), (0.5, 0.6)])
    assert (found, (low + high) / 2) == (pytest.approx(0.2), pytest.approx(0.2))
    assert (high - low) / 2 == pytest.approx(1.959964 * math.sqrt(0.07 / 3), abs=1e-6)


def test_one_problem_tells_no_interval() -> None:
    assert mean_difference([(0.0, 0.5)]) == (0.5, -1.0, 1.0)


def test_percent() -> None:
    assert percent(1, 2) == "50.0% [9.5, 90.5]"
    assert percent(0, 0) == "–"
