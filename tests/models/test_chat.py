"""Models behind a chat API: messages, the choice of the API, continuation."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import EngineError
from rstar.models.chat import asking_to_go_on, begun, messages_of
from rstar.models.engine import Context, Request
from rstar.models.openai import OpenAIEngine
from rstar.prompts.domains import open_domain
from rstar.prompts.fenced import EXAMPLES, prompt
from tests.models.chat_servers import chat_server, counter
from tests.models.completion_servers import Server, serving, vllm

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=30).map(str.strip)


@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS.filter(bool)), max_size=4), TEXTS, TEXTS.filter(bool), TEXTS)
def test_messages_of_any_conversation(turns: list[tuple[str, str]], system: str, last: str, start: str) -> None:
    text = f"{system}\n\n" if system else ""
    text += "".join(f"<|user|>:\n{asked}\n<|assistant|>:\n{said}\n\n" for asked, said in turns)
    text += f"<|user|>:\n{last}\n<|assistant|>:\n{start}"
    found = messages_of(text)
    wanted = [("system", system)] if system else []
    for asked, said in turns:
        wanted += [("user", asked), ("assistant", said)]
    wanted += [("user", last)] + ([("assistant", start)] if start else [])
    assert [(message["role"], message["content"]) for message in found] == wanted
    assert begun(found) == start


def test_examples_become_turns() -> None:
    roles = [message["role"] for message in messages_of(prompt("How much?", 1))]
    turns = len(EXAMPLES[0][1])
    assert roles == ["system", "user", *["assistant", "user"] * turns, "assistant", "user"]
    shown = messages_of(open_domain("word-problems").prompt("step", "How much?", 2) + "Step 1:")
    assert [message["role"] for message in shown] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert begun(shown) == "Step 1:"


def test_a_text_without_marks_is_a_question() -> None:
    assert messages_of("How much?") == [{"role": "user", "content": "How much?"}]


def conversation(start: str = "") -> Request:
    text = f"Be brief.\n\n<|user|>:\nHow much?\n<|assistant|>:\n{start}"
    return Request(Context(text), n=2, stop=("<stop>",), seed=3)


def speak(messages: list[dict[str, str]], seed: int) -> str:
    if "Count from" in messages[0]["content"]:
        return counter(messages, seed)
    return f"{len(messages)} {messages[-1]['role']} {seed}<stop>more"


def chat_bodies(server: Server) -> list[dict[str, Any]]:
    """The requests of the conversation, without tests of the server."""
    return [body for body in server.asked if "messages" in body and "Count from" not in str(body["messages"])]


def test_a_server_without_completions_is_asked_by_chat() -> None:
    with serving(chat_server(speak, names_stops=True)) as server:
        (first, second), _ = server.run(conversation(), conversation())
    assert (first.text, second.text) == ("2 user 3<stop>", "2 user 4<stop>")
    assert (first.stop_reason, first.stop) == ("stop", "<stop>")
    assert first.n_tokens == 8
    assert first.prompt_tokens == 5
    assert sum("prompt" in body for body in server.asked) == 2, "both requests tried completions at first"
    assert chat_bodies(server)[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How much?"},
    ]


def test_api_is_asked_once() -> None:
    async def run(url: str, **settings: Any) -> list[str]:
        async with OpenAIEngine(url, "m", pause=0.001, **settings) as engine:
            return [await engine.api(), await engine.api()]

    with serving(chat_server(speak)) as server:
        assert asyncio.run(run(server.url)) == ["chat", "chat"]
        assert len(server.asked) == 2
        assert asyncio.run(run(server.url, api="completions")) == ["completions", "completions"]
        assert len(server.asked) == 2, "what was said is not asked"
    with serving(vllm) as server:
        assert asyncio.run(run(server.url)) == ["completions", "completions"]
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("continues", "strict", "expected"),
    [
        ("flag", False, True),
        ("always", False, True),
        ("always", True, True),
        ("never", False, False),
        ("never", True, False),
    ],
)
def test_continuation(continues: str, strict: bool, expected: bool) -> None:
    """The assistant's turn is continued where the server can do it; elsewhere the model is asked to go on."""
    with serving(chat_server(speak, continues, strict, names_stops=True)) as server:
        ((first, _),) = server.run(conversation("It is"))
        body = chat_bodies(server)[0]
    assert first.text == ("3 assistant 3<stop>" if expected else " 4 user 3<stop>")
    assert body["messages"][2] == {"role": "assistant", "content": "It is"}
    assert body.get("continue_final_message", False) == (expected and not strict), "not where it is refused or useless"
    assert len(body["messages"]) == (3 if expected else 4)
    if not expected:
        assert body["messages"] == asking_to_go_on(body["messages"][:3])


