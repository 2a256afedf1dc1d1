"""The benchmark compares like with like."""

from __future__ import annotations

from pathlib import Path

import pytest

from rstar.models.bench import (
    SHAPES,
    EngineFigures,
    Work,
    bench_engine,
    ragged_work,
    text_work,
    uniform_work,
    write_random_model,
)  # fmt: skip
from rstar.models.spec import local_folder
from rstar.prompts import code_steps as prompt
from rstar.specs import Bundled


@pytest.mark.parametrize("work", [uniform_work(4), ragged_work(4)])
def test_both_engines_write_the_same(tmp_path: Path, work: Work) -> None:
    write_random_model(tmp_path, SHAPES["2M"])
    figures = bench_engine(tmp_path, work, rounds=1)
    assert figures.equal == 1
    assert min(figures.local, figures.transformers) > 0


def test_both_engines_end_where_the_model_stops() -> None:
    texts = [prompt.prompt("What is 2 + 3?"), prompt.prompt("A book costs 12 dollars. What do 7 of them cost?")]
    folder = local_folder(Bundled())
    work = text_work(folder, texts, prompt.END_CODE, 200)
    assert len(work.prompts[0]) < len(work.prompts[1])
    assert bench_engine(folder, work, rounds=1).equal == 1


def test_ragged_work_ends_at_many_lengths() -> None:
    work = ragged_work(100)
    assert len(work.prompts) == len(work.limits)
    assert len(set(work.limits)) > 50


def test_ratio() -> None:
    assert EngineFigures(30.0, 10.0, 1.0).ratio == 3
