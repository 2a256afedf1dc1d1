"""Completions of `OpenAIEngine`, from every kind of server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rstar.errors import ContextFullError, EngineError
from rstar.models.engine import Completion, Context, Engine, Request
from rstar.models.openai import OpenAIEngine
from tests.models.completion_servers import TEXT, Answer, ask, choices, cut, hiding, including, serving, sglang, vllm


@pytest.mark.parametrize("kind", [vllm, sglang, including, hiding])
def test_completions_are_equal_for_every_server(kind: Callable[[dict[str, Any]], Answer]) -> None:
    with serving(kind) as server:
        stopped = Completion("one.two<stop>", (), (), "stop", "<stop>")
        assert server.run(ask(n=3), ask(stop=(".", "<stop>"))) == [
            [stopped] * 3,
            [Completion("one.", (), (), "stop", ".")],
        ]
        assert server.run(ask(stop=("never",)), ask(stop=())) == [[Completion(TEXT, (), (), "eos")]] * 2


def test_contexts_without_a_tokenizer_have_no_ids() -> None:
    engine = OpenAIEngine("http://localhost:8000", "m")
    assert isinstance(engine, Engine)
    assert engine.name == "openai:http://localhost:8000/v1#m"
    context = engine.append(engine.context("a"), "b").extend(Completion("c", (), (), "eos"))
    assert context == Context("abc")


def test_request_body() -> None:
    with serving(vllm) as server:
        server.run(ask(n=2, seed=2**40 + 3, temperature=0.5, top_p=0.9, max_tokens=7), key="secret", max_context=5)
        (body,) = server.asked
        assert body == {
            "model": "m", "prompt": "prompt", "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "seed": 3, "n": 2,
            "stop": ["<stop>", "never"], "logprobs": 1, "skip_special_tokens": False,
        }  # fmt: skip
        assert server.keys == ["Bearer secret"]


def test_rejected_fields_are_omitted() -> None:
    with serving(including) as server:
        server.run(ask(temperature=0))
        assert [("skip_special_tokens" in body) for body in server.asked] == [True, False]


def test_samples_of_a_server_that_ignores_n() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return choices({"text": str(body["seed"]), "stop_reason": None})

    with serving(answer) as server:
        first, again = server.run(ask(n=3, seed=5))[0], server.run(ask(n=3, seed=5))[0]
        assert first == again
        assert len({sample.text for sample in first}) == 3
        assert first[0].text == "5"
        assert first[:2] != server.run(ask(n=2, seed=6))[0]


def test_greedy_samples_are_one_request() -> None:
    with serving(vllm) as server:
        samples = server.run(ask(n=4, temperature=0))[0]
        assert len(samples) == 4
        assert len(server.asked) == 1
        assert "n" not in server.asked[0]


def test_finish_reasons() -> None:
    for reason in ("length", "max_tokens", "model_length"):
        with serving(lambda _, reason=reason: choices({"text": "abc", "finish_reason": reason})) as server:
            assert server.run(ask())[0] == [Completion("abc", (), (), "length")]
    with (
        serving(lambda _: choices({"text": "abc", "finish_reason": "abort"})) as server,
        pytest.raises(EngineError, match="abort"),
    ):
        server.run(ask())


@pytest.mark.parametrize("reason", ["eos_token", "content_filter"])
def test_other_finish_reasons_are_eos(reason: str) -> None:
    with serving(lambda _: choices({"text": "abc", "finish_reason": reason})) as server:
        assert server.run(ask())[0][0].stop_reason == "eos"


def test_choice_indices() -> None:
    def unnumbered(body: dict[str, Any]) -> Answer:
        found = [{"text": f"{i}<stop>", "finish_reason": "stop"} for i in range(body["n"])]
        return 200, {}, {"choices": found}

    with serving(unnumbered) as server:
        assert [sample.text for sample in server.run(ask(n=3))[0]] == ["0<stop>", "1<stop>", "2<stop>"]
    with (
        serving(lambda _: choices({"text": "a<stop>", "index": 7})) as server,
        pytest.raises(EngineError, match=r"1 choices with indices \[7\]"),
    ):
        server.run(ask())


def test_tokens_of_partial_characters() -> None:
    tokens = ["bytes:\\xe2\\x82", "bytes:\\xac", "<stop>", "more"]
    logprobs = {"tokens": tokens, "token_logprobs": [-1.0, -2.0, -3.0, -4.0]}
    with serving(lambda _: choices({"text": "€<stop>", "logprobs": logprobs})) as server:
        assert server.run(ask())[0][0].logprobs == (-1.0, -2.0, -3.0)


def test_lone_surrogates_are_replaced() -> None:
    with serving(lambda _: choices({"text": "a\ud800<stop>"})) as server:
        assert server.run(ask())[0][0].text == "a?<stop>"


def test_reported_token_counts() -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 30}

    def counting(body: dict[str, Any]) -> Answer:
        status, headers, value = choices({"text": "12<stop>"}, {"text": "1234567890<stop>"})
        return status, headers, value | {"usage": usage}

    with serving(counting) as server:
        short, long = server.run(ask(n=2))[0]
    assert (short.prompt_tokens, long.prompt_tokens) == (11, 11)
    assert short.n_tokens + long.n_tokens == 30
    assert short.n_tokens < long.n_tokens


def test_token_counts_of_streams() -> None:
    """A server reports them behind the text, if it is asked; a stream that was closed early has the tokens seen."""

    def answer(body: dict[str, Any]) -> Answer:
        if not body.get("stream"):
            return hiding(body)
        counted = {"choices": [], "usage": {"completion_tokens": 9, "prompt_tokens": 4}}
        return 200, {}, hiding(body)[2] + [counted] * body["stream_options"]["include_usage"]

    with serving(answer) as server:
        (ended,), (cut_off,) = server.run(ask(stop=("never",)), ask())
    assert (ended.text, ended.n_tokens, ended.prompt_tokens) == (TEXT, 9, 4)
    assert (cut_off.text, cut_off.n_tokens, cut_off.prompt_tokens) == ("one.two<stop>", 5, 0)


def test_thinking_that_a_server_reports_apart() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        if "prompt" in body:
            return 404, {}, "none"
        messages = [{"content": "7", "reasoning_content": "3 + 4"}, {"content": None, "reasoning": "3 +<stop>"}]
        return choices(*({"message": message, "stop_reason": None} for message in messages))

    with serving(answer) as server:
        (said, thought), *_ = server.run(ask(n=2, stop=("<stop>",)), api="chat")
    assert said.text == "7"
    assert (thought.text, thought.stop_reason) == ("<think>3 +<stop>", "eos"), "no stop string ends a thought"


def test_logprobs_in_chat_format() -> None:
    content = [{"token": "one", "logprob": -1.0}, {"token": ".two<stop>", "logprob": -2.0}]
    with serving(lambda _: choices({"text": "one.two<stop>", "logprobs": {"content": content}})) as server:
        assert server.run(ask())[0][0].logprobs == (-1.0, -2.0)


def test_max_tokens_shrinks_until_the_context_fits() -> None:
    def small(body: dict[str, Any]) -> Answer:
        if 100 + body["max_tokens"] > 400:
            return 400, {}, {"message": "This model's maximum context length is 400 tokens."}
        return choices({"text": "abc<stop>"})

    with serving(small) as server:
        server.run(ask(max_tokens=2000))
        assert [body["max_tokens"] for body in server.asked] == [2000, 1000, 500, 250]

    def full(body: dict[str, Any]) -> Answer:
        return 400, {}, {"error": {"type": "exceed_context_size_error", "message": "the request exceeds it"}}

    with serving(full) as server, pytest.raises(ContextFullError):
        server.run(ask(max_tokens=2000))


def test_an_engine_can_be_entered_twice() -> None:
    with serving(vllm) as server:

        async def both() -> int:
            engine = OpenAIEngine(server.url, "m")
            async with engine:
                async with engine:
                    pass
                return len(await engine.complete(ask()))

        assert asyncio.run(both()) == 1


def test_logprobs_end_with_the_text() -> None:
    logprobs = {"tokens": ["one", ".", "tw", "o<stop>t", "</s>"], "token_logprobs": [-1.0, -2.0, None, -3.0, -9.0]}
    with serving(lambda _: choices({"text": "one.two<stop>t", "logprobs": logprobs})) as server:
        (sample,) = server.run(ask())[0]
        assert sample.logprobs == (-1.0, -2.0, 0.0, -3.0)
        assert sample.n_tokens == 4


class Bytes:
    """A tokenizer of bytes; 0 ends a text."""

    eos_ids = frozenset({0})

    def prompt(self, text: str) -> tuple[int, ...]:
        return (1, *text.encode())

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode())


def test_token_ids_with_a_tokenizer() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        assert body["return_token_ids"] is True
        assert body["prompt"] == [1, *b"abc"]
        text, stop = cut("xy;z", body.get("stop", ()))
        ids = [*(text + (stop or "")).encode()] + ([] if stop else [0])
        logprobs = {"tokens": ["?"] * len(ids), "token_logprobs": [-0.5] * len(ids)}
        return choices({"text": text, "stop_reason": stop, "token_ids": ids, "logprobs": logprobs})

    with serving(answer) as server:
        engine = OpenAIEngine(server.url, "m", tokenizer=Bytes())
        context = engine.append(engine.context("ab"), "c")
        found = server.run(Request(context, stop=(";",)), Request(context), tokenizer=Bytes())
        assert found == [
            [Completion("xy;", tuple(b"xy;"), (-0.5,) * 3, "stop", ";")],
            [Completion("xy;z", tuple(b"xy;z"), (-0.5,) * 4, "eos", end=(0, -0.5))],
        ]
    with serving(vllm) as server, pytest.raises(EngineError, match="does not return token ids"):
        server.run(Request(context), tokenizer=Bytes())
    with serving(vllm) as server, pytest.raises(EngineError, match="4 tokens of context fill max_context 4"):
        server.run(Request(context), tokenizer=Bytes(), max_context=4)


def test_max_context_is_limited_by_the_server() -> None:
    async def longest(url: str) -> int:
        async with OpenAIEngine(url, "m", max_context=100) as engine:
            return engine.max_context

    for limit, expected in ((50, 50), (500, 100)):
        models = {"data": [{"id": "other", "max_model_len": 3}, {"id": "m", "max_model_len": limit}]}
        with serving(vllm, models) as server:
            assert asyncio.run(longest(server.url)) == expected


def test_load_is_refused() -> None:
    engine = OpenAIEngine("http://localhost:9", "m", concurrency=7)
    with pytest.raises(EngineError, match="openai:http://localhost:9/v1#m: a server cannot load new weights"):
        asyncio.run(engine.load(Path("new"), 1))
    assert engine.version == 0
    assert (engine.capacity().samples, engine.capacity().tokens) == (7, None)
