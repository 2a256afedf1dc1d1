"""Changes of low rank: the largest components of a training's change, and nothing else."""

import copy
from pathlib import Path

import pytest
import torch

from rstar.agent.solver import AgentSolver
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import load_decoder
from rstar.models.engine import Weights
from rstar.rl.evaluation import Evaluations
from rstar.rl.low_rank import largest_components, with_low_rank_change
from tests.models.tiny_models import write_model
from tests.rl.trainings import config, here, run, without_times

__all__ = ["here"]


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (12, 12), (1, 5)])
@pytest.mark.parametrize("rank", [1, 3])
def test_no_matrix_of_that_rank_is_nearer(shape: tuple[int, int], rank: int) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    sizes = torch.linalg.svdvals(matrix)
    found = largest_components(matrix, rank)
    assert torch.linalg.svdvals(found)[rank:].sum() < 1e-4
    assert (matrix - found).norm() <= 1.001 * sizes[rank:].norm() + 1e-6


def test_equal_matrices_have_equal_components_whatever_was_drawn_before() -> None:
    matrix = torch.randn(30, 40)
    torch.manual_seed(1)
    first, drawn = largest_components(matrix, 2), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), drawn)  # the caller's random numbers go on as if nothing had happened
    assert torch.equal(largest_components(matrix, 2), first)


def test_vectors_keep_their_change_and_the_trained_model_its_weights(tmp_path: Path) -> None:
    write_model(tmp_path / "start", spread=0.05)
    start, trained = _load(tmp_path / "start"), _load(tmp_path / "start")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in trained.parameters():
            weight.add_(0.01 * torch.randn(weight.shape, generator=generator))
    before = {name: weight.clone() for name, weight in trained.named_parameters()}
    found = dict(with_low_rank_change(trained, start, 2).named_parameters())
    for name, weight in start.named_parameters():
        assert torch.equal(dict(trained.named_parameters())[name], before[name])
        if weight.ndim == 1:
            assert torch.equal(found[name], before[name])
        else:
            sizes = torch.linalg.svdvals(found[name] - weight)
            assert sizes[1] > 0.05
            assert sizes[2:].max() < 1e-5


def test_only_what_is_evaluated_has_low_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts and updates are the same with and without `delta_rank`."""
    loaded: list[Weights] = []
    evaluated: list[Decoder] = []
    load, evaluate = AgentSolver.load, Evaluations.evaluate

    async def noted_load(self: AgentSolver, weights: Weights, version: int) -> None:
        loaded.append(weights)
        await load(self, weights, version)

    async def noted_evaluate(self: Evaluations, step: int, model: Decoder) -> None:
        if step:
            assert model is loaded[-1]  # the engine has what is evaluated
            evaluated.append(copy.deepcopy(model))
        await evaluate(self, step, model)

    monkeypatch.setattr(AgentSolver, "load", noted_load)
    monkeypatch.setattr(Evaluations, "evaluate", noted_evaluate)
    settings = config(tmp_path, ahead=1)
    low = settings.model_copy(update={"delta_rank": 1})
    run(low, tmp_path / "low", stop_after=3)
    run(low, tmp_path / "low")
    start = _load(tmp_path / "policy")
    for model in evaluated:
        for name, weight in model.named_parameters():
            sizes = torch.linalg.svdvals(weight - start.get_parameter(name)) if weight.ndim == 2 else torch.ones(2)
            assert sizes[0] > 1e-4
            assert weight.ndim == 1 or sizes[1] < 1e-2 * sizes[0], name
    assert len(evaluated) == 3  # after step 2, after going on from its checkpoint, and after step 4
    run(settings, tmp_path / "whole")
    assert without_times(tmp_path / "low" / "metrics.jsonl") == without_times(tmp_path / "whole" / "metrics.jsonl")
    last = [torch.load(tmp_path / name / "checkpoint.pt")["model"] for name in ("low", "whole")]
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])


def _load(folder: Path) -> Decoder:
    return load_decoder(folder, torch.float32)
