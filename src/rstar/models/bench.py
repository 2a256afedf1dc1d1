"""How fast the local engine is beside ``transformers.generate``: same random weights, same prompts, same run.

Rounds of the two alternate and the best round of each counts, so that other work on the machine disturbs both alike.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import save_decoder
from rstar.models.engine import Completion, Context, Request
from rstar.models.local import LocalEngine

SHAPES = {
    "0.9M": DecoderConfig(1024, 128, 344, 4, 4, 2, 32, 1024),
    "2M": DecoderConfig(1024, 192, 512, 5, 6, 2, 32, 1024),
    "6M": DecoderConfig(4096, 256, 688, 7, 8, 4, 32, 1024),
}
"""Llamas by their number of parameters."""


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What `bench_engine` measured.

    Attributes:
        parameters: weights of the model.
        tokens: generated tokens per round.
        local: generated tokens per second of `LocalEngine`, prompts included in the time.
        transformers: the same of ``transformers.generate``.
        equal: share of prompts for which both wrote the same greedy text.
    """

    parameters: int
    tokens: int
    local: float
    transformers: float
    equal: float

    @property
    def ratio(self) -> float:
        """How many times faster the local engine is."""
        return self.local / self.transformers


def bench_engine(
    shape: str = "6M",
    *,
    prompts: int = 64,
    prompt_tokens: int = 64,
    new_tokens: int = 128,
    threads: int = 1,
    rounds: int = 3,
    dtype: str = "float32",
) -> EngineFigures:
    """Greedy generation in float32 on the CPU, for random prompts and a random model of `SHAPES`."""
    config = SHAPES[shape]
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 256, (prompts, prompt_tokens), generator=generator)
    before = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters = sum(p.numel() for p in Decoder(config).parameters())
        write_random_model(folder, config)
        engine = LocalEngine(folder, batch=prompts, dtype=dtype, device="cpu", threads=threads)
        torch.set_num_threads(threads)
        try:
            generate = _transformers(folder, ids, dtype)
            generate(2)
            local, theirs = [], []
            for _ in range(rounds):
                start = time.perf_counter()
                expected = generate(new_tokens)
                middle = time.perf_counter()
                completions = asyncio.run(_complete(engine, ids, new_tokens))
                theirs.append(middle - start)
                local.append(time.perf_counter() - middle)
        finally:
            torch.set_num_threads(before)
    tokens = prompts * new_tokens
    equal = sum(list(c.ids) == row for c, row in zip(completions, expected, strict=True)) / prompts
    return EngineFigures(parameters, tokens, tokens / min(local), tokens / min(theirs), equal)


def write_random_model(folder: Path, config: DecoderConfig, seed: int = 0) -> None:
    """A model folder with fresh weights and a tokenizer of bytes (ids 0..255; larger ids have no text)."""
    save_decoder(Decoder(config, seed), folder, torch.float32)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


async def _complete(engine: LocalEngine, ids: torch.Tensor, new_tokens: int) -> list[Completion]:
    async def one(row: list[int]) -> Completion:
        request = Request(Context("", tuple(row)), max_tokens=new_tokens, temperature=0.0)
        return (await engine.complete(request))[0]

    async with engine:
        return await asyncio.gather(*(one(row) for row in ids.tolist()))


def _transformers(folder: Path, ids: torch.Tensor, dtype: str) -> Any:
    from transformers import AutoModelForCausalLM  # slow to import, and not needed to run models

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)

    def generate(tokens: int) -> list[list[int]]:
        options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
        output = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return [row[ids.shape[1] :] for row in output.tolist()]

    return generate
