"""Supervised fine-tuning in a resumable folder: data files in, transformers folder out.

The folder holds ``config.json`` (resolved, with a digest), the tokenizer, ``tokens.npz`` (the tokenised data),
``checkpoint.pt``, ``metrics.jsonl``, ``tensorboard/`` and finally ``model/``. A folder of another configuration or
other data is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from rstar.errors import ConfigError
from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import DTYPES, copy_tokenizer, load_decoder, read_tokenizer, save_decoder
from rstar.train.data import Batch, TokenSet, collate, pack, read_pieces, tokenize
from rstar.train.folder import MODEL, model_folder, training_folder
from rstar.train.loop import MicroBatches, Progress, Trainer, run
from rstar.train.losses import sft_loss
from rstar.train.settings import TrainConfig
from rstar.train.tokenizer import EOS, save_tokenizer, train_tokenizer


def sft_batches(data: TokenSet, config: TrainConfig) -> MicroBatches[Batch]:
    """Micro-batches of rows, each of one sequence, or of several with `config.packing`."""
    rows, stages = list(np.arange(len(data), dtype=np.int32)[:, None]), data.stages
    if config.packing:
        rows, stages = pack(data.lengths, data.stages)
    lengths = np.asarray([data.lengths[row].sum() for row in rows], np.int64)
    return MicroBatches(lengths, stages, config, lambda items: collate(data, [rows[i] for i in items]))


class SupervisedObjective:
    """Mean loss over the tokens that the policy wrote."""

    def count(self, batch: Batch) -> int:
        """Written tokens."""
        return int(batch.written[:, 1:].sum())

    def tokens(self, batch: Batch) -> int:
        """See `Objective`."""
        return batch.ids.numel()

    def loss(self, model: Decoder, batch: Batch) -> Tensor:
        """See `Objective`."""
        ends = None if batch.ends is None else batch.ends.to(model.device)
        return sft_loss(model, batch.ids.to(model.device), batch.written.to(model.device), ends)


def train_sft(config: TrainConfig, data: Sequence[Path], folder: Path, report: Callable[[Progress], None]) -> Path:
    """Train on data files (see `rstar.train.data`); returns the folder of the finished model.

    Under a launcher all processes call this; see `rstar.train.ranks`.

    Raises:
        ConfigError: a missing device or package.
        DataError: invalid lines, or no data.
        ResumeError: `folder` has another configuration or other data, or is in use by another process.
    """
    with training_folder(config, data, folder) as (config, ranks):
        with ranks.main_first():
            tokenizer, model = _start(config, data, folder)
            tokens = _tokens(config, data, folder, tokenizer)
        trainer = Trainer(model, SupervisedObjective(), config, ranks)
        run(trainer, sft_batches(tokens, config), folder, report)
        if (trained := trainer.full_model()) is not None:
            with model_folder(folder) as out:
                save_decoder(trained, out, DTYPES[config.save_dtype])
                copy_tokenizer(config.base or folder, out, trained.config.max_position_embeddings)
        return folder / MODEL


def _start(config: TrainConfig, data: Sequence[Path], folder: Path) -> tuple[Tokenizer, Decoder]:
    """Tokenizer and model before the first step: those of `base`, or fresh ones."""
    if config.base is not None:
        model = load_decoder(config.base, torch.float32)
        limit = max(model.config.max_position_embeddings, config.shape.max_context)
        model.config = replace(model.config, max_position_embeddings=limit)
        return read_tokenizer(config.base), model
    shape = config.shape
    if not (folder / "tokenizer.json").exists():
        texts = ["".join(pieces) for file in data for pieces in read_pieces(file)]
        sample = random.Random(config.seed).sample(texts, min(len(texts), config.tokenizer.sample))
        tokenizer = train_tokenizer(sample, config.tokenizer)
        save_tokenizer(tokenizer, folder, shape.max_context)
    tokenizer = read_tokenizer(folder)
    eos = _eos(tokenizer, folder)
    fresh = DecoderConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.hidden_size // shape.heads,
        max_position_embeddings=shape.max_context,
        eos_token_ids=(eos,),
        pad_token_id=eos,
    )
    return tokenizer, Decoder(fresh, seed=config.seed)


def _tokens(config: TrainConfig, data: Sequence[Path], folder: Path, tokenizer: Tokenizer) -> TokenSet:
    file = folder / "tokens.npz"
    if file.exists():
        return TokenSet.load(file)
    tokens, _ = tokenize(data, tokenizer, _eos(tokenizer, config.base or folder), config.shape.max_context)
    if not config.curriculum:
        tokens = replace(tokens, stages=tokens.stages[[0, -1]])
    tokens.save(file)
    return tokens


def _eos(tokenizer: Tokenizer, folder: Path) -> int:
    eos: int | None = tokenizer.token_to_id(EOS)
    if eos is None:
        raise ConfigError(f"the tokenizer in {folder} has no {EOS} token")
    return eos
