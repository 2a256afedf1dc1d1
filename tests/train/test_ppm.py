"""A process preference model: it learns what is preferred, resumes exactly, and is an ordinary transformers folder."""

import json
import random
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import ConfigError, DataError
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import save_decoder
from rstar.models.ppm import PreferenceModel, load_ppm
from rstar.train.loop import Progress
from rstar.train.losses import preference_loss
from rstar.train.ppm import Line, Preferences, collate_pairs, pair_accuracy, read_pairs, train_ppm
from rstar.train.settings import TrainConfig

TINY = Path(str(files("rstar") / "tiny" / "weights"))

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256}  # fmt: skip
CONFIG = TrainConfig(tokens=60_000, warmup_tokens=500, batch_tokens=2048, micro_tokens=1024, seed=3)


class StopError(Exception):
    pass


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    (folder / "tokenizer.json").write_text((TINY / "tokenizer.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    save_decoder(
        Decoder(DecoderConfig(vocab_size=tokenizer.get_vocab_size(), eos_token_ids=(0,), pad_token_id=0, **SHAPE)),
        folder,
    )
    return folder


def line(draw: random.Random) -> dict:
    """Preferred is who adds the numbers of the prompt."""
    a, b = draw.randrange(2, 50), draw.randrange(2, 50)
    good = [f"# add\nx = {a} + {b}\n<end_of_step>", f"# sum\nx = {b} + {a}\n<end_of_step>"]
    bad = [f"# take away\nx = {a} - {b}\n<end_of_step>", f"# add\nx = {a} * {b}\n<end_of_step>"]
    pairs = [[0, 0], [0, 1], [1, 0]]
    return {"id": "p", "kind": "step", "prompt": f"{a} {b}\n", "prefix": "", "chosen": good, "rejected": bad,
            "pairs": pairs, "q": [[1, 1], [-1, -1]]}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    draw = random.Random(1)
    file.write_text("".join(json.dumps(line(draw)) + "\n" for _ in range(200)))
    return file


def lines_of(file: Path, base: Path) -> list[Line]:
    return list(read_pairs(file, Tokenizer.from_file(str(base / "tokenizer.json")), 256))


def test_it_learns_and_an_interrupted_run_ends_with_the_same_weights(tmp_path, base, data):
    config = CONFIG.model_copy(update={"base": base, "checkpoint_seconds": 1e-9})

    def stop(progress: Progress) -> None:
        if progress.step == 3:
            raise StopError

    whole = train_ppm(config, [data], tmp_path / "whole", lambda progress: None)
    with pytest.raises(StopError):
        train_ppm(config, [data], tmp_path / "parts", stop)
    parts = train_ppm(config, [data], tmp_path / "parts", lambda progress: None)
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, parts))
    assert all(torch.equal(first[name], second[name]) for name in first)
    fresh = tmp_path / "fresh.jsonl"
    draw = random.Random(2)
    fresh.write_text("".join(json.dumps(line(draw)) + "\n" for _ in range(50)))
    assert pair_accuracy(load_ppm(whole), lines_of(fresh, base)) > 0.95


def test_transformers_reads_the_folder(tmp_path, base, data):
    from transformers import AutoModelForSequenceClassification

    folder = train_ppm(
        CONFIG.model_copy(update={"base": base, "tokens": 2_000}), [data], tmp_path, lambda progress: None
    )
    theirs = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    ours = load_ppm(folder)
    ids = torch.randint(1, 500, (3, 17), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = torch.tanh(theirs(ids).logits.squeeze(-1))
        assert torch.allclose(ours(ids, torch.full((3,), 16)), wanted, atol=1e-5)
        assert torch.allclose(ours.scores(ids)[:, -1], wanted, atol=1e-5)


def test_padding_and_company_do_not_change_a_score(base, data):
    model = PreferenceModel(Decoder(DecoderConfig(vocab_size=2_000, **SHAPE)))
    lines = lines_of(data, base)[:4]
    together = collate_pairs(lines)
    with torch.no_grad():
        scores = model(together.ids, together.last)
        alone = torch.cat([model(b.ids, b.last) for b in (collate_pairs([line]) for line in lines)])
    assert torch.allclose(scores, alone, atol=1e-5)


def test_the_loss_is_the_mean_of_each_line(base, data):
    model = PreferenceModel(Decoder(DecoderConfig(vocab_size=2_000, **SHAPE)))
    with torch.no_grad():
        model.score.weight *= 20
    lines = lines_of(data, base)[:3]
    lines[1] = (lines[1][0], lines[1][1][:1])

    def loss(some: list[Line]) -> float:
        batch = collate_pairs(some)
        return preference_loss(model, batch.ids, batch.last, batch.pairs, batch.weights).item()

    assert loss(lines) == pytest.approx(sum(loss([one]) for one in lines), rel=1e-4)
    one = collate_pairs(lines[:1])
    scores = model(one.ids, one.last)
    by_hand = [-torch.nn.functional.logsigmoid(scores[i] - scores[j]) for i, j in lines[0][1]]
    assert loss(lines[:1]) == pytest.approx(sum(by_hand).item() / 3, rel=1e-4)


def test_an_epoch_holds_every_line_once(base, data):
    objective = Preferences(lines_of(data, base), CONFIG)
    seen, step = 0, 0
    while seen < 200:
        seen += sum(objective.count(batch) for batch in objective.micro_batches(step))
        step += 1
    assert seen == 200


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"prompt": "x"}', '{"prompt":"x","prefix":"","chosen":["a"],"rejected":["b"],"pairs":[[0,1]]}',
             '{"prompt":"x","prefix":"","chosen":["a"],"rejected":["b"],"pairs":[]}'],
)  # fmt: skip
def test_bad_lines_are_named(tmp_path, base, text):
    file = tmp_path / "pairs.jsonl"
    file.write_text(text + "\n")
    with pytest.raises(DataError, match=r"pairs\.jsonl:1: not a line of preference pairs"):
        lines_of(file, base)


def test_a_policy_is_no_ppm(base, tmp_path):
    with pytest.raises(ConfigError, match="LlamaForSequenceClassification"):
        load_ppm(base)
    with pytest.raises(ConfigError, match="begins from a policy"):
        train_ppm(CONFIG, [], tmp_path, lambda progress: None)


def test_the_command(tmp_path, base, data):
    recipe = tmp_path / "ppm.toml"
    recipe.write_text(f"tokens = 2000\nwarmup_tokens = 100\nbase = '{base}'\n")
    done = CliRunner().invoke(app, ["train", "ppm", str(recipe), "--data", str(data), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert load_ppm(tmp_path / "out" / "model").config.hidden_size == 32
