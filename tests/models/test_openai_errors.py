"""Failures of servers: retries, limits, and the errors of `OpenAIEngine`."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rstar.errors import ContextFullError, EngineError
from rstar.models.engine import Completion, Context, Request
from rstar.models.openai import OpenAIEngine
from tests.models.chat_servers import chat_server
from tests.models.completion_servers import TEXT, Answer, ask, choices, cut, hiding, serving, vllm
from tests.models.test_openai import Bytes


@pytest.mark.parametrize(
    "choice",
    [
        {"text": 5},
        {"text": "a", "logprobs": [0.0]},
        {"text": "a", "logprobs": {"content": [{"token": "a"}]}},
        {"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": ["b"]}},
        {"text": "a", "token_ids": 3},
    ],
)
def test_malformed_choices_are_errors(choice: dict[str, Any]) -> None:
    with serving(lambda _: choices(choice)) as server, pytest.raises(EngineError, match="malformed completion choice"):
        server.run(ask())


def test_duplicate_choice_indices_are_errors() -> None:
    def twice(body: dict[str, Any]) -> Answer:
        return 200, {}, {"choices": [{"text": "a<stop>", "index": 0}] * body["n"]}

    with serving(twice) as server, pytest.raises(EngineError, match=r"2 choices with indices \[0, 0\]"):
        server.run(ask(n=2))


class Failing:
    """Fails some times in the given ways, then answers."""

    def __init__(self, *failures: Answer) -> None:
        self.failures = list(failures)
        self.times: list[float] = []

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.times.append(time.monotonic())
        return self.failures.pop(0) if self.failures else vllm(body)


@pytest.mark.parametrize("failure", [(429, {}, {}), (500, {}, "oops"), (503, {}, {}), (0, {}, {})])
def test_transient_failures_are_retried(failure: Answer) -> None:
    with serving(Failing(failure, failure)) as server:
        assert server.run(ask())[0][0].stop == "<stop>"
        assert len(server.asked) == 3


def test_retry_after_is_respected() -> None:
    failing = Failing((429, {"Retry-After": "0.3"}, {}))
    with serving(failing) as server:
        server.run(ask())
    assert failing.times[1] - failing.times[0] >= 0.3


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_permanent_failures_are_not_retried(status: int) -> None:
    with serving(lambda _: (status, {}, {"error": "no such thing"})) as server:
        with pytest.raises(EngineError) as caught:
            server.run(ask(), key="secret")
        assert len(server.asked) == (2 if status == 404 else 1), "after 404 the chat API is tried, once"
    assert f"{server.url}/completions: HTTP {status}" in str(caught.value)
    assert "no such thing" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_retries_are_limited() -> None:
    with serving(lambda _: (503, {}, "busy")) as server:
        with pytest.raises(EngineError, match="HTTP 503: busy"):
            server.run(ask(), retries=2)
        assert len(server.asked) == 3


def test_unreachable_server() -> None:
    with serving(vllm) as server:
        url = server.url
    engine = OpenAIEngine(url, "m", retries=1, pause=0.001)

    async def enter() -> None:
        async with engine:
            pass

    with pytest.raises(EngineError, match=r"/models: ConnectError.*2 attempts"):
        asyncio.run(enter())
    with pytest.raises(EngineError, match="not open"):
        asyncio.run(engine.complete(ask()))


@pytest.mark.parametrize("status", [422, 500])
def test_a_server_that_refuses_token_ids(status: int) -> None:
    def picky(body: dict[str, Any]) -> Answer:
        return vllm(body) if isinstance(body["prompt"], str) else (status, {}, "prompt: input should be a string")

    with serving(picky) as server, pytest.raises(EngineError, match=r"token ids.*this server may not accept"):
        server.run(Request(Context("ab", (1, 2))), tokenizer=Bytes(), retries=0)


def test_timeout() -> None:
    def slow(body: dict[str, Any]) -> Answer:
        time.sleep(0.3)
        return vllm(body)

    with serving(slow) as server, pytest.raises(EngineError, match=r"no complete answer within 0\.05 seconds"):
        server.run(ask(), retries=0, timeout=0.05)


def test_a_stream_that_says_nothing_ends_in_time() -> None:
    def silent() -> Iterator[object]:
        for _ in range(600):
            time.sleep(0.05)
            yield {"choices": []}

    def answer(body: dict[str, Any]) -> Answer:
        return (200, {}, silent()) if body.get("stream") else hiding(body)

    with serving(answer) as server, pytest.raises(EngineError, match=r"no complete answer within 0\.3 seconds"):
        server.run(ask(), retries=0, timeout=0.3)


def test_a_stream_without_an_end_is_cut_at_the_limit() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        endless = ({"choices": [{"index": 0, "text": f"{n},"}]} for n in itertools.count())
        return (200, {}, endless) if body.get("stream") else hiding(body)

    with serving(answer) as server:
        ((completion,),) = server.run(ask(max_tokens=20))
    assert completion.stop_reason == "length"
    assert completion.text == "".join(f"{n}," for n in range(21))


def test_concurrency_is_limited() -> None:
    def slow(body: dict[str, Any]) -> Answer:
        time.sleep(0.01)
        return vllm(body)

    with serving(slow) as server:
        server.run(*[ask()] * 20, concurrency=3)
        assert len(server.asked) == 20
        assert server.most_at_once == 3


@pytest.mark.parametrize("value", ["<html>", {"choices": []}, {"object": "error"}, [1]])
def test_malformed_responses_are_errors(value: Any) -> None:
    data = json.dumps(value) if not isinstance(value, str) else value
    with serving(lambda _: (200, {}, data)) as server, pytest.raises(EngineError):
        server.run(ask())


@pytest.mark.parametrize("invalid", ["<html>bad gateway</html>", '{"choices": []}', ""])
def test_answers_that_are_none_are_retried(invalid: str) -> None:
    with serving(Failing((200, {}, invalid), (200, {}, invalid))) as server:
        assert server.run(ask())[0][0].stop == "<stop>"
        assert len(server.asked) == 3


@pytest.mark.parametrize("invalid", ["<html>bad gateway</html>", [], [{"choices": [{"text": "on"}]}]])
def test_streams_that_are_none_are_retried(invalid: Any) -> None:
    broken = iter([invalid, invalid])

    def answer(body: dict[str, Any]) -> Answer:
        return (200, {}, next(broken, hiding(body)[2])) if body.get("stream") else hiding(body)

    with serving(answer) as server:
        assert server.run(ask())[0][0].text == "one.two<stop>"
        assert len(server.asked) == 4


def test_stream_errors() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return (200, {}, [{"error": "out of memory"}]) if body.get("stream") else hiding(body)

    with serving(answer) as server, pytest.raises(EngineError, match="out of memory"):
        server.run(ask())


def test_a_stream_that_breaks_off_with_an_error_is_repeated() -> None:
    errors = iter([[{"error": {"code": 503, "message": "overloaded"}}]])

    def answer(body: dict[str, Any]) -> Answer:
        return (200, {}, next(errors, hiding(body)[2])) if body.get("stream") else hiding(body)

    with serving(answer) as server:
        assert server.run(ask())[0][0].text == "one.two<stop>"


def test_a_filter_of_contents_silences_one_question() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        refusal = {"error": {"code": "content_filter", "message": "refused by our content management policy"}}
        return (400, {}, refusal) if body["prompt"] == "bad" else vllm(body)

    with serving(answer) as server:
        (silent, other), (said, _) = server.run(Request(Context("bad"), n=2), ask(n=2))
    assert silent == other == Completion("", (), (), "eos")
    assert said.text == "one.two<stop>"


@pytest.mark.parametrize(
    "refusal",
    [
        "Input length 5000 exceeds maximum allowed token size 4096",
        "prompt is too long: 5000 tokens > 4096 maximum",
        "`inputs` tokens + `max_new_tokens` must be <= 4096",
        "This model's maximum context length is 4096 tokens",
    ],
)
def test_full_contexts_in_many_words(refusal: str) -> None:
    with serving(lambda body: (400, {}, {"error": refusal})) as server, pytest.raises(ContextFullError):
        server.run(ask())


def test_a_missing_completions_api_is_explained() -> None:
    with serving(lambda body: (404, {}, {"detail": "Not Found"})) as server, pytest.raises(EngineError) as caught:
        server.run(ask())
    assert "/v1/completions: HTTP 404" in str(caught.value)
    assert "neither completions nor chat completions at this URL" in str(caught.value)


@pytest.mark.parametrize(
    ("api", "answer", "named"),
    [
        (
            "completions",
            chat_server(lambda messages, seed: "7"),
            "no completions API at this URL; remove ?api=completions",
        ),
        ("chat", lambda body: (404, {}, "none") if "messages" in body else vllm(body), "no chat completions API"),
    ],
)
def test_an_api_that_was_given_and_is_missing(api: str, answer: Any, named: str) -> None:
    with serving(answer) as server, pytest.raises(EngineError) as caught:
        server.run(ask(), api=api)
    assert named in str(caught.value)
    assert "neither" not in str(caught.value)


def test_an_unknown_model_is_named() -> None:
    refusal = 404, {}, {"message": "The model `m` does not exist."}
    listed = {"data": [{"id": "other"}, {"id": "another"}]}
    with serving(lambda body: refusal, listed) as server, pytest.raises(EngineError) as caught:
        server.run(ask())
    assert "does not have the model 'm'; it offers other, another" in str(caught.value)
    assert "at this URL" not in str(caught.value)


def test_a_server_without_streams_is_an_error() -> None:
    """It hides which stop string ended a text, and answers a request for a stream with a whole completion."""

    def hides(body: dict[str, Any]) -> Answer:
        return choices({"text": cut(TEXT, body.get("stop", ()))[0]})

    with (
        serving(hides) as server,
        pytest.raises(EngineError, match="neither streams completions nor names"),
    ):
        server.run(ask())
