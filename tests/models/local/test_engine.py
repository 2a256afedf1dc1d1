"""The local engine against transformers and against itself: same tokens whatever is computed beside them."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from rstar.errors import ConfigError, EngineError
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import load_decoder
from rstar.models.engine import Completion, Context, Engine, Request
from rstar.models.local.engine import LocalEngine
from tests.models.tiny_models import BOS, EOS, VOCAB, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    write_model(path)
    return path


def local(folder: Path, **settings: Any) -> LocalEngine:
    return LocalEngine(folder, **{"threads": 1, **settings})


def test_more_threads_than_processors_are_not_used(folder: Path) -> None:
    assert local(folder, threads=9999).settings.threads == os.cpu_count()


def prompt(seed: int, length: int | None = None) -> Context:
    rng = random.Random(seed)
    length = length or rng.choice((1, 5, 17, 33, 70))
    return Context("", (BOS, *(rng.randrange(256) for _ in range(length - 1))))


def run(engine: LocalEngine, requests: Sequence[Request], beside: Sequence[Request] = ()) -> list[list[Completion]]:
    """All of `requests` at once, with `beside` before and among them."""

    async def all_at_once() -> list[list[Completion]]:
        async with engine:
            others = [asyncio.create_task(engine.complete(request)) for request in beside]
            results = await asyncio.gather(*(engine.complete(request) for request in requests))
            await asyncio.gather(*others)
            return [list(result) for result in results]

    return asyncio.run(all_at_once())


def test_is_an_engine(folder: Path) -> None:
    engine = local(folder)
    assert isinstance(engine, Engine)
    assert (engine.name, engine.max_context) == (f"hf:{folder}", 256)


def test_greedy_text_equals_transformers(folder: Path) -> None:
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    contexts = [prompt(seed) for seed in range(12)]
    found = run(local(folder, batch=16), [Request(c, max_tokens=24, temperature=0) for c in contexts])
    for context, (completion,) in zip(contexts, found, strict=True):
        ids = torch.tensor([context.ids])
        mask = torch.ones_like(ids)
        output = theirs.generate(ids, attention_mask=mask, max_new_tokens=24, do_sample=False, pad_token_id=0)
        output = output[0, ids.shape[1] :].tolist()
        assert [*completion.ids, EOS][: len(output)] == output
        assert completion.stop_reason == ("eos" if output[-1] == EOS else "length")
    assert len({completion.ids for (completion,) in found}) > 8


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16},
        {"num_attention_heads": 8, "num_key_value_heads": 2, "tie_word_embeddings": False},
        {"architecture": "qwen2", "qkv_bias": True},
        {"architecture": "qwen3", "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16},
        {"qkv_bias": True, "output_bias": True},
    ],
)
def test_logprobs_are_those_of_a_full_forward(changes: dict[str, Any], tmp_path: Path) -> None:
    decoder = write_model(tmp_path, **changes)
    requests = [Request(prompt(seed), 30, temperature=t, n=2, seed=seed) for seed, t in enumerate((0, 0.5, 1, 2))]
    for request, samples in zip(requests, run(local(tmp_path), requests), strict=True):
        for sample in samples:
            ids = torch.tensor([request.context.ids + sample.ids])
            with torch.no_grad():
                logprobs = torch.log_softmax(decoder(ids)[0, :-1], -1)
            expected = logprobs.gather(-1, ids[0, 1:, None])[len(request.context.ids) - 1 :, 0]
            torch.testing.assert_close(torch.tensor(sample.logprobs), expected, atol=2e-5, rtol=2e-5)


def random_requests(count: int, seed: int = 0, **changes: object) -> list[Request]:
    rng = random.Random(seed)
    made = []
    for i in range(count):
        settings: dict[str, object] = {
            "max_tokens": rng.randrange(1, 30),
            "temperature": rng.choice((0.0, 0.7, 1.0)),
            "top_p": rng.choice((1.0, 0.8)),
            "n": rng.randrange(1, 4),
            "seed": rng.randrange(1000),
        }
        made.append(Request(prompt(seed * 1000 + i), **{**settings, **changes}))  # type: ignore[arg-type]
    return made


def test_a_request_does_not_depend_on_its_company(folder: Path) -> None:
    requests = random_requests(6)
    alone = [run(local(folder, batch=8), [request])[0] for request in requests]
    for batch in (8, 24, 64):
        engine = local(folder, batch=batch)
        assert run(engine, requests, beside=random_requests(30, seed=batch)) == alone
        assert run(engine, requests) == alone  # now with prompts that lie in the ring


def test_a_text_does_not_depend_on_the_requests_it_was_written_in(folder: Path) -> None:
    whole = Request(prompt(3), max_tokens=40, n=3, seed=5)
    engine = local(folder, batch=8)
    expected = run(engine, [whole])[0]
    for index, sample in enumerate(expected):
        context, ids = whole.context, tuple[int, ...]()
        while len(ids) < len(sample.ids):
            part = Request(context, max_tokens=7, n=3, seed=5)
            piece = run(engine, [part], beside=random_requests(5, seed=index))[0][index]
            context, ids = context.extend(piece), ids + piece.ids
        assert ids[:40] == sample.ids


def test_reused_prefixes_change_nothing(folder: Path) -> None:
    rng = random.Random(1)
    family = [Context("", prompt(1, 60).ids[: rng.randrange(1, 60)] + prompt(i, 20).ids[1:]) for i in range(40)]
    requests = [Request(context, max_tokens=6, seed=i) for i, context in enumerate(family)]
    together = run(local(folder, batch=8), requests)
    assert together == [run(local(folder, batch=8), [request])[0] for request in requests]


def test_long_prompts_are_computed_in_parts(tmp_path: Path) -> None:
    decoder = write_model(tmp_path, max_position_embeddings=2048)
    requests = [
        Request(prompt(i, length), max_tokens=4, temperature=0) for i, length in enumerate((1100, 30, 512, 600))
    ]
    for request, (sample,) in zip(requests, run(local(tmp_path), requests), strict=True):
        ids = list(request.context.ids)
        with torch.no_grad():
            for token in sample.ids:
                assert int(decoder(torch.tensor([ids]))[0, -1].argmax()) == token
                ids.append(token)


def test_seeds_and_samples(folder: Path) -> None:
    engine = local(folder)
    requests = [Request(prompt(1), 10, n=4, seed=seed) for seed in (1, 1, 2)]
    first, again, other = run(engine, requests)
    assert first == again
    texts = {sample.ids for sample in first + other}
    assert len(texts) == 8
    more = run(engine, [Request(prompt(1), 10, n=90, seed=1)])[0]  # more than the batch holds
    assert len(more) == 90
    assert more[:4] == first


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    """A model that writes nearly uniform noise, so that every split of a stop string into tokens occurs."""
    path = tmp_path_factory.mktemp("noisy")
    write_model(path, spread=0.001)
    return local(path, batch=16)


STOPS = ("abc", "ab", "b", ".\n", "é", "<end_of_step>", "12", "\n", "ca")


@settings(max_examples=25)
@given(stops=st.lists(st.sampled_from(STOPS), min_size=1, max_size=4), seed=st.integers(0, 10**6))
def test_text_ends_with_the_first_completed_stop(noisy: LocalEngine, stops: list[str], seed: int) -> None:
    request = Request(prompt(1), max_tokens=60, n=8, seed=seed)
    free, stopped = run(noisy, [request, Request(prompt(1), 60, n=8, seed=seed, stop=tuple(stops))])
    for full, cut in zip(free, stopped, strict=True):
        data = b"".join(map(noisy.tokens.piece, full.ids))
        ends = [data.find(stop.encode()) + len(stop.encode()) for stop in stops if stop.encode() in data]
        if not ends:
            assert cut == full
            continue
        assert cut.text == data[: min(ends)].decode(errors="replace")
        assert cut.stop_reason == "stop"
        assert cut.stop in stops
        assert cut.text.endswith(str(cut.stop))
        assert cut.ids == full.ids[: len(cut.ids)]
        assert cut.logprobs == full.logprobs[: len(cut.ids)]
        read = [len(b"".join(map(noisy.tokens.piece, ids))) for ids in (cut.ids[:-1], cut.ids)]
        assert read[0] < min(ends) <= read[1]


def test_stop_strings_occur_in_the_noise(noisy: LocalEngine) -> None:
    samples = run(noisy, [Request(prompt(2), 200, n=64, stop=STOPS)])[0]
    assert {sample.stop for sample in samples} >= {"ab", "b", "é", "<end_of_step>", "12", "\n"}
    assert any(noisy.tokens.text(sample.ids) != sample.text for sample in samples)  # "abc" overruns "ab"


def test_a_stop_string_that_is_the_end_token_counts_as_stop(noisy: LocalEngine) -> None:
    (with_stop, without) = run(noisy, [Request(prompt(2), 200, n=32, stop=s) for s in (("</s>",), ())])
    assert [a.text.removesuffix("</s>") for a in with_stop] == [b.text for b in without]
    assert {(a.stop_reason, b.stop_reason) for a, b in zip(with_stop, without, strict=True)} == {
        ("stop", "eos"),
        ("length", "length"),
    }
    assert all(len(b.ids) == len(b.logprobs) and EOS not in b.ids for b in without)


def test_length_limits(folder: Path) -> None:
    engine = local(folder, max_context=40)
    (sample,) = run(engine, [Request(prompt(1, 35), max_tokens=50, seed=3)])[0]
    assert (sample.stop_reason, len(sample.ids)) == ("length", 5)
    assert engine.max_context == 40
    with pytest.raises(EngineError, match="40 tokens of context fill max_context 40"):
        run(engine, [Request(prompt(1, 40))])
    with pytest.raises(EngineError, match=r"engine\.context"):
        run(engine, [Request(Context("text"))])


def test_context_and_append(folder: Path) -> None:
    engine = local(folder)
    context = engine.context("abc")
    assert context.ids[0] == BOS
    longer = engine.append(context, "<output>12\n")
    assert (longer.text, longer.ids) == ("abc<output>12\n", context.ids + engine.tokens.encode("<output>12\n"))


def test_many_concurrent_requests(folder: Path) -> None:
    requests = random_requests(600, max_tokens=6, n=2)
    found = run(local(folder, batch=64), requests)
    assert [len(samples) for samples in found] == [2] * 600
    assert all(0 <= len(sample.ids) <= 6 for samples in found for sample in samples)


def test_cancelling_frees_the_batch(folder: Path) -> None:
    engine = local(folder, batch=8)
    long = [Request(prompt(i, 5), max_tokens=250, n=8, seed=i, temperature=2.0) for i in range(20)]

    async def scenario() -> list[Completion]:
        async with engine:
            tasks = [asyncio.create_task(engine.complete(request)) for request in long]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            samples = list(await engine.complete(Request(prompt(1), 3, seed=1)))
            assert not engine._batch.busy
            assert not engine._futures
            return samples

    assert asyncio.run(scenario()) == run(local(folder), [Request(prompt(1), 3, seed=1)])[0]


def test_closing_refuses_what_is_under_way(folder: Path) -> None:
    engine = local(folder, batch=8)

    async def scenario() -> None:
        async with engine:
            task = asyncio.create_task(engine.complete(Request(prompt(1, 5), 240, n=30, temperature=2.0)))
            await asyncio.sleep(0.02)
        with pytest.raises(EngineError, match="closed"):
            await task
        with pytest.raises(EngineError, match="not open"):
            await engine.complete(Request(prompt(1)))

    asyncio.run(scenario())
    assert run(engine, [Request(prompt(1), 5)]) == run(local(folder), [Request(prompt(1), 5)])


def test_a_failure_of_the_model_reaches_every_waiter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = local(folder)

    async def scenario() -> None:
        async with engine:
            monkeypatch.setattr(engine._batch, "step", lambda: 1 // 0)
            tasks = [engine.complete(Request(prompt(i), 50)) for i in range(3)]
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(result, EngineError)
                assert "ZeroDivisionError" in str(result)
            with pytest.raises(EngineError, match="ZeroDivisionError"):
                await engine.complete(Request(prompt(1)))

    asyncio.run(scenario())


def unversioned(completions: Sequence[Completion]) -> list[Completion]:
    return [replace(completion, version=0) for completion in completions]


@pytest.mark.parametrize("given", ["folder", "decoder"])
def test_new_weights(folder: Path, tmp_path: Path, given: str) -> None:
    write_model(tmp_path, seed=9)
    request = Request(prompt(1, 30), 200, temperature=0)
    engine = local(folder)

    async def scenario(new: Path | Decoder) -> list[Sequence[Completion]]:
        async with engine:
            running = asyncio.create_task(engine.complete(request))
            while not engine._batch.busy:
                await asyncio.sleep(0.001)
            assert engine.version == 0
            await engine.load(new, 7)
            assert engine.version == 7
            return [await running, await engine.complete(request)]

    before, after = asyncio.run(scenario(tmp_path if given == "folder" else load_decoder(tmp_path)))
    assert list(before) == run(local(folder), [request])[0]
    assert {completion.version for completion in after} == {7}
    assert unversioned(after) == run(local(tmp_path), [request])[0]
    assert before != after


def test_new_weights_are_for_everything_that_follows(folder: Path, tmp_path: Path) -> None:
    """Also for what goes on from a prompt that the cache held, and when the engine is opened again."""
    write_model(tmp_path, seed=9)
    requests = random_requests(12)
    expected = run(local(tmp_path), requests)
    engine = local(folder)

    async def scenario() -> None:
        async with engine:
            await asyncio.gather(*map(engine.complete, requests))
            await engine.load(tmp_path, 1)
            assert [unversioned(await engine.complete(request)) for request in requests] == expected

    asyncio.run(scenario())
    assert [unversioned(found) for found in run(engine, requests)] == expected
    assert engine.version == 1


def test_weights_that_cannot_be_taken(folder: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "wide", hidden_size=96)
    write_model(tmp_path / "new", seed=9)
    engine = local(folder)
    request = Request(prompt(1), 3, seed=1)

    async def scenario() -> None:
        with pytest.raises(EngineError, match="not open"):
            await engine.load(tmp_path / "new", 1)
        async with engine:
            with pytest.raises(EngineError, match=r"another shape: .*hidden_size=96"):
                await engine.load(tmp_path / "wide", 1)
            with pytest.raises(EngineError, match=r"config\.json"):
                await engine.load(tmp_path / "none", 1)
            assert engine.version == 0
            assert list(await engine.complete(request)) == run_alone
            two = await asyncio.gather(*(engine.load(tmp_path / "new", 1) for _ in range(2)), return_exceptions=True)
            assert all(one is None or "another load is in progress" in str(one) for one in two)
            assert None in two
            long = asyncio.create_task(engine.complete(Request(prompt(1, 5), 240, n=30, temperature=2.0)))
            while not engine._batch.busy:
                await asyncio.sleep(0.001)
            waiting = asyncio.create_task(engine.load(tmp_path / "new", 2))
            while engine._update is None:
                await asyncio.sleep(0.001)
        for task in (long, waiting):
            with pytest.raises(EngineError, match="closed"):
                await task

    run_alone = run(local(folder), [request])[0]
    asyncio.run(scenario())


def test_capacity(folder: Path) -> None:
    capacity = local(folder, batch=20, max_context=100).capacity()
    assert (capacity.samples, capacity.tokens) == (32, 3200)  # whole steps of rows


def test_bfloat16_follows_float32(folder: Path) -> None:
    requests = [Request(prompt(i), 8, temperature=0) for i in range(10)]
    exact, rough = (run(local(folder, dtype=dtype), requests) for dtype in ("float32", "bfloat16"))
    same = sum(a[0].ids[:2] == b[0].ids[:2] for a, b in zip(exact, rough, strict=True))
    assert same >= 7


def test_bad_settings(folder: Path) -> None:
    with pytest.raises(ConfigError, match="dtype 'int3'"):
        LocalEngine(folder, dtype="int3")
    assert load_decoder(folder).config.vocab_size == VOCAB


def test_known_completions_do_not_come_again(folder: Path) -> None:
    """Drawn one after the other, each knowing those before it, samples are distinct, likely ones first on average."""

    async def use() -> None:
        async with LocalEngine(folder, batch=8, threads=1) as engine:
            request = Request(engine.context("ab"), max_tokens=2, seed=3)
            known: list[Completion] = []
            for number in range(40):
                (found,) = await engine.complete(replace(request, first=number, known=tuple(known)))
                known.append(found)
            assert len({(found.ids, found.end and found.end[0]) for found in known}) == 40
            for temperature in (0.0, 0.5):  # where known ones cannot be avoided, nothing changes
                cooler = replace(request, temperature=temperature)
                assert await engine.complete(cooler) == await engine.complete(replace(cooler, known=tuple(known)))

    asyncio.run(use())
