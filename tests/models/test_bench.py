"""The benchmark compares like with like."""

from __future__ import annotations

import pytest

from rstar.models.bench import EngineFigures, bench_engine


@pytest.mark.parametrize("ragged", [False, True])
def test_both_engines_write_the_same(ragged: bool) -> None:
    figures = bench_engine("2M", ragged=ragged, rounds=1, new_tokens=4)
    assert figures.equal == 1
    assert min(figures.local, figures.transformers) > 0


def test_ratio() -> None:
    assert EngineFigures(30.0, 10.0, 1.0).ratio == 3
