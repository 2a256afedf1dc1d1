"""Sampling: the right distribution, from a stream that depends on nothing but its key and position."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.models.local.sampling import Taken, choose, stream_key, uniforms


def draw(
    logits: torch.Tensor, temperature: float, top_p: float, uniform: torch.Tensor
) -> tuple[list[int], torch.Tensor]:
    count = len(logits)
    settings = torch.full((count,), temperature), torch.full((count,), top_p)
    chosen, logprobs = choose(logits, *settings, uniform, torch.arange(count))
    return chosen.tolist(), logprobs


def test_uniforms_look_uniform_and_independent() -> None:
    keys = np.array([stream_key(7, i) for i in range(200)], np.uint64)
    values = np.stack([uniforms(keys, np.full(200, position)) for position in range(200)])
    assert 0 <= values.min() < 1e-3
    assert 0.999 < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.005
    assert abs(values.var() - 1 / 12) < 0.003
    for shifted in (values[1:] * values[:-1], values[:, 1:] * values[:, :-1]):
        assert abs(shifted.mean() - 0.25) < 0.005
    assert len({stream_key(seed, i) for seed in range(50) for i in range(50)}) == 2500


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.7), (1.0, 0.3)])
def test_frequencies_are_the_distribution(temperature: float, top_p: float) -> None:
    logits = torch.randn(12, generator=torch.Generator().manual_seed(3)) * 2
    expected = torch.softmax(logits / temperature, -1)
    order = expected.argsort(descending=True)
    mass = expected[order].cumsum(-1)
    kept = order[: int((mass < top_p).sum()) + 1]
    nucleus = torch.zeros_like(expected)
    nucleus[kept] = expected[kept] / expected[kept].sum()
    n = 40_000
    uniform = (torch.arange(n) + 0.5) / n
    chosen, logprobs = draw(logits.expand(n, -1), temperature, top_p, uniform)
    counts = torch.bincount(torch.tensor(chosen), minlength=12) / n
    torch.testing.assert_close(counts, nucleus, atol=1e-4, rtol=0)
    torch.testing.assert_close(logprobs, torch.log_softmax(logits, -1)[chosen], atol=1e-6, rtol=1e-6)


def test_greedy_rows_beside_sampled_ones() -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    temperature, top_p = torch.tensor([0.0, 1.0, 0.0, 1e-9]), torch.tensor([1.0, 1.0, 0.5, 1.0])
    chosen, _ = choose(logits, temperature, top_p, torch.full((4,), 0.999), torch.arange(4))
    best = logits.argmax(-1).tolist()
    assert [chosen[i] for i in (0, 2, 3)] == [best[i] for i in (0, 2, 3)]
    assert chosen[1] != best[1]


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(0, 3), st.floats(0.01, 1), st.integers(0, 6))
def test_a_row_is_chosen_alone(seed: int, temperature: float, top_p: float, row: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits, uniform = torch.randn(7, 40, generator=generator), torch.rand(7, generator=generator)
    temperatures, masses = torch.rand(7, generator=generator), torch.rand(7, generator=generator) + 0.3
    temperatures[row], masses[row] = temperature, top_p
    together, _ = choose(logits, temperatures, masses, uniform, torch.arange(7))
    one = slice(row, row + 1)
    alone, _ = choose(logits[one], temperatures[one], masses[one], uniform[one], torch.zeros(1, dtype=torch.int64))
    assert together[row] == alone[0]


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(0, 3), st.floats(0.01, 1), st.integers(1, 9))
def test_samples_of_a_row_are_chosen_as_if_each_had_a_row(seed: int, temperature: float, top_p: float, n: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits, uniform = torch.randn(3, 40, generator=generator), torch.rand(n, generator=generator)
    row_of = torch.randint(3, (n,), generator=generator)
    together, logprobs = choose(logits, torch.full((3,), temperature), torch.full((3,), top_p), uniform, row_of)
    apart = choose(logits[row_of], torch.full((n,), temperature), torch.full((n,), top_p), uniform, torch.arange(n))
    assert together.tolist() == apart[0].tolist()
    assert logprobs.tolist() == apart[1].tolist()


def test_impossible_tokens_are_never_drawn() -> None:
    logits = torch.tensor([[0.0, 1.0, -torch.inf]])
    for top_p in (1.0, 0.999):
        assert draw(logits, 1.0, top_p, torch.tensor([1 - 2.0**-24]))[0] != [2]


def test_what_is_known_is_not_drawn_again_and_the_rest_in_proportion() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.25, 0.25, 0.25, 0.25]]))
    uniform = torch.linspace(0, 0.999, 200)
    rows = torch.zeros(200, dtype=torch.int64)
    taken = Taken(torch.tensor([0, 0, 0]), torch.tensor([0, 1, 1]), torch.tensor([0.5, 0.1, 0.1]))
    ones = torch.ones(2)
    drawn, logprobs = choose(logits, ones, ones, uniform, rows, taken)
    shares = torch.bincount(drawn, minlength=4) / 200
    assert shares.tolist() == pytest.approx([0, 1 / 3, 1 / 2, 1 / 6], abs=0.01)
    assert torch.allclose(logprobs, logits[0, drawn]), "log-probabilities are those of the model"
    other, _ = choose(logits, ones, ones, uniform, rows + 1, taken)
    assert torch.equal(other, choose(logits, ones, ones, uniform, rows + 1)[0]), "other rows are not touched"
    everything = Taken(torch.zeros(4, dtype=torch.int64), torch.arange(4), torch.tensor([0.5, 0.3, 0.15, 0.05]))
    again, _ = choose(logits, ones, ones, uniform, rows, everything)
    assert torch.equal(again, choose(logits, ones, ones, uniform, rows)[0])
