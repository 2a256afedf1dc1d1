"""The client against an HTTP server in this process that behaves like one server or another."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rstar.errors import ContextFullError, EngineError
from rstar.models.engine import Completion, Context, Engine, Request
from rstar.models.openai import OpenAIEngine

Answer = tuple[int, dict[str, str], Any]
"""Status, headers, and a JSON value, or a list of events for a stream."""
TEXT = "one.two<stop>three"


@dataclass
class Server:
    """What a server is asked, and by which function it answers."""

    answer: Callable[[dict[str, Any]], Answer]
    models: Any = None
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def run(self, *requests: Request, **settings: Any) -> list[list[Completion]]:
        async def all_at_once() -> list[list[Completion]]:
            async with OpenAIEngine(self.url, "m", **{"pause": 0.001, **settings}) as engine:
                return [list(r) for r in await asyncio.gather(*(engine.complete(request) for request in requests))]

        return asyncio.run(all_at_once())


@contextmanager
def serving(answer: Callable[[dict[str, Any]], Answer], models: Any = None) -> Iterator[Server]:
    server = Server(answer, models)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.reply(200 if server.models else 500, {}, server.models or "no list")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                server.asked.append(body)
                server.keys.append(self.headers.get("Authorization"))
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                self.reply(*server.answer(body))
            finally:
                with lock:
                    server.at_once -= 1

        def reply(self, status: int, headers: dict[str, str], value: Any) -> None:
            if status == 0:  # a lost connection
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if isinstance(value, list):
                data = "".join(f"data: {json.dumps(event)}\n\n" for event in value) + "data: [DONE]\n\n"
            else:
                data = value if isinstance(value, str) else json.dumps(value)
            self.send_response(status)
            for name, text in {"Content-Length": str(len(data.encode())), **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def choices(*found: dict[str, Any]) -> Answer:
    return 200, {}, {"choices": [{"index": i, "finish_reason": "stop", **choice} for i, choice in enumerate(found)]}


def ask(n: int = 1, stop: tuple[str, ...] = ("<stop>", "never"), **settings: Any) -> Request:
    return Request(Context("prompt"), n=n, stop=stop, **settings)


def cut(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """`text` before the first stop string."""
    found = min(((text.find(s), s) for s in stop if s in text), default=(len(text), None))
    return text[: found[0]], found[1]


def vllm(body: dict[str, Any]) -> Answer:
    text, stop = cut(TEXT, body.get("stop", ()))
    return choices(*[{"text": text, "stop_reason": stop}] * body.get("n", 1))


def sglang(body: dict[str, Any]) -> Answer:
    text, stop = cut(TEXT, body.get("stop", ()))
    return choices(*[{"text": text, "matched_stop": stop or 2}] * body.get("n", 1))


def including(body: dict[str, Any]) -> Answer:
    """Like transformers serve: refuses unknown fields, ignores n, runs over the stop string to the token's end."""
    known = {"model", "prompt", "max_tokens", "temperature", "top_p", "seed", "n", "stop", "logprobs", "stream"}
    if unknown := set(body) - known:
        return 422, {}, {"detail": f"Unexpected fields in the request: {unknown}"}
    if body.get("stream"):
        return hiding(body)
    text, stop = cut(TEXT, body.get("stop", ()))
    return choices({"text": text + stop + "t" if stop else text})


def hiding(body: dict[str, Any]) -> Answer:
    """Like llama.cpp: cuts the stop string off and does not name it."""
    if body.get("stream"):
        pieces = [TEXT[i : i + 3] for i in range(0, len(TEXT), 3)]
        events = [{"choices": [{"index": 0, "text": piece, "finish_reason": None}]} for piece in pieces]
        return 200, {}, [*events, {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}]
    return choices(*[{"text": cut(TEXT, body.get("stop", ()))[0]}] * body.get("n", 1))


@pytest.mark.parametrize("kind", [vllm, sglang, including, hiding])
def test_every_kind_of_server_gives_the_same_completions(kind: Callable[[dict[str, Any]], Answer]) -> None:
    with serving(kind) as server:
        stopped = Completion("one.two<stop>", (), (), "stop", "<stop>")
        assert server.run(ask(n=3), ask(stop=(".", "<stop>"))) == [
            [stopped] * 3,
            [Completion("one.", (), (), "stop", ".")],
        ]
        assert server.run(ask(stop=("never",)), ask(stop=())) == [[Completion(TEXT, (), (), "eos")]] * 2


def test_is_an_engine_without_ids() -> None:
    engine = OpenAIEngine("http://localhost:8000", "m")
    assert isinstance(engine, Engine)
    assert engine.name == "openai:http://localhost:8000/v1#m"
    context = engine.append(engine.context("a"), "b").extend(Completion("c", (), (), "eos"))
    assert context == Context("abc")


