"""Metrics with their uncertainty. Every share is reported with n and an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z95 = 1.959963984540054


def wilson(successes: int, n: int) -> tuple[float, float]:
    """95% confidence interval of a share, by Wilson's score (Wilson 1927); (0, 1) for n = 0.

    Args:
        successes: 0 … n.
        n: trials, independent of each other.

    Returns:
        Lower and upper bound, in [0, 1].
    """
    if n == 0:
        return 0.0, 1.0
    share, z2 = successes / n, Z95 * Z95
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At the ends the bound is exact; rounding must not put the share outside its own interval.
    return 0.0 if successes == 0 else middle - half, 1.0 if successes == n else middle + half


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased pass@k of one problem (Chen et al. 2021, section 2.1): 1 − C(n − c, k) / C(n, k).

    NaN when n < k: fewer samples than k say nothing of k samples.
    """
    if n < k:
        return math.nan
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def sign_test(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Two-sided exact p-value that two methods are equally good, from paired outcomes (McNemar's exact test).

    Args:
        pairs: for each problem, whether the first and whether the second method solved it.
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
