"""What servers refuse, and how requests are changed for them."""

from typing import Any

import pytest

from rstar.models.dialect import Dialect
from rstar.models.engine import Context, Request
from tests.models.chat_servers import chat_server
from tests.models.completion_servers import TEXT, Answer, ask, choices, serving

SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "How much?"}
BODY = {
    "max_tokens": 5,
    "temperature": 0,
    "seed": 3,
    "n": 2,
    "stop": ["a"],
    "top_p": 1.0,
    "logprobs": True,
    "messages": [SYSTEM, QUESTION],
}


@pytest.mark.parametrize(
    ("refusal", "omitted"),
    [
        ('{"error": "seed is not supported"}', {"seed"}),
        ("Unknown argument: 'stop'", {"stop"}),
        ("'n' must be 1 when using greedy sampling", {"n"}),
        ("n > 1 is not supported", {"n"}),
        ("Unsupported parameter: n", {"n"}),
        ("Unsupported value: 'top_p'", {"top_p"}),
        ("'temperature' does not support 0; only the default (1)", {"temperature", "top_p"}),
    ],
)
def test_refused_settings_are_omitted(refusal: str, omitted: set[str]) -> None:
    dialect = Dialect()
    assert dialect.learn(refusal, BODY)
    assert dialect.omitted == omitted
    assert dialect.learn(refusal, BODY), "a request that was sent at the same time"
    assert not dialect.learn(refusal, {"max_tokens": 5})


def test_refused_fields_are_omitted_from_all_groups() -> None:
    dialect = Dialect()
    assert dialect.learn("logprobs: extra fields not permitted", BODY)
    assert dialect.extras(("completions", "chat")) == {"skip_special_tokens": False}


def test_a_system_message_that_is_refused_begins_the_question() -> None:
    dialect = Dialect()
    assert dialect.messages([SYSTEM, QUESTION]) == [SYSTEM, QUESTION]
    assert dialect.learn("jinja2.exceptions.TemplateError: System role not supported", BODY)
    merged = [{"role": "user", "content": "Be brief.\n\nHow much?"}]
    assert dialect.messages([SYSTEM, QUESTION]) == merged
    assert dialect.messages([QUESTION]) == [QUESTION]
    assert not dialect.learn("System role not supported", {"messages": merged})


@pytest.mark.parametrize("refusal", ["", "the model is broken", "an error was found"])
def test_other_refusals_change_nothing(refusal: str) -> None:
    dialect = Dialect()
    assert not dialect.learn(refusal, BODY)
    assert dialect == Dialect()


@pytest.mark.parametrize("name", ["n", "seed", "stop", "top_p", "temperature"])
def test_samples_come_from_a_server_that_refuses_a_setting(name: str) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        if name in body:
            return 400, {}, {"error": f"Unsupported parameter: {name}"}
        return choices(*[{"text": TEXT, "stop_reason": None}] * body.get("n", 1))

    with serving(answer) as server:
        (found,) = server.run(ask(n=2))
    assert [(completion.text, completion.stop) for completion in found] == [("one.two<stop>", "<stop>")] * 2


def test_nothing_is_hidden_where_stop_strings_are_refused() -> None:
    """So no text is asked for again, as a stream."""

    def answer(body: dict[str, Any]) -> Answer:
        if "stop" in body or "stream" in body:
            return 400, {}, {"error": "Unsupported parameter: 'stop' and 'stream'"}
        return choices({"text": "one.two", "finish_reason": "stop"})

    with serving(answer) as server:
        ((found,),) = server.run(ask())
    assert (found.text, found.stop_reason) == ("one.two", "eos")


@pytest.mark.parametrize("status", [400, 403, 422])
def test_refusals_of_a_field_by_any_status(status: int) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        if "logprobs" in body:
            return status, {}, {"error": "You are not allowed to request logprobs from this model"}
        return choices({"text": TEXT, "stop_reason": None})

    with serving(answer) as server:
        ((found,),) = server.run(ask())
    assert found.text == "one.two<stop>"


def test_a_server_without_system_messages() -> None:
    speaks = chat_server(lambda messages, seed: f"{len(messages)}<stop>", names_stops=True)

    def answer(body: dict[str, Any]) -> Answer:
        if "messages" in body and body["messages"][0]["role"] == "system":
            return 400, {}, {"error": "Conversation roles must alternate; a system role is not supported"}
        return speaks(body)

    context = Context("Be brief.\n\n<|user|>:\nHow much?\n<|assistant|>:\n")
    with serving(answer) as server:
        ((completion,),) = server.run(Request(context, stop=("<stop>",)))
    assert completion.text == "1<stop>"
    assert server.asked[-1]["messages"] == [{"role": "user", "content": "Be brief.\n\nHow much?"}]