def test_a_server_is_known_by_the_length_of_its_prompt() -> None:
    """Whatever the model writes: with continue_final_message, the server adds no opening of a new turn."""

    def mumble(messages: list[dict[str, str]], seed: int) -> str:
        return "the the<stop>"

    with serving(chat_server(mumble, "flag", names_stops=True)) as server:
        server.run(conversation("It is"), api="chat")
        assert chat_bodies(server)[0]["continue_final_message"]
    with serving(chat_server(mumble, "never", names_stops=True)) as server:
        server.run(conversation("It is"), api="chat")
        assert len(chat_bodies(server)[0]["messages"]) == 4


@pytest.mark.parametrize(("opening", "continued"), [(0, True), (1, True), (3, False), (5, False)])
def test_a_model_that_counts_on_in_a_new_turn(opening: int, continued: bool) -> None:
    """Tokens that the server adds after the begun turn give a new turn away."""

    def answer(body: dict[str, Any]) -> Any:
        if "prompt" in body:
            return 404, {}, {}
        if "continue_final_message" in body:
            return 400, {}, {"error": "unrecognized argument: continue_final_message"}
        messages = body["messages"]
        words = sum(len(message["content"].split()) for message in messages)
        tokens = 4 + words + opening * (messages[-1]["role"] == "assistant")
        found = {"message": {"content": "6, 7, 8<stop>"}, "finish_reason": "stop", "stop_reason": "<stop>"}
        return 200, {}, {"choices": [found], "usage": {"prompt_tokens": tokens}}

    async def run(url: str) -> bool:
        async with OpenAIEngine(url, "m", pause=0.001, api="chat") as engine:
            return await engine._server.can_continue()

    with serving(answer) as server:
        assert asyncio.run(run(server.url)) == continued


def test_completions_that_are_refused_as_such() -> None:
    """By another status than that of a missing page."""

    def answer(body: dict[str, Any]) -> Any:
        if "prompt" in body:
            return 400, {}, {"error": "completions api is only available when using beta api"}
        return chat_server(speak, names_stops=True)(body)

    with serving(answer) as server:
        ((first, _),) = server.run(conversation())
    assert first.text == "2 user 3<stop>"


def test_what_is_said_about_continuation_is_not_tested() -> None:
    with serving(chat_server(speak, "flag", names_stops=True)) as server:
        server.run(conversation("It is"), api="chat", continues=True)
        assert len(server.asked) == len(chat_bodies(server)) == 1
        server.run(conversation("It is"), api="chat", continues=False)
        assert len(chat_bodies(server)[1]["messages"]) == 4


def test_unnamed_stop_strings_are_found_in_a_stream() -> None:
    with serving(chat_server(speak)) as server:
        ((first, second),) = server.run(conversation(), api="chat")
    assert [first.text, second.text[:7]] == ["2 user 3<stop>", "2 user "]
    assert first.stop == second.stop == "<stop>"
    assert chat_bodies(server)[-1]["stream"]
    assert "stop" not in chat_bodies(server)[-1]


