"""Servers with a chat API only, in the manner of several products, around a function that plays the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.models.completion_servers import Answer, cut

Model = Callable[[list[dict[str, str]], int], str]
"""The rest of the conversation: from the messages and the seed, with the assistant's partial turn still there."""

KNOWN = {"model", "messages", "max_tokens", "temperature", "top_p", "seed", "n", "stop", "stream", "logprobs"}


def counter(messages: list[dict[str, str]], seed: int) -> str:
    """A model that counts on from the number with which the conversation ends."""
    return " 6, 7, 8" if messages[-1]["content"].endswith("5,") else "1, 2, 3, 4, 5, 6"


def chat_server(
    model: Model,
    continues: str = "never",
    strict: bool = False,
    names_stops: bool = False,
    limit_name: str = "max_tokens",
) -> Callable[[dict[str, Any]], Answer]:
    """An answer function for `tests.models.completion_servers.serving`.

    Args:
        model: what is said.
        continues: the assistant's turn: ``never``, ``flag`` (with continue_final_message), ``always``.
        strict: refuses unknown fields by name.
        names_stops: names the stop string that it removed, as vLLM does.
        limit_name: name of the token limit.
    """

    def answer(body: dict[str, Any]) -> Answer:
        if "prompt" in body:
            return 404, {}, {"detail": "Not Found"}
        if limit_name not in body:
            return 400, {}, {"error": f"Unsupported parameter: use {limit_name!r} instead"}
        if strict and (unknown := set(body) - KNOWN - {limit_name}):
            return 400, {}, {"error": f"unrecognized arguments: {', '.join(sorted(unknown))}"}
        messages = body["messages"]
        assert all(set(message) == {"role", "content"} for message in messages)
        goes_on = continues == "always" or (continues == "flag" and body.get("continue_final_message"))
        if messages[-1]["role"] == "assistant" and not goes_on:
            messages = [*messages, {"role": "user", "content": ""}]
        found = []
        for index in range(body.get("n", 1)):
            text = model(messages, body.get("seed", 0) + index)
            text, stop = cut(text, body.get("stop", ()))
            choice = {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            found.append(choice | ({"stop_reason": stop} if names_stops else {}))
        if body.get("stream"):
            text = found[0]["message"]["content"]
            pieces = [text[i : i + 5] for i in range(0, len(text), 5)]
            events = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
            return 200, {}, [*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        prompt_tokens = 5 + (messages is not body["messages"])
        return (
            200,
            {},
            {"choices": found, "usage": {"completion_tokens": 8 * len(found), "prompt_tokens": prompt_tokens}},
        )

    return answer
