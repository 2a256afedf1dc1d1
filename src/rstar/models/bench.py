"""Throughput of the local engine against ``transformers.generate``: same weights, same prompts, same process, greedy.

`generate` takes the requests in order, batch by batch. Each batch is padded to its longest prompt and runs until its
longest completion has ended. Rounds of the two alternate and the best round of each counts, so other load on the
machine affects both alike. Throughput counts completion tokens up to each end; the time includes prompt processing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from rstar.models.decoder import Decoder, DecoderConfig
from rstar.models.decoder_files import DTYPES, save_decoder
from rstar.models.engine import Completion, Context, Request
from rstar.models.local.engine import LocalEngine
from rstar.models.local.tokens import TokenText

Texts = list[list[int]]

SHAPES = {
    "2M": DecoderConfig(1024, 192, 512, 5, 6, 2, 32, 1024),
    "6M": DecoderConfig(4096, 256, 688, 7, 8, 4, 32, 1024),
}
"""Llama shapes, keyed by parameter count."""

BATCH, PROMPT_TOKENS, NEW_TOKENS = 64, 32, 128


@dataclass(frozen=True, slots=True)
class Work:
    """A workload: the token ids of each prompt and the maximum number of new tokens for each.

    `stop`, if set, is the text of a single token of the model; completions also end at it.
    """

    prompts: Texts
    limits: list[int]
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Results of `bench_engine`.

    Attributes:
        local: tokens per second of `LocalEngine`.
        transformers: tokens per second of ``transformers.generate``.
        equal: share of requests for which both produced the same tokens.
    """

    local: float
    transformers: float
    equal: float

    @property
    def ratio(self) -> float:
        """Speedup of the local engine over transformers."""
        return self.local / self.transformers


def uniform_work(new_tokens: int = NEW_TOKENS) -> Work:
    """One full batch of random prompts of equal length, each continued by `new_tokens`."""
    return Work(_random_prompts(BATCH), [new_tokens] * BATCH)


def ragged_work(new_tokens: int = NEW_TOKENS) -> Work:
    """Four batches of random prompts, each with a limit of 1 to `new_tokens` new tokens."""
    rng = random.Random(1)
    return Work(_random_prompts(4 * BATCH), [rng.randint(1, new_tokens) for _ in range(4 * BATCH)])


def text_work(folder: Path, prompts: Sequence[str], stop: str, new_tokens: int) -> Work:
    """Text prompts for the model in `folder`, each completed up to `stop` or `new_tokens` tokens."""
    tokens = TokenText(folder)
    return Work([list(tokens.prompt(prompt)) for prompt in prompts], [new_tokens] * len(prompts), stop)


def bench_engine(
    folder: Path, work: Work, *, dtype: str = "float32", threads: int = 1, rounds: int = 2
) -> EngineFigures:
    """Run `work` on both engines with the model in `folder`, on the CPU (10 to 30 seconds)."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        engine = LocalEngine(folder, batch=BATCH, dtype=dtype, device="cpu", threads=threads)
        generate = _transformers(folder, dtype, work)
        ours, theirs = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            expected = generate()
            middle = time.perf_counter()
            completions = asyncio.run(_complete(engine, work))
            theirs.append(middle - start)
            ours.append(time.perf_counter() - middle)
    finally:
        torch.set_num_threads(before)
    equal = sum(a == b for a, b in zip(completions, expected, strict=True)) / len(completions)
    tokens, expected_tokens = sum(map(len, completions)), sum(map(len, expected))
    return EngineFigures(tokens / min(ours), expected_tokens / min(theirs), equal)


def write_random_model(folder: Path, config: DecoderConfig, seed: int = 0) -> None:
    """Write a model folder with random weights and a byte tokenizer (ids 0..255; larger ids have no text)."""
    save_decoder(Decoder(config, seed), folder, torch.float32)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def _random_prompts(count: int) -> Texts:
    rng = random.Random(0)
    return [[rng.randrange(256) for _ in range(PROMPT_TOKENS)] for _ in range(count)]


async def _complete(engine: LocalEngine, work: Work) -> Texts:
    stop = (work.stop,) if work.stop else ()

    async def complete(prompt: list[int], limit: int) -> Completion:
        request = Request(Context("", tuple(prompt)), max_tokens=limit, temperature=0.0, stop=stop)
        return (await engine.complete(request))[0]

    async with engine:
        completions = await asyncio.gather(*map(complete, work.prompts, work.limits))
    return [list(completion.ids) for completion in completions]


def _transformers(folder: Path, dtype: str, work: Work) -> Callable[[], Texts]:
    from transformers import AutoModelForCausalLM, logging  # slow to import, and not needed to run models

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype])
    stop = None if work.stop is None else Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(work.stop)

    def generate_batch(prompts: Texts, limits: list[int]) -> Texts:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        output = model.generate(
            ids, attention_mask=mask, do_sample=False, pad_token_id=0, eos_token_id=stop, max_new_tokens=max(limits)
        )
        texts = [text[:limit] for text, limit in zip(output[:, width:].tolist(), limits, strict=True)]
        return [text[: text.index(stop) + 1] if stop in text else text for text in texts]

    def generate() -> Texts:
        starts = range(0, len(work.prompts), BATCH)
        parts = (generate_batch(work.prompts[i : i + BATCH], work.limits[i : i + BATCH]) for i in starts)
        return [text for part in parts for text in part]

    generate_batch([[1, 2, 3]], [2])
    return generate
