"""Metrics with their uncertainty. Every share is reported with n and an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

Z95 = 1.959963984540054


def wilson(successes: float, n: float) -> tuple[float, float]:
    """95% Wilson score interval of a share (Wilson 1927); (0, 1) for n = 0.

    Args:
        successes: 0 … n.
        n: number of independent trials; may be fractional (effective number of trials).

    Returns:
        Lower and upper bound, in [0, 1].
    """
    if n == 0:
        return 0.0, 1.0
    share, z2 = successes / n, Z95 * Z95
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At 0 and n the bound is exact: rounding must not exclude the share itself.
    return 0.0 if successes == 0 else middle - half, 1.0 if successes == n else middle + half


def clustered_wilson(clusters: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """95% confidence interval of a share whose trials are clustered, such as the pairs of one problem.

    The clustered variance of the share p (Liang & Zeger 1986; Miller 2024, arXiv 2411.00640) is
    G / (G - 1) · Σ_g (s_g - p · n_g)² / n², over G clusters g with s_g successes of n_g trials, n = Σ n_g. The interval
    is Wilson's for the effective number of trials, p(1 - p) / variance, at most n (Korn & Graubard 1998). If all or
    none
    of the trials succeed, each cluster counts as one trial. Clusters are independent of each other.

    Args:
        clusters: (successes, trials) of each, at least one trial.

    Returns:
        Lower and upper bound, in [0, 1]; (0, 1) for fewer than two clusters.
    """
    if len(clusters) < 2:
        return 0.0, 1.0
    n = sum(trials for _, trials in clusters)
    share = sum(right for right, _ in clusters) / n
    if share in (0, 1):
        return wilson(share * len(clusters), len(clusters))
    squares = sum((right - share * trials) ** 2 for right, trials in clusters)
    variance = len(clusters) / (len(clusters) - 1) * squares / n**2
    effective = min(n, share * (1 - share) / variance) if variance else n
    return wilson(share * effective, effective)


def paired_difference(won: int, lost: int, n: int) -> tuple[float, float, float]:
    """Difference in accuracy of two methods on the same problems, with its 95% confidence interval.

    Wald's interval for paired shares, with half a problem added to each of the four outcomes (Agresti & Min 2005).

    Args:
        won: problems solved only by the first method.
        lost: problems solved only by the second.
        n: number of problems, at least one.

    Returns:
        The difference of the two shares, its lower and its upper bound, in [-1, 1].
    """
    more, middle = n + 2, (won - lost) / (n + 2)
    half = Z95 * math.sqrt((won + lost + 1) / more - middle**2) / math.sqrt(more)
    return (won - lost) / n, max(-1.0, middle - half), min(1.0, middle + half)


def mean_difference(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Mean difference of two shares that are measured for each problem, with its 95% confidence interval.

    Normal interval of the mean of the problems' differences (Miller 2024, arXiv 2411.00640).

    Args:
        pairs: per problem, at least one, the first and the second share.

    Returns:
        The mean of second − first, its lower and its upper bound, in [-1, 1]; the bounds are -1 and 1 for one problem.
    """
    differences = [second - first for first, second in pairs]
    mean, n = fmean(differences), len(differences)
    half = Z95 * stdev(differences) / math.sqrt(n) if n > 1 else 2.0
    return mean, max(-1.0, mean - half), min(1.0, mean + half)


def mean_of_runs(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean over training runs of different seeds, and half of its 95% interval (Student's t); None for one run."""
    if len(values) < 2:
        return fmean(values), None
    return fmean(values), _student(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def run_difference(values: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """Difference of the means of two settings, each with two or more runs, and half of its 95% interval (Welch 1947).

    The degrees of freedom are rounded down, so the interval is rather too wide.
    """
    shares = [stdev(runs) ** 2 / len(runs) for runs in (values, others)]
    difference = fmean(values) - fmean(others)
    if not sum(shares):
        return difference, 0.0
    freedom = sum(shares) ** 2 / sum(
        share**2 / (len(runs) - 1) for share, runs in zip(shares, (values, others), strict=True)
    )
    return difference, _student(max(1, math.floor(freedom))) * math.sqrt(sum(shares))


def _student(freedom: int) -> float:
    """The 97.5% point of Student's t distribution, to three digits behind the point."""
    exact = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
    if freedom <= len(exact):
        return exact[freedom - 1]
    z = Z95
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased pass@k of one problem (Chen et al. 2021, section 2.1): 1 − C(n − c, k) / C(n, k).

    NaN when n < k: fewer than k samples say nothing about k samples.
    """
    if n < k:
        return math.nan
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def sign_test(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Two-sided exact p-value that two methods are equally good, from paired outcomes (McNemar's exact test).

    Args:
        pairs: per problem, whether the first and whether the second method solved it.
    """
    first = sum(a and not b for a, b in pairs)
    second = sum(b and not a for a, b in pairs)
    n = first + second
    tail: float = sum(math.comb(n, i) for i in range(min(first, second) + 1)) / (1 << n)
    return min(1.0, 2 * tail)


def percent(successes: int, n: int) -> str:
    """``61.2% [57.0, 65.3]``: a share with its 95% interval; a dash for n = 0."""
    if n == 0:
        return "–"
    low, high = wilson(successes, n)
    return f"{100 * successes / n:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"