def test_what_is_sent() -> None:
    with serving(vllm) as server:
        server.run(ask(n=2, seed=2**40 + 3, temperature=0.5, top_p=0.9, max_tokens=7), key="secret", max_context=5)
        (body,) = server.asked
        assert body == {
            "model": "m", "prompt": "prompt", "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "seed": 3, "n": 2,
            "stop": ["<stop>", "never"], "logprobs": 1, "skip_special_tokens": False,
        }  # fmt: skip
        assert server.keys == ["Bearer secret"]


def test_refused_fields_are_left_out_from_then_on() -> None:
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


def test_length_and_unknown_endings() -> None:
    with serving(lambda _: choices({"text": "abc", "finish_reason": "length"})) as server:
        assert server.run(ask())[0] == [Completion("abc", (), (), "length")]
    with (
        serving(lambda _: choices({"text": "abc", "finish_reason": "abort"})) as server,
        pytest.raises(EngineError, match="abort"),
    ):
        server.run(ask())


@pytest.mark.parametrize("reason", ["eos_token", "content_filter"])
def test_other_endings_mean_that_the_model_says_no_more(reason: str) -> None:
    with serving(lambda _: choices({"text": "abc", "finish_reason": reason})) as server:
        assert server.run(ask())[0][0].stop_reason == "eos"


def test_choices_without_a_number_and_with_a_wrong_one() -> None:
    def unnumbered(body: dict[str, Any]) -> Answer:
        found = [{"text": f"{i}<stop>", "finish_reason": "stop"} for i in range(body["n"])]
        return 200, {}, {"choices": found}

    with serving(unnumbered) as server:
        assert [sample.text for sample in server.run(ask(n=3))[0]] == ["0<stop>", "1<stop>", "2<stop>"]
    with (
        serving(lambda _: choices({"text": "a<stop>", "index": 7})) as server,
        pytest.raises(EngineError, match=r"1 choices with the numbers \[7\]"),
    ):
        server.run(ask())


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
def test_what_is_no_choice_is_the_server_s_failure(choice: dict[str, Any]) -> None:
    with serving(lambda _: choices(choice)) as server, pytest.raises(EngineError, match="not a choice"):
        server.run(ask())


def test_two_choices_of_one_number_are_refused() -> None:
    def twice(body: dict[str, Any]) -> Answer:
        return 200, {}, {"choices": [{"text": "a<stop>", "index": 0}] * body["n"]}

    with serving(twice) as server, pytest.raises(EngineError, match=r"2 choices with the numbers \[0, 0\]"):
        server.run(ask(n=2))


def test_tokens_that_are_parts_of_characters_are_counted() -> None:
    tokens = ["bytes:\\xe2\\x82", "bytes:\\xac", "<stop>", "more"]
    logprobs = {"tokens": tokens, "token_logprobs": [-1.0, -2.0, -3.0, -4.0]}
    with serving(lambda _: choices({"text": "€<stop>", "logprobs": logprobs})) as server:
        assert server.run(ask())[0][0].logprobs == (-1.0, -2.0, -3.0)


def test_half_characters_of_a_server_do_no_harm() -> None:
    with serving(lambda _: choices({"text": "a\ud800<stop>"})) as server:
        assert server.run(ask())[0][0].text == "a?<stop>"


def test_tokens_as_the_server_counts_them() -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 30}

    def counting(body: dict[str, Any]) -> Answer:
        status, headers, value = choices({"text": "12<stop>"}, {"text": "1234567890<stop>"})
        return status, headers, value | {"usage": usage}

    with serving(counting) as server:
        short, long = server.run(ask(n=2))[0]
    assert (short.prompted, long.prompted) == (11, 11)
    assert short.n_tokens + long.n_tokens == 30
    assert short.n_tokens < long.n_tokens


def test_logprobs_in_the_form_of_chats() -> None:
    content = [{"token": "one", "logprob": -1.0}, {"token": ".two<stop>", "logprob": -2.0}]
    with serving(lambda _: choices({"text": "one.two<stop>", "logprobs": {"content": content}})) as server:
        assert server.run(ask())[0][0].logprobs == (-1.0, -2.0)


def test_fewer_tokens_are_asked_for_where_prompt_and_completion_do_not_fit() -> None:
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


def test_two_users_of_one_engine() -> None:
    with serving(vllm) as server:

        async def both() -> int:
            engine = OpenAIEngine(server.url, "m")
            async with engine:
                async with engine:
                    pass
                return len(await engine.complete(ask()))

        assert asyncio.run(both()) == 1


def test_logprobs_cover_the_text_alone() -> None:
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


def test_with_a_tokenizer_ids_go_in_and_out() -> None:
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
            [Completion("xy;z", tuple(b"xy;z"), (-0.5,) * 4, "eos")],
        ]
    with serving(vllm) as server, pytest.raises(EngineError, match="does not return token ids"):
        server.run(Request(context), tokenizer=Bytes())
    with serving(vllm) as server, pytest.raises(EngineError, match="4 tokens of context fill max_context 4"):
        server.run(Request(context), tokenizer=Bytes(), max_context=4)


