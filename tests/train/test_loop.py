"""The loop: its schedule, its steps, its random numbers."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from rstar.errors import DataError, StorageError, TrainingError
from rstar.models.decoder_files import load_decoder
from rstar.train.checkpoint import load, save
from rstar.train.data import tokenize
from rstar.train.loop import Trainer, build_optimizers, schedule
from rstar.train.ranks import Ranks
from rstar.train.sft import Supervised
from tests.train.trainings import CONFIG, StopError, prepare, train


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    prepare(folder)
    return folder


@pytest.mark.parametrize("step", range(0, 100, 7))
def test_schedule(step: int) -> None:
    factor = schedule(step, 100, warmup=10, decay=0.5)
    if 10 <= step < 50:
        assert factor == 1
    else:
        assert 0 < factor < 1
    assert schedule(step, 100, 0, 0) == 1
    assert schedule(min(step, 40), 200, 10, 0.5) == schedule(min(step, 40), 100, 10, 0.5)


def test_random_numbers_of_an_objective_survive_an_interruption(home: Path, tmp_path: Path) -> None:
    """An objective that draws from torch's generator, and another user of that generator in between."""
    whole = train("noisy", home, tmp_path / "whole")
    torch.rand(7)
    with pytest.raises(StopError):
        train("noisy", home, tmp_path / "parts", stop=3)
    torch.rand(11)
    rest = train("noisy", home, tmp_path / "parts")
    assert rest == whole[2:]
    first, second = (torch.load(tmp_path / name / "checkpoint.pt")["model"] for name in ("whole", "parts"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert whole != train("sft", home, tmp_path / "plain")


def test_a_damaged_checkpoint_is_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(StopError):
        train("sft", home, tmp_path / "out", stop=3)
    file = tmp_path / "out" / "checkpoint.pt"
    whole = file.read_bytes()
    for damaged in (b"", whole[:100], whole[: len(whole) // 2], b"x" + whole[1:]):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"checkpoint\.pt: damaged; without it the training begins again"):
            train("sft", home, tmp_path / "out")
    file.write_bytes(whole)
    assert train("sft", home, tmp_path / "out")


def test_a_checkpoint_that_cannot_be_written_keeps_the_one_before(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    save(tmp_path / "checkpoint.pt", 1, model, [], main=True)
    (tmp_path / "checkpoint.part").mkdir()
    with pytest.raises(StorageError, match=r"cannot write .*checkpoint\.part; checkpoint\.pt is kept"):
        save(tmp_path / "checkpoint.pt", 2, model, [], main=True)
    assert load(tmp_path / "checkpoint.pt", model, []) == 1


def test_random_numbers_differ_from_step_to_step_and_by_seed(home: Path, tmp_path: Path) -> None:
    drawn: dict[int, list[float]] = {}
    for seed in (3, 4):
        drawn[seed] = []
        train("noisy", home, tmp_path / str(seed), seed=seed, spy=drawn[seed].append)
    assert len(set(drawn[3] + drawn[4])) == len(drawn[3] + drawn[4]) > 20


def test_a_loss_that_is_no_number_ends_the_training(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = Supervised.loss
    monkeypatch.setattr(Supervised, "loss", lambda *given: loss(*given) * float("nan"))
    with pytest.raises(TrainingError, match="step 1: the loss is nan"):
        train("sft", home, tmp_path)
    assert not (tmp_path / "checkpoint.pt").exists()


def test_metrics_say_how_the_step_was_made(home: Path, tmp_path: Path) -> None:
    losses = train("sft", home, tmp_path)
    row = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert row.keys() == {"step", "loss", "lr_factor", "grad_norm", "tokens_per_second"}
    assert row["step"] == len(losses)
    assert row["loss"] == pytest.approx(losses[-1], abs=1e-5)
    assert row["lr_factor"] == pytest.approx(schedule(len(losses) - 1, len(losses), 0, 0.5), abs=1e-5)
    assert row["grad_norm"] > 0


def test_epochs_are_passes_over_the_data(home: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(home / "base" / "tokenizer.json"))
    tokens, _ = tokenize([home / "train.jsonl"], tokenizer, 0, 1024)
    for epochs in (1.0, 2.5):
        config = CONFIG.model_copy(update={"epochs": epochs})
        objective = Supervised(tokens, config)
        model = load_decoder(home / "base")
        trainer = Trainer(model, objective, config, tmp_path, Ranks(0, 1, torch.device("cpu")))
        assert trainer.steps == round(epochs * objective.steps_per_epoch)
        seen = [len(b.ids) for step in range(objective.steps_per_epoch) for b in objective.micro_batches(step)]
        assert sum(seen) == len(tokens)


def test_adamw_for_everything(home: Path) -> None:
    model = load_decoder(home / "base")
    (optimizer,) = build_optimizers(model, CONFIG.model_copy(update={"optimizer": "adamw", "weight_decay": 0.1}))
    (group,) = optimizer.param_groups
    assert len(group["params"]) == len(list(model.parameters()))
    assert (group["lr"], group["weight_decay"]) == (CONFIG.other_lr, 0.1)
    assert [type(one).__name__ for one in build_optimizers(model, CONFIG)] == ["Muon", "AdamW"]
