"""What ``rstar models check`` finds out about servers of several kinds."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rstar.config import EngineConfig
from rstar.errors import EngineError, ServerError
from rstar.models.check import Report, check
from rstar.models.engine import Context, Request
from rstar.models.openai import OpenAIEngine
from rstar.models.spec import server_client
from rstar.specs import Server, parse_model
from tests.models.chat_servers import chat_server, counter
from tests.models.completion_servers import Answer, ask, choices, cut, serving

STORY = "a farmer, who had seen better days, asked the price"
IGNORED = "stream = true is ignored"
SETTINGS = EngineConfig(retries=0, timeout=100)


def checked(answer: Callable[[dict[str, Any]], Answer], model: str = "m", **listed: Any) -> Report:
    with serving(answer, {"data": [{"id": "m", **listed}, {"id": "other"}]}) as server:
        spec = Server(server.url, model)
        report = asyncio.run(check(spec, server_client(spec, SETTINGS)))
        assert len(server.asked) < 20
    return report


def facts(report: Report) -> dict[str, bool]:
    return {fact.name: fact.works for fact in report.facts}


def detail(report: Report, name: str) -> str:
    return next(fact.detail for fact in report.facts if fact.name == name)


def streamed(text: str) -> Answer:
    return 200, {}, [{"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}]


def full(body: dict[str, Any]) -> Answer:
    """As vLLM: everything works."""
    if "messages" in body:
        return 404, {}, "no chat template"
    if body.get("stream"):
        return streamed(STORY)
    text, stop = cut(f"{STORY} {body.get('seed')}" if body["temperature"] else STORY, body.get("stop", ()))
    more = {"stop_reason": stop, "token_ids": [1, 2], "logprobs": {"tokens": ["a"], "token_logprobs": [-1.0]}}
    return choices(*[{"text": text, **more}] * body.get("n", 1))


def test_everything_works() -> None:
    report = checked(full, max_model_len=4096)
    assert facts(report) == {
        "context length": True,
        "completions": True,
        "chat": False,
        "temperature": True,
        "stop strings": True,
        "streams": True,
        "special tokens": True,
        "log-probabilities": True,
        "token ids": True,
        "several samples": True,
        "seed": True,
    }
    assert detail(report, "stop strings") == "removed from the text and named"
    assert all(works.startswith("yes") for works in report.methods.values())
    assert report.settings == ("engine.max_context=4096",)
    assert parse_model(report.name).api == "completions"  # type: ignore[union-attr]


@pytest.mark.parametrize("continues", ["never", "flag", "always"])
def test_chat_only(continues: str) -> None:
    def speak(messages: list[dict[str, str]], seed: int) -> str:
        return counter(messages, seed) if "Count" in messages[0]["content"] else STORY

    report = checked(chat_server(speak, continues))
    found = facts(report)
    assert (found["completions"], found["chat"]) == (False, True)
    assert found["continuation"] == (continues != "never")
    assert not found["stop strings"]
    assert detail(report, "stop strings").startswith("removed; the response does not say")
    assert detail(report, "seed") == "all seeds give the same text"
    assert report.methods["agent"].startswith("no")
    assert ("weak models" in report.methods["mutual"]) == (continues == "never")
    assert "search.shots=2" in report.methods["greedy, sample, best-of-n, beam, mcts"]
    spec = parse_model(report.name)
    assert isinstance(spec, Server)
    assert (spec.api, spec.continues) == ("chat", "no" if continues == "never" else "yes")


@pytest.mark.parametrize(
    ("shown", "works", "text"),
    [(STORY[:2], True, "included"), (STORY, False, "ignored"), ("b", False, "removed; the response does not say")],
)
def test_stop_strings(shown: str, works: bool, text: str) -> None:
    report = checked(lambda body: streamed(STORY) if body.get("stream") else choices({"text": shown}))
    assert facts(report)["stop strings"] == works
    assert text in detail(report, "stop strings")
    assert ("streams" in report.methods["greedy, sample, best-of-n, beam, mcts"]) != works


@pytest.mark.parametrize("refuses", [False, True])
def test_a_server_that_neither_streams_nor_names_stop_strings(refuses: bool) -> None:
    """No search works with it, which the report says and the engine confirms."""

    def answer(body: dict[str, Any]) -> Answer:
        if refuses and "stream" in body:
            return 400, {}, {"error": "stream is not supported"}
        return choices({"text": cut(STORY, body.get("stop", ()))[0]})

    report = checked(answer)
    assert not facts(report)["streams"]
    assert detail(report, "streams") == ('HTTP 400: {"error": "stream is not supported"}' if refuses else IGNORED)
    assert report.methods == {"every method": "no: the server neither streams nor says which stop string ended a text"}
    assert report.settings == ()
    with serving(answer) as server, pytest.raises(EngineError, match="stream"):
        server.run(ask(stop=(",",)), retries=0)


def test_going_on_in_a_new_message_needs_streams() -> None:
    """Search works, because stop strings are named; mutual reasoning does not."""

    def answer(body: dict[str, Any]) -> Answer:
        return chat_server(counter, names_stops=True)({**body, "stream": False})

    report = checked(answer)
    assert (facts(report)["streams"], facts(report)["continuation"]) == (False, False)
    assert report.methods["mutual"] == "no: the server neither streams nor continues the assistant's turn"
    assert report.methods["greedy, sample, best-of-n, beam, mcts"].startswith("yes")


def test_a_server_that_varies_ignores_the_seed() -> None:
    count = iter(range(1000))
    report = checked(lambda body: streamed("a") if body.get("stream") else choices({"text": f"{next(count)}"}))
    assert detail(report, "seed") == "equal seeds give different texts"
    assert report.methods["equal results for equal seeds"].startswith("no")


def test_refusals_are_facts() -> None:
    def answer(body: dict[str, Any]) -> Answer:
        for name in ("stop", "logprobs", "n", "seed", "return_token_ids"):
            if name in body:
                return 400, {}, {"error": f"{name} is not supported"}
        return streamed(STORY) if body.get("stream") else choices({"text": STORY})

    report = checked(answer)
    assert not any(facts(report)[name] for name in ("stop strings", "log-probabilities", "several samples", "seed"))
    assert "HTTP 400" in detail(report, "log-probabilities")
    assert "logprobs is not supported" in detail(report, "log-probabilities")


@pytest.mark.parametrize(
    ("refused", "name", "seen"),
    [
        ("stream_options", "streams", "texts are cut here"),
        ("system", "system message", "the beginning of the question"),
        ("max_tokens", "chat", "answers messages"),
        ("temperature", "temperature", "samples at its own temperature"),
    ],
)
def test_a_report_agrees_with_what_the_engine_does(refused: str, name: str, seen: str) -> None:
    """Each server refuses something that the engine can do without."""
    limit = "max_completion_tokens" if refused == "max_tokens" else "max_tokens"
    speaks = chat_server(lambda messages, seed: STORY, limit_name=limit)

    def answer(body: dict[str, Any]) -> Answer:
        if refused == "system" and body.get("messages", [{}])[0].get("role") == "system":
            return 400, {}, {"error": "System role not supported"}
        if refused in ("stream_options", "temperature") and refused in body:
            return 400, {}, {"error": f"Unsupported value: {refused}"}
        return speaks(body)

    report = checked(answer)
    assert seen in detail(report, name)
    assert report.methods["greedy, sample, best-of-n, beam, mcts"].startswith("yes")
    with serving(answer) as server:
        context = Context("Be brief.\n\n<|user|>:\nHow much?\n<|assistant|>:\n")
        ((completion,),) = server.run(Request(context, stop=(",",)))
    assert completion.text == "a farmer,"


@pytest.mark.parametrize(
    ("message", "works", "seen"),
    [
        ({"content": ""}, False, "the reply is empty"),
        ({"content": None, "reasoning_content": "I think"}, True, "the model thinks first"),
    ],
)
def test_replies_without_text(message: dict[str, Any], works: bool, seen: str) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        return choices({"message": message}) if "messages" in body else (404, {}, "none")

    report = checked(answer)
    assert facts(report)["chat"] == works
    assert seen in detail(report, "chat")


@pytest.mark.parametrize(
    ("events", "works", "seen"),
    [
        ([{"choices": [{"index": 0, "text": "a"}]}], False, "ends without a finish reason"),
        ([{"choices": [{"index": 0, "text": f"{n},"}]} for n in range(200)], True, "max_tokens is ignored"),
    ],
)
def test_streams_that_end_wrongly(events: list[Any], works: bool, seen: str) -> None:
    report = checked(lambda body: (200, {}, events) if body.get("stream") else choices({"text": STORY}))
    assert facts(report)["streams"] == works
    assert seen in detail(report, "streams")


def test_completions_that_are_answered_instead_of_continued() -> None:
    """The report says so, and the engine asks by chat."""
    speaks = chat_server(lambda messages, seed: STORY)

    def answer(body: dict[str, Any]) -> Answer:
        if "prompt" not in body:
            return speaks(body)
        text = {"index": 0, "text": "Sure!", "finish_reason": "stop"}
        return 200, {}, {"choices": [text], "usage": {"prompt_tokens": 11, "completion_tokens": 2}}

    report = checked(answer)
    assert "put into a chat template" in detail(report, "completions")
    spec = parse_model(report.name)
    assert isinstance(spec, Server)
    assert spec.api == "chat"

    async def api(url: str) -> str:
        async with OpenAIEngine(url, "m") as engine:
            return await engine.api()

    with serving(answer) as server:
        assert asyncio.run(api(server.url)) == "chat"


def test_neither_api_and_an_unknown_model() -> None:
    report = checked(lambda body: (404, {}, "nothing here"), model="missing")
    assert "does not list 'missing' but m, other" in detail(report, "context length")
    assert list(report.methods) == ["every method"]


def test_unreachable() -> None:
    spec = Server("http://127.0.0.1:9/v1", "m")
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:9"):
        asyncio.run(check(spec, server_client(spec, SETTINGS)))
