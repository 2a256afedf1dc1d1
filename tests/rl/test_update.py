"""The update: the gradient of a group as one trie equals that of separate rollouts in plain PyTorch."""

import random

import pytest
import torch
from torch import Tensor

from rstar.models.decoder import Decoder
from rstar.rl.algorithms import ALGORITHMS
from rstar.rl.batches import Weighted, micro_batches
from rstar.rl.objective import Clip, Correction, correction
from rstar.rl.update import OldBatch, PolicyObjective, token_logprobs, with_old
from tests.rl.plain import advantages, decoder, group, moved, plain_logprobs

CLIP, LIMIT = Clip(0.2, 0.28, 3.0), 64


def sampled(one: Weighted) -> Tensor:
    return torch.tensor([p for segment in one.trajectory.segments for p in segment.logprobs or ()])


def plain_loss(name: str, model: Decoder, old_model: Decoder, one: Weighted, most: float | None) -> Tensor:
    """The loss of one rollout as the papers write it, times its count, before the mean."""
    new = plain_logprobs(model, one)
    with torch.no_grad():
        old = plain_logprobs(old_model, one)
    weights = torch.ones_like(old) if most is None else (old - sampled(one)).exp().clamp(max=most)
    a = advantages(one)
    if name == "cispo":
        per_token = -(new - old).exp().detach().clamp(1 - CLIP.low, 1 + CLIP.high) * a * new
    else:
        ratio = (new - old).mean().exp().expand_as(new) if name == "gspo" else (new - old).exp()
        gain = torch.minimum(ratio * a, ratio.clamp(1 - CLIP.low, 1 + CLIP.high) * a)
        per_token = -torch.where(a < 0, torch.maximum(gain, 3.0 * a), gain)
    total = (per_token * weights).sum()
    if ALGORITHMS[name].mean == "sequences":
        total = total / len(new)
    return total * one.count


def plain_count(name: str, rollouts: list[Weighted]) -> int:
    if ALGORITHMS[name].mean == "tokens":
        return sum(one.count * len(sampled(one)) for one in rollouts)
    many = sum(one.count for one in rollouts)
    return many * (LIMIT if ALGORITHMS[name].mean == "constant" else 1)


@pytest.mark.parametrize("most", [None, 2.0])
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_gradients_equal_those_of_separate_rollouts(name: str, most: float | None) -> None:
    rng = random.Random(11)
    groups = [group(rng, size) for size in (6, 6, 6, 1, 1)]
    rollouts = [one for each in groups for one in each]
    old_model = decoder(1)
    model, apart = moved(old_model), moved(old_model)
    expected = sum(plain_loss(name, apart, old_model, one, most) for one in rollouts) / plain_count(name, rollouts)
    assert isinstance(expected, Tensor)
    expected.backward()
    objective = PolicyObjective(ALGORITHMS[name], CLIP, Correction(most), LIMIT)
    batches = with_old(old_model, micro_batches(groups, 100), bf16=False)
    assert {batch.batch.ends is None for batch in batches} == {True, False}, "single rollouts are batched apart"
    count = sum(objective.count(batch) for batch in batches)
    assert count == plain_count(name, rollouts)
    loss = sum(objective.loss(model, batch) for batch in batches) / count
    assert isinstance(loss, Tensor)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    for weight, other in zip(model.parameters(), apart.parameters(), strict=True):
        assert weight.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(weight.grad, other.grad, atol=1e-5, rtol=1e-4)


def test_log_probabilities_of_the_trie_are_those_of_each_rollout() -> None:
    rollouts = sorted(group(random.Random(2), 8), key=lambda one: one.trajectory.ids)
    model = decoder(2)
    (batch,) = micro_batches([rollouts], 10_000)
    found, entropies = token_logprobs(model, batch)
    for row, one in zip(found, rollouts, strict=True):
        alone = plain_logprobs(model, one)
        torch.testing.assert_close(row[: len(alone)], alone, atol=1e-5, rtol=1e-5)
        assert not row[len(alone) :].any()
    assert float(entropies.max()) <= torch.tensor(40.0).log() + 1e-5
    assert len(batch.place) < int(batch.mask.sum()), "equal beginnings are computed once"


def test_sequences_that_differ_grossly_are_left_out_and_counted() -> None:
    rollouts, model = group(random.Random(4), 5), decoder(4)
    (batch,) = micro_batches([rollouts], 10_000)
    objective = PolicyObjective(ALGORITHMS["grpo"], Clip(), Correction(None, band=1.0001), LIMIT)
    assert objective.loss(model, OldBatch(batch)).item() == 0.0
    figures = objective.take_figures()
    assert figures.masked == figures.tokens == objective.count(OldBatch(batch))
    assert objective.take_figures().tokens == 0


def test_the_band_is_about_the_geometric_mean_of_a_sequence() -> None:
    sampler = torch.zeros(3, 4)
    old = torch.tensor([[0.5, -0.5, 0.5, -0.5], [0.3, 0.3, 0.3, 9.0], [-0.3, -0.3, -0.3, 0.0]])
    mask = torch.tensor([[1.0] * 4, [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    means = torch.tensor([0.0, 0.3, -0.3]).exp()
    for band in (1.2, 1.5):
        _, stays = correction(old, sampler, mask, Correction(None, band))
        assert stays.tolist() == [1 / band < float(mean) < band for mean in means]


def test_logits_are_float32_also_where_the_model_computes_in_bfloat16() -> None:
    """In bfloat16, log-probabilities of this size would differ by about 0.01."""
    (batch,) = micro_batches([group(random.Random(6), 4)], 10_000)
    model = decoder(6)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        features = model.hidden(batch.ids, batch.ends)[batch.row, batch.before]
        found, _ = token_logprobs(model, batch)
    logs = torch.log_softmax(features.double() @ model.output_weight().detach().double().T, dim=-1)
    exact = logs.gather(1, batch.ids[batch.row, batch.place][:, None])[:, 0][batch.token] * batch.mask
    assert found.dtype == torch.float32
    assert float((found - exact).abs().max()) < 1e-5


def test_the_first_update_has_ratio_one() -> None:
    (batch,) = micro_batches([group(random.Random(5), 4)], 10_000)
    model = decoder(5)
    objective = PolicyObjective(ALGORITHMS["grpo"], Clip(), Correction(None), LIMIT)
    alone = objective.loss(model, OldBatch(batch)).item()
    figures = objective.take_figures()
    assert (figures.clipped, figures.drift) == (0, 0)
    weights = (batch.advantages * batch.mask).sum(1) * batch.counts
    assert alone == pytest.approx(-float(weights.sum()), rel=1e-5)


def test_rows_stay_short_and_hold_every_rollout_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rstar.rl.batches.ROW_TOKENS", 40)
    rollouts = group(random.Random(8), 12)
    batches = micro_batches([rollouts], 200)
    assert sum(len(batch.counts) for batch in batches) == len(rollouts)
    longest = max(len(one.trajectory.ids) for one in rollouts)
    assert max(batch.ids.shape[1] for batch in batches) <= max(40, longest) + 16
    found = sorted(float(one[0]) for batch in batches for one in batch.advantages)
    assert found == pytest.approx(sorted(float(advantages(one)[0]) for one in rollouts))
