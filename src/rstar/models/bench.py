"""How fast the local engine is beside ``transformers.generate``: same random weights, same prompts, same run.

Two kinds of work. *Uniform*: as many prompts as the batch holds, all of the same length, each continued by the same
number of tokens. *Ragged*: four times as many requests, each ending after a number of tokens of its own, as steps of
solutions do; ``generate`` works through them batch by batch, each as long as its longest request.

Rounds of the two engines alternate and the best round of each counts, so that other work on the machine disturbs both
alike. Greedy, on the CPU; only tokens that were asked for are counted, the time of the prompts is included.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import DTYPES, save_decoder
from rstar.models.engine import Context, Request
from rstar.models.local import LocalEngine

Texts = list[list[int]]

SHAPES = {
    "2M": DecoderConfig(1024, 192, 512, 5, 6, 2, 32, 1024),
    "6M": DecoderConfig(4096, 256, 688, 7, 8, 4, 32, 1024),
}
"""Llamas by their number of parameters."""

BATCH, PROMPT_TOKENS, NEW_TOKENS = 64, 32, 128


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What `bench_engine` measured.

    Attributes:
        local: tokens per second of `LocalEngine`.
        transformers: tokens per second of ``transformers.generate``.
        equal: share of the requests for which both wrote the same tokens.
    """

    local: float
    transformers: float
    equal: float

    @property
    def ratio(self) -> float:
        """How many times faster the local engine is."""
        return self.local / self.transformers


def bench_engine(
    shape: str,
    *,
    dtype: str = "float32",
    ragged: bool = False,
    threads: int = 1,
    rounds: int = 2,
    new_tokens: int = NEW_TOKENS,
) -> EngineFigures:
    """Compare the two with the model `shape` of `SHAPES` in `dtype`, on uniform or ragged work (10 to 20 seconds)."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _compare(SHAPES[shape], dtype, ragged, threads, rounds, new_tokens)
    finally:
        torch.set_num_threads(before)


def _compare(
    config: DecoderConfig, dtype: str, ragged: bool, threads: int, rounds: int, new_tokens: int
) -> EngineFigures:
    rng = random.Random(0)
    count = 4 * BATCH if ragged else BATCH
    prompts = [[rng.randrange(256) for _ in range(PROMPT_TOKENS)] for _ in range(count)]
    limits = [rng.randint(1, new_tokens) if ragged else new_tokens for _ in prompts]
    with tempfile.TemporaryDirectory() as name:
        write_random_model(Path(name), config)
        engine = LocalEngine(Path(name), batch=BATCH, dtype=dtype, device="cpu", threads=threads)
        generate = _transformers(Path(name), dtype)
        ours, theirs = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            expected = generate(prompts, limits)
            middle = time.perf_counter()
            found = asyncio.run(_complete(engine, prompts, limits))
            theirs.append(middle - start)
            ours.append(time.perf_counter() - middle)
    equal = sum(a == b for a, b in zip(found, expected, strict=True)) / count
    return EngineFigures(sum(limits) / min(ours), sum(limits) / min(theirs), equal)


def write_random_model(folder: Path, config: DecoderConfig, seed: int = 0) -> None:
    """A model folder with fresh weights and a tokenizer of bytes (ids 0..255; larger ids have no text)."""
    save_decoder(Decoder(config, seed), folder, torch.float32)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


async def _complete(engine: LocalEngine, prompts: Texts, limits: list[int]) -> Texts:
    async def one(prompt: list[int], limit: int) -> list[int]:
        request = Request(Context("", tuple(prompt)), max_tokens=limit, temperature=0.0)
        return list((await engine.complete(request))[0].ids)

    async with engine:
        return await asyncio.gather(*(one(*pair) for pair in zip(prompts, limits, strict=True)))


def _transformers(folder: Path, dtype: str) -> Callable[[Texts, list[int]], Texts]:
    from transformers import AutoModelForCausalLM, logging  # slow to import, and not needed to run models

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype])

    def generate(prompts: Texts, limits: list[int]) -> Texts:
        texts: Texts = []
        for start in range(0, len(prompts), BATCH):
            ids = torch.tensor(prompts[start : start + BATCH])
            longest = max(limits[start : start + BATCH])
            output = model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, max_new_tokens=longest
            )
            texts += output[:, ids.shape[1] :].tolist()
        return [text[:limit] for text, limit in zip(texts, limits, strict=True)]

    generate([[1, 2, 3]], [2])
    return generate
