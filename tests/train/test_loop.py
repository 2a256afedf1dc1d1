"""The loop: its schedule, its steps, its random numbers."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from rstar.errors import DataError, StorageError, TrainingError
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import load_decoder
from rstar.train.checkpoint import load, save
from rstar.train.data import Batch, TokenSet, tokenize
from rstar.train.loop import Objective, Progress, Trainer, build_optimizers, run, schedule
from rstar.train.losses import sft_loss
from rstar.train.ranks import Ranks
from rstar.train.settings import TrainConfig
from rstar.train.sft import SupervisedObjective, sft_batches
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
        with pytest.raises(DataError, match=r"checkpoint\.pt: damaged; delete it to train from the beginning"):
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


def test_a_full_disk_is_named_and_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(state: object, file: Path) -> None:
        file.write_bytes(b"half")
        raise RuntimeError("unexpected pos 64 vs 0")

    monkeypatch.setattr(torch, "save", fail)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(StorageError, match=r"checkpoint\.pt is kept: no space left on the disk"):
        save(tmp_path / "checkpoint.pt", 1, nn.Linear(2, 2), [], main=True)
    assert not list(tmp_path.iterdir())


def test_random_numbers_differ_from_step_to_step_and_by_seed(home: Path, tmp_path: Path) -> None:
    drawn: dict[int, list[float]] = {}
    for seed in (3, 4):
        drawn[seed] = []
        train("noisy", home, tmp_path / str(seed), seed=seed, spy=drawn[seed].append)
    assert len(set(drawn[3] + drawn[4])) == len(drawn[3] + drawn[4]) > 20


def test_a_loss_that_is_no_number_ends_the_training(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = SupervisedObjective.loss
    monkeypatch.setattr(SupervisedObjective, "loss", lambda *given: loss(*given) * float("nan"))
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


def tokens_of(home: Path) -> TokenSet:
    tokenizer = Tokenizer.from_file(str(home / "base" / "tokenizer.json"))
    return tokenize([home / "train.jsonl"], tokenizer, 0, 1024)[0]


def trainer_of(home: Path, config: TrainConfig, objective: Objective[Decoder, Batch]) -> Trainer[Decoder]:
    model = load_decoder(home / "base", torch.float32)
    return Trainer(model, objective, config, Ranks(0, 1, torch.device("cpu")))


def test_epochs_are_passes_over_the_data(home: Path, tmp_path: Path) -> None:
    tokens = tokens_of(home)
    for epochs in (1.0, 2.5):
        config = CONFIG.model_copy(update={"epochs": epochs})
        data, again = (sft_batches(tokens, config) for _ in range(2))
        told: list[Progress] = []
        (folder := tmp_path / str(epochs)).mkdir()
        run(trainer_of(home, config, SupervisedObjective()), data, folder, told.append)
        steps = round(epochs * data.steps_per_epoch)
        assert [(one.step, one.steps) for one in told] == [(step, steps) for step in range(1, steps + 1)]
        seen = [len(b.ids) for step in range(again.steps_per_epoch) for b in again.of_step(step)]
        assert sum(seen) == len(tokens)


@pytest.mark.parametrize(("name", "kind"), [("adamw", "AdamW"), ("sgd", "SGD")])
def test_one_optimizer_for_everything(home: Path, name: str, kind: str) -> None:
    model = load_decoder(home / "base")
    (optimizer,) = build_optimizers(model, CONFIG.model_copy(update={"optimizer": name, "weight_decay": 0.1}))
    assert type(optimizer).__name__ == kind
    (group,) = optimizer.param_groups
    assert len(group["params"]) == len(list(model.parameters()))
    assert (group["lr"], group["weight_decay"]) == (CONFIG.other_lr, 0.1)
    assert [type(one).__name__ for one in build_optimizers(model, CONFIG)] == ["Muon", "AdamW"]


class WrittenTokens:
    """The objective alone, without any data set: draws random numbers, and is no number when `broken`."""

    broken = False

    def count(self, batch: Batch) -> int:
        return int(batch.written[:, 1:].sum())

    def tokens(self, batch: Batch) -> int:
        return batch.ids.numel()

    def loss(self, model: Decoder, batch: Batch) -> Tensor:
        kept = batch.written & (torch.rand(batch.written.shape) < 0.8)
        return sft_loss(model, batch.ids, kept) * (float("nan") if self.broken else 1.0)


def recorded_run(home: Path, folder: Path) -> tuple[Trainer[Decoder], list[tuple[list[Batch], float]], list[float]]:
    """A training: its trainer, the micro-batches and the rate of each step, and the losses."""
    data = sft_batches(tokens_of(home), CONFIG)
    of_step = data.of_step
    steps: list[tuple[list[Batch], float]] = []
    losses: list[float] = []

    def record(step: int) -> list[Batch]:
        batches = of_step(step)
        steps.append((batches, 0.0))
        return batches

    def report(progress: Progress) -> None:
        losses.append(progress.loss)
        steps[-1] = steps[-1][0], progress.lr_factor

    folder.mkdir()
    trainer = trainer_of(home, CONFIG, WrittenTokens())
    data.of_step = record  # type: ignore[method-assign]
    run(trainer, data, folder, report)
    return trainer, steps, losses


def same_weights(one: Trainer[Decoder], other: Trainer[Decoder]) -> bool:
    first, second = one.model.state_dict(), other.model.state_dict()
    return all(torch.equal(first[name], second[name]) for name in first)


def test_steps_need_no_data_set(home: Path, tmp_path: Path) -> None:
    """Whoever has micro-batches makes with them the steps that `run` makes."""
    whole, steps, losses = recorded_run(home, tmp_path / "whole")
    assert len(steps) > 3
    trainer = trainer_of(home, CONFIG, WrittenTokens())
    for number, (batches, factor) in enumerate(steps):
        torch.rand(5)  # other users of the generator change nothing
        update = trainer.step(batches, factor)
        assert update.loss == losses[number]
        assert update.grad_norm > 0
        assert trainer.steps_done == number + 1
    assert same_weights(trainer, whole)
    finished = trainer.full_model()
    assert finished is not None
    assert all(torch.equal(t, trainer.model.state_dict()[name]) for name, t in finished.state_dict().items())


def test_steps_go_on_from_a_checkpoint(home: Path, tmp_path: Path) -> None:
    whole, steps, _ = recorded_run(home, tmp_path / "whole")
    first, second = (trainer_of(home, CONFIG, WrittenTokens()) for _ in range(2))
    for batches, factor in steps[:2]:
        first.step(batches, factor)
    first.save(tmp_path / "checkpoint.pt")
    second.load(tmp_path / "checkpoint.pt")
    assert second.steps_done == 2
    for batches, factor in steps[2:]:
        second.step(batches, factor)
    assert same_weights(second, whole)


def test_a_loss_that_is_no_number_changes_nothing(home: Path, tmp_path: Path) -> None:
    """Neither the weights nor what the next step makes of them."""
    (batches, factor), *_ = recorded_run(home, tmp_path / "whole")[1]
    objective = WrittenTokens()
    trainer, untroubled = trainer_of(home, CONFIG, objective), trainer_of(home, CONFIG, WrittenTokens())
    objective.broken = True
    with pytest.raises(TrainingError, match="step 1: the loss is nan"):
        trainer.step(batches, factor)
    assert trainer.steps_done == 0
    assert same_weights(trainer, untroubled)
    objective.broken = False
    assert trainer.step(batches, factor) == untroubled.step(batches, factor)
    assert same_weights(trainer, untroubled)


class RootLoss(WrittenTokens):
    """A finite loss with an infinite gradient."""

    def loss(self, model: Decoder, batch: Batch) -> Tensor:
        return (super().loss(model, batch) * 0.0).sqrt()


def test_a_gradient_that_is_not_finite_changes_nothing(home: Path, tmp_path: Path) -> None:
    (batches, factor), *_ = recorded_run(home, tmp_path / "whole")[1]
    trainer, untrained = trainer_of(home, CONFIG, RootLoss()), trainer_of(home, CONFIG, WrittenTokens())
    with pytest.raises(TrainingError, match=r"step 1: the gradient norm is (nan|inf)"):
        trainer.step(batches, factor)
    assert trainer.steps_done == 0
    assert same_weights(trainer, untrained)