def test_a_renamed_token_limit() -> None:
    with serving(chat_server(speak, limit_name="max_completion_tokens", names_stops=True)) as server:
        server.run(conversation(), api="chat")
        assert server.asked[-1]["max_completion_tokens"] == 256
        assert "max_tokens" not in server.asked[-1]


def test_rejected_fields_are_omitted() -> None:
    def answer(body: dict[str, Any]) -> Any:
        if "logprobs" in body:
            return 400, {}, {"error": "logprobs is not supported with this model"}
        return chat_server(speak, names_stops=True)(body)

    with serving(answer) as server:
        ((first, _),) = server.run(conversation(), api="chat")
    assert first.logprobs == ()


def test_log_probabilities() -> None:
    def answer(body: dict[str, Any]) -> Any:
        content = [{"token": "so", "logprob": -0.5}, {"token": " 7", "logprob": -0.25}]
        message = {"role": "assistant", "content": "so 7"}
        choice = {"index": 0, "message": message, "logprobs": {"content": content}, "stop_reason": None}
        return 200, {}, {"choices": [{**choice, "finish_reason": "stop"}]}

    with serving(answer) as server:
        ((found,),) = server.run(Request(Context("How much?")), api="chat")
    assert found.logprobs == (-0.5, -0.25)


def test_token_ids_need_completions() -> None:
    class Bytes:
        eos_ids = frozenset({0})

        def prompt(self, text: str) -> tuple[int, ...]:
            return tuple(text.encode())

        encode = prompt

    with serving(chat_server(speak)) as server, pytest.raises(EngineError, match=r"need the completions API"):
        server.run(Request(Context("a", (97,))), tokenizer=Bytes())


def going_on(reply: str) -> Callable[[list[dict[str, str]], int], str]:
    """A model that says `reply` when it is asked to go on; ``{begun}`` is what it was to continue."""

    def answer(messages: list[dict[str, str]], seed: int) -> str:
        if "Count from" in messages[0]["content"]:
            return counter(messages, seed)
        return reply.replace("{begun}", messages[-2]["content"])

    return answer


@pytest.mark.parametrize("names_stops", [True, False])
@pytest.mark.parametrize("api", ["auto", "chat"])
@pytest.mark.parametrize(
    "reply",
    [
        "{begun} seven.\nStep 3: And so on.",
        "\n\nseven.\nStep 3: And so on.",
        "Sure, here is the continuation:\n\nStep 2: seven.\nStep 3: And so on.",
        "**Step 2:** seven.\n**Step 3:** And so on.",
        "- Step 2: seven.\n- Step 3: And so on.",
        "seven.\nStep 3: And so on.",
    ],
)
def test_repetitions_are_removed_before_the_text_is_cut(reply: str, api: str, names_stops: bool) -> None:
    """The stop string, a line break, also stands within what the model repeats."""
    request = replace(conversation("Step 1: Six.\nStep 2:"), stop=("\n",))
    with serving(chat_server(going_on(reply), names_stops=names_stops)) as server:
        ((first, second),) = server.run(request, api=api)
        bodies = chat_bodies(server)
    assert first.text == second.text == " seven.\n"
    assert (first.stop_reason, first.stop) == ("stop", "\n")
    assert all(body["stream"] and "stop" not in body for body in bodies)
    assert len(bodies) == 2


def test_a_message_that_only_repeats() -> None:
    with serving(chat_server(going_on("{begun}"))) as server:
        ((first, _),) = server.run(conversation("Step 1: Six.\nStep 2:"), api="chat", continues=False)
    assert (first.text, first.stop_reason) == ("", "eos")


def test_going_on_in_a_new_message_needs_streams() -> None:
    def whole(body: dict[str, Any]) -> Any:
        return chat_server(going_on("seven"), names_stops=True)({**body, "stream": False})

    with serving(whole) as server, pytest.raises(EngineError, match="neither streams completions nor continues"):
        server.run(conversation("It is"), api="chat")