def test_the_server_knows_its_longest_context() -> None:
    async def longest(url: str) -> int:
        async with OpenAIEngine(url, "m", max_context=100) as engine:
            return engine.max_context

    for limit, expected in ((50, 50), (500, 100)):
        models = {"data": [{"id": "other", "max_model_len": 3}, {"id": "m", "max_model_len": limit}]}
        with serving(vllm, models) as server:
            assert asyncio.run(longest(server.url)) == expected


class Failing:
    """Fails some times in the given ways, then answers."""

    def __init__(self, *failures: Answer) -> None:
        self.failures = list(failures)
        self.times: list[float] = []

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.times.append(time.monotonic())
        return self.failures.pop(0) if self.failures else vllm(body)


@pytest.mark.parametrize("failure", [(429, {}, {}), (500, {}, "oops"), (503, {}, {}), (0, {}, {})])
def test_passing_failures_are_tried_again(failure: Answer) -> None:
    with serving(Failing(failure, failure)) as server:
        assert server.run(ask())[0][0].stop == "<stop>"
        assert len(server.asked) == 3


def test_retry_after_is_honoured() -> None:
    failing = Failing((429, {"Retry-After": "0.3"}, {}))
    with serving(failing) as server:
        server.run(ask())
    assert failing.times[1] - failing.times[0] >= 0.3


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_lasting_failures_are_not_tried_again(status: int) -> None:
    with serving(lambda _: (status, {}, {"error": "no such thing"})) as server:
        with pytest.raises(EngineError) as caught:
            server.run(ask(), key="secret")
        assert len(server.asked) == 1
    assert f"{server.url}/completions: HTTP {status}" in str(caught.value)
    assert "no such thing" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_retries_end() -> None:
    with serving(lambda _: (503, {}, "busy")) as server:
        with pytest.raises(EngineError, match="HTTP 503: busy"):
            server.run(ask(), retries=2)
        assert len(server.asked) == 3


def test_nobody_there() -> None:
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


def test_slow_servers_time_out() -> None:
    def slow(body: dict[str, Any]) -> Answer:
        time.sleep(0.3)
        return vllm(body)

    with serving(slow) as server, pytest.raises(EngineError, match="ReadTimeout"):
        server.run(ask(), retries=0, timeout=0.05)


def test_requests_under_way_are_limited() -> None:
    def slow(body: dict[str, Any]) -> Answer:
        time.sleep(0.01)
        return vllm(body)

    with serving(slow) as server:
        server.run(*[ask()] * 20, concurrency=3)
        assert len(server.asked) == 20
        assert server.most_at_once == 3


@pytest.mark.parametrize("value", ["<html>", {"choices": []}, {"object": "error"}, [1]])
def test_answers_that_make_no_sense(value: Any) -> None:
    data = json.dumps(value) if not isinstance(value, str) else value
    with serving(lambda _: (200, {}, data)) as server, pytest.raises(EngineError):
        server.run(ask())


def test_errors_within_a_stream() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return (200, {}, [{"error": "out of memory"}]) if body.get("stream") else hiding(body)

    with serving(answer) as server, pytest.raises(EngineError, match="out of memory"):
        server.run(ask())


def test_a_server_with_chat_only_is_named_with_what_to_do() -> None:
    with serving(lambda body: (404, {}, {"detail": "Not Found"})) as server, pytest.raises(EngineError) as caught:
        server.run(ask())
    assert "/v1/completions: HTTP 404" in str(caught.value)
    assert "The server has no completions API at this URL" in str(caught.value)
    assert "serve the model with vLLM" in str(caught.value)


def test_an_unknown_model_is_told_from_a_missing_path() -> None:
    refusal = 404, {}, {"message": "The model `m` does not exist."}
    listed = {"data": [{"id": "other"}, {"id": "another"}]}
    with serving(lambda body: refusal, listed) as server, pytest.raises(EngineError) as caught:
        server.run(ask())
    assert "does not know the model 'm'; it offers other, another" in str(caught.value)
    assert "completions API" not in str(caught.value)


def test_a_server_that_sends_no_stream_is_named() -> None:
    """It hides which stop string ended a text, and answers a request for a stream with a whole completion."""

    def hides(body: dict[str, Any]) -> Answer:
        return choices({"text": cut(TEXT, body.get("stop", ()))[0]})

    with serving(hides) as server, pytest.raises(EngineError, match="was asked for a stream and sent none"):
        server.run(ask())


def test_a_server_keeps_its_weights() -> None:
    engine = OpenAIEngine("http://localhost:9", "m", concurrency=7)
    with pytest.raises(EngineError, match="openai:http://localhost:9/v1#m: a server does not take new weights"):
        asyncio.run(engine.load(Path("new"), 1))
    assert engine.version == 0
    assert (engine.capacity().samples, engine.capacity().tokens) == (7, None)
