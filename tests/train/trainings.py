"""Small trainings that tests run in one process and, started by a launcher, in several: ``python trainings.py FOLDER``.

`FOLDER` is what `prepare` made. Three kinds: ``sft``, ``ppm``, and ``noisy``, whose loss draws random numbers.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import load_decoder, save_decoder
from rstar.tiny.generate import draw, pick
from rstar.train.data import Batch, tokenize
from rstar.train.folder import training_folder
from rstar.train.loop import Progress, Trainer, run
from rstar.train.losses import sft_loss
from rstar.train.ppm import PPMConfig, train_ppm
from rstar.train.settings import TokenizerConfig, TrainConfig
from rstar.train.sft import SupervisedObjective, sft_batches, train_sft
from rstar.train.tokenizer import save_tokenizer, train_tokenizer
from rstar.trajectories import Segment, Step

# Two processes can divide neither the three micro-batches of a step evenly, nor the rows of the MLP's matrices.
CONFIG = TrainConfig(
    tokens=7_000,
    warmup_tokens=500,
    batch_tokens=1536,
    micro_tokens=512,
    seed=3,
    bf16=False,
    device="cpu",
    threads=1,
    checkpoint_seconds=1e-9,
)
SHAPE = {"hidden_size": 16, "intermediate_size": 31, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 1024}  # fmt: skip


class StopError(Exception):
    """A training that is interrupted."""


class Noisy(SupervisedObjective):
    """Leaves out written tokens at random, by torch's generator."""

    def __init__(self, spy: Callable[[float], None]) -> None:
        self.spy = spy

    def loss(self, model: Decoder, batch: Batch) -> Tensor:
        noise = torch.rand(batch.written.shape)
        self.spy(noise[0, 0].item())
        return sft_loss(model, batch.ids, batch.written & (noise < 0.8))


def _first_step(text: str) -> dict[str, Any]:
    """A node of a line of pairs."""
    return {"parent": -1, "q": 0} | Step((Segment(text, "policy"),)).to_json(tokens=True)


def prepare(folder: Path) -> None:
    """Data and a base model."""
    rows = [drawn.row(solution=True) for drawn in draw(60, 2, "train", chosen=pick(["word"]), levels=[1])]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    compared = [{"kind": "step", "pairs": [[0, 2], [1, 2]]}]
    lines = (
        {"prompt": asked, "nodes": [_first_step(text) for text in (code, "x = 1", "x")], "steps": compared}
        for asked, code, *_ in (row["pieces"] for row in rows)
    )
    (folder / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tokenizer = train_tokenizer(["".join(row["pieces"]) for row in rows], TokenizerConfig(vocab_size=501))
    save_tokenizer(tokenizer, folder / "base", 256)
    shape = DecoderConfig(vocab_size=tokenizer.get_vocab_size(), eos_token_ids=(0,), pad_token_id=0, **SHAPE)
    save_decoder(Decoder(shape), folder / "base")


def train(
    kind: str,
    home: Path,
    folder: Path,
    stop: int = -1,
    seed: int = 3,
    spy: Callable[[float], None] = lambda drawn: None,
) -> list[float]:
    """One training; returns the losses of its steps (in the main process).

    It fails at step `stop`. `spy` gets the first number that is drawn for each micro-batch.
    """
    losses: list[float] = []
    config = CONFIG.model_copy(update={"base": home / "base", "seed": seed})

    def report(progress: Progress) -> None:
        if progress.step == stop:
            raise StopError
        losses.append(progress.loss)

    if kind == "noisy":
        train_noisy(config, home / "train.jsonl", folder, report, spy)
    elif kind == "ppm":
        train_ppm(PPMConfig(**config.model_dump(), inputs=["numbers"]), [home / "pairs.jsonl"], folder, report)
    else:
        train_sft(config, [home / "train.jsonl"], folder, report)
    return losses


def train_noisy(
    config: TrainConfig,
    data: Path,
    folder: Path,
    report: Callable[[Progress], None],
    spy: Callable[[float], None],
) -> None:
    assert config.base is not None
    with training_folder(config, [data], folder) as (config, ranks):
        tokens, _ = tokenize([data], Tokenizer.from_file(str(config.base / "tokenizer.json")), 0, 1024)
        model = load_decoder(config.base, torch.float32)
        run(Trainer(model, Noisy(spy), config, ranks), sft_batches(tokens, config), folder, report)


if __name__ == "__main__":
    home = Path(sys.argv[1])
    for kind in ("sft", "ppm"):
        if losses := train(kind, home, home / f"{kind}-two"):
            (home / f"{kind}-two.json").write_text(json.dumps(losses))
    train("noisy", home, home / "noisy-parts", stop=4)
