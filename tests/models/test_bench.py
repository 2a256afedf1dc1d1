"""The benchmark compares like with like."""

from __future__ import annotations

import pytest

from rstar.models.bench import EngineFigures, compare


@pytest.mark.parametrize("ragged", [False, True])
def test_both_engines_write_the_same(ragged: bool) -> None:
    figures = compare("2M", "float32", ragged, rounds=1, new_tokens=4)
    assert figures.equal == 1
    assert min(figures.engine_tokens_per_second, figures.transformers_tokens_per_second) > 0
    assert figures.name == f"Llama 2M, float32, {'ragged' if ragged else 'uniform'}"


def test_ratio() -> None:
    assert EngineFigures("x", 30.0, 10.0, 1.0).ratio == 3
