"""Training end to end on a very small model: it learns, it resumes exactly, it refuses another run's folder."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import ConfigError, DataError, ResumeError
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import load_decoder
from rstar.runs import RunFolder
from rstar.tiny.generate import draw, pick
from rstar.train.loop import Progress
from rstar.train.losses import sft_loss
from rstar.train.settings import ShapeConfig, TokenizerConfig, TrainConfig, read_train_config
from rstar.train.sft import train_sft

CONFIG = TrainConfig(
    tokens=24_000,
    warmup_tokens=500,
    batch_tokens=2048,
    micro_tokens=1024,
    seed=3,
    checkpoint_seconds=1e-9,
    tokenizer=TokenizerConfig(vocab_size=500),
    shape=ShapeConfig(hidden_size=32, layers=2, heads=2, kv_heads=1, intermediate_size=64, max_context=256),
)


class StopError(Exception):
    pass


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "train.jsonl"
    rows = (drawn.row(solution=True) for drawn in draw(120, 2, "train", chosen=pick(["word"]), levels=[1]))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def stop_at(step: int) -> Callable[[Progress], None]:
    """Stops when the checkpoint of the step before is on the disk, and that of `step` is not."""

    def report(progress: Progress) -> None:
        if progress.step == step:
            raise StopError

    return report


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_decoder(folder, torch.float32).state_dict()


def test_it_learns_and_an_interrupted_run_ends_with_the_same_weights(tmp_path: Path, data: Path) -> None:
    losses: list[float] = []
    whole = train_sft(CONFIG, [data], tmp_path / "whole", lambda p: losses.append(p.loss))
    assert losses[-1] < losses[0] - 0.9

    for stop_after in (2, 5):
        with pytest.raises(StopError):
            train_sft(CONFIG, [data], tmp_path / "parts", stop_at(stop_after + 1))
    steps: list[int] = []
    parts = train_sft(CONFIG, [data], tmp_path / "parts", lambda p: steps.append(p.step))
    assert steps[0] == 6
    first, second = weights(whole), weights(parts)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")


def logged(folder: Path) -> list[tuple[int, float]]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows]


def test_files_are_stages_or_one_set(tmp_path: Path, data: Path) -> None:
    lines = data.read_text().splitlines(keepends=True)
    parts = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for part, some in zip(parts, (lines[:10], lines[10:]), strict=True):
        part.write_text("".join(some))
    one_set = CONFIG.model_copy(update={"curriculum": False})
    whole = weights(train_sft(CONFIG, [data], tmp_path / "whole", lambda p: None))
    mixed = weights(train_sft(one_set, parts, tmp_path / "mixed", lambda p: None))
    staged = weights(train_sft(CONFIG, parts, tmp_path / "staged", lambda p: None))
    assert all(torch.equal(whole[name], mixed[name]) for name in whole)
    assert not all(torch.equal(whole[name], staged[name]) for name in whole)


def test_steps_behind_the_checkpoint_are_logged_once(tmp_path: Path, data: Path) -> None:
    train_sft(CONFIG, [data], tmp_path / "whole", lambda p: None)
    with pytest.raises(StopError):
        train_sft(CONFIG, [data], tmp_path / "parts", stop_at(11))
    with (tmp_path / "parts" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 999, "loss": 1.0}\n{"step": 10')
    train_sft(CONFIG, [data], tmp_path / "parts", lambda p: None)
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")


def test_one_process_at_a_time(tmp_path: Path, data: Path) -> None:
    with RunFolder.open(tmp_path, {}):
        with pytest.raises(ResumeError, match="in use by another process"):
            train_sft(CONFIG, [data], tmp_path, lambda p: None)
        assert not list(tmp_path.iterdir())


def test_loss_is_the_mean_over_written_tokens() -> None:
    shape = DecoderConfig(20, 16, 32, 1, 2, 1, 8, 64)
    model = Decoder(shape, seed=1)
    ids = torch.randint(0, 20, (3, 9))
    written = torch.rand(3, 9) > 0.5
    logp = torch.log_softmax(model(ids), -1)  # (3, 9, 20)
    by_hand = -sum(logp[b, t - 1, ids[b, t]] for b in range(3) for t in range(1, 9) if written[b, t])
    assert torch.isclose(sft_loss(model, ids, written), torch.as_tensor(by_hand), atol=1e-4)


def test_micro_batches_do_not_change_the_gradient(tmp_path: Path, data: Path) -> None:
    """Two settings of the same steps differ only in how a step is cut; in float32 the first losses agree."""
    losses: dict[int, list[float]] = {}
    for micro in (512, 2048):
        config = CONFIG.model_copy(update={"micro_tokens": micro, "bf16": False, "tokens": 2048})
        found: list[float] = []
        train_sft(config, [data], tmp_path / str(micro), lambda p, found=found: found.append(p.loss))  # type: ignore[misc]
        losses[micro] = found
    assert math.isclose(losses[512][0], losses[2048][0], rel_tol=0.05)


def test_another_run_is_refused(tmp_path: Path, data: Path) -> None:
    config = CONFIG.model_copy(update={"tokens": 2048})
    train_sft(config, [data], tmp_path / "run", lambda p: None)
    with pytest.raises(ResumeError, match="seed"):
        train_sft(config.model_copy(update={"seed": 4}), [data], tmp_path / "run", lambda p: None)
    other = tmp_path / "other.jsonl"
    other.write_text(data.read_text() + data.read_text())
    with pytest.raises(ResumeError, match=r"data\.sha256"):
        train_sft(config, [other], tmp_path / "run", lambda p: None)
    with pytest.raises(DataError, match="data file"):
        train_sft(config, [tmp_path / "none"], tmp_path / "run2", lambda p: None)


def limits(model: Path) -> set[int]:
    """Longest context, as the files of the model and of the tokenizer say."""
    model_config = json.loads((model / "config.json").read_text())
    tokenizer_config = json.loads((model / "tokenizer_config.json").read_text())
    return {model_config["max_position_embeddings"], tokenizer_config["model_max_length"]}


def test_fine_tuning_starts_from_a_model(tmp_path: Path, data: Path) -> None:
    learning: list[float] = []
    base = train_sft(CONFIG, [data], tmp_path / "base", lambda p: learning.append(p.loss))
    assert limits(base) == {CONFIG.shape.max_context}
    shape = CONFIG.shape.model_copy(update={"max_context": 2 * CONFIG.shape.max_context})
    config = CONFIG.model_copy(
        update={"base": base, "tokens": 2048, "matrix_lr": 1e-6, "other_lr": 1e-7, "shape": shape}
    )
    losses: list[float] = []
    tuned = train_sft(config, [data], tmp_path / "tuned", lambda p: losses.append(p.loss))
    before, after = weights(base), weights(tuned)
    assert losses[0] < learning[0] - 0.5
    assert max((before[name] - after[name]).abs().max() for name in before) < 0.01
    assert limits(tuned) == {shape.max_context}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_model_is_saved_as_the_recipe_says(tmp_path: Path, data: Path, dtype: str) -> None:
    config = CONFIG.model_copy(update={"tokens": 2048, "save_dtype": dtype})
    model = train_sft(config, [data], tmp_path, lambda progress: None)
    assert {str(weight.dtype) for weight in load_file(model / "model.safetensors").values()} == {f"torch.{dtype}"}
    assert json.loads((model / "config.json").read_text())["torch_dtype"] == dtype


def test_recipes_of_the_project_are_valid() -> None:
    for recipe in (Path(__file__).parents[2] / "recipes").rglob("sft*.toml"):
        assert read_train_config(recipe, TrainConfig).tokens > 0


def test_a_missing_tracker_is_named_before_anything_is_made(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    (tmp_path / "r.toml").write_text("tokens = 2000\n")
    out = tmp_path / "out"
    command = ["train", "sft", str(tmp_path / "r.toml"), "--data", str(data), "--out", str(out), "--wandb", "sums"]
    done = CliRunner().invoke(app, command)
    assert isinstance(done.exception, ConfigError)
    assert "install wandb" in str(done.exception)
    assert not out.exists()


def test_bad_recipes_are_named(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text("tokens = 0\n[shape]\nlayer = 3\n")
    with pytest.raises(ConfigError) as caught:
        read_train_config(file, TrainConfig)
    assert "tokens = 0" in str(caught.value)
    assert "unknown key 'shape.layer', did you mean 'shape.layers'?" in str(caught.value)
    with pytest.raises(ConfigError, match=r"unknown key 'shape\.layer'") as caught:
        read_train_config(file, TrainConfig, ["tokens=5"])
    assert "tokens" not in str(caught.value)
    file.write_bytes(b"tokens = '\xff'\n")
    with pytest.raises(ConfigError, match=r"r\.toml: not UTF-8 text \(byte 10\)"):
        read_train_config(file, TrainConfig)
