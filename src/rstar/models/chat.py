"""Contexts as the messages of a chat-completions API.

A context is text in which role marks begin the turns (`rstar.prompts.code_steps`). What comes before the first mark is
the system message. A text that ends within an assistant turn wants that turn continued. Some servers can do this
(vLLM, SGLang: ``continue_final_message``; llama.cpp: always). The others are asked for it by a further user message.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from rstar.models.responses import Sample
from rstar.prompts.code_steps import ASSISTANT, USER

Message = dict[str, str]

_MARK = re.compile(rf"^(?:{re.escape(USER)}|{re.escape(ASSISTANT)})[ \n]?", re.MULTILINE)
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
"""Fields of a request whose last message, the assistant's, is to be continued."""

_GO_ON = "Continue your last message exactly where it stops. Write only what comes next, and repeat nothing."


def messages_of(text: str) -> list[Message]:
    """The turns of a context. The last one is the assistant's if the text ends within its turn.

    >>> messages_of("<|user|>:\\nHow much?\\n<|assistant|>:\\nIt is")
    [{'role': 'user', 'content': 'How much?'}, {'role': 'assistant', 'content': 'It is'}]
    """
    marks = list(_MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)] * bool(marks)
    head = text[: marks[0].start()] if marks else text
    messages = [{"role": "system" if marks else "user", "content": head.strip()}] if head.strip() else []
    for mark, end in zip(marks, ends, strict=True):
        role = "user" if mark[0].startswith(USER) else "assistant"
        content = text[mark.end() : end]
        messages.append({"role": role, "content": content if end == len(text) else content.strip()})
    if messages and messages[-1]["role"] == "assistant" and not messages[-1]["content"].strip():
        messages.pop()
    return messages


def begun(messages: list[Message]) -> str:
    """What the assistant has written of its turn already; empty if the model starts a new turn."""
    return messages[-1]["content"] if messages and messages[-1]["role"] == "assistant" else ""


def asking_to_go_on(messages: list[Message]) -> list[Message]:
    """The messages for a server that cannot continue the assistant's turn."""
    return [*messages, {"role": "user", "content": _GO_ON}] if begun(messages) else messages


COUNTING = ("Count from 1 to 20. Write only the numbers, separated by commas.", "1, 2, 3, 4, 5,")
"""A question, and a beginning of its answer whose continuation is known."""


_NEW_TURN = 3
"""Chat templates end a turn and begin the next one with at least this many tokens."""

Ask = Callable[[list[Message], Mapping[str, bool]], Awaitable[Sample | None]]


def counting_turns() -> list[Message]:
    """`COUNTING` as messages."""
    return [{"role": "user", "content": COUNTING[0]}, {"role": "assistant", "content": COUNTING[1]}]


async def find_continuation(ask: Ask) -> dict[str, bool] | None:
    """The fields with which a server continues the assistant's turn; None if it does not.

    A server that knows the fields of `CONTINUE` adds nothing after the begun turn, so its prompt is shorter with them
    than without. Elsewhere the model is asked to count on. A good model also does so in a new turn, which the server
    has then added to the prompt: it is longer than a prompt with the same words in one turn.

    Args:
        ask: the sample for messages with the given fields; None if the server refuses them.
    """
    turns = counting_turns()
    samples = [(fields, await ask(turns, fields)) for fields in (CONTINUE, {})]
    lengths = [0 if sample is None else sample.prompt_tokens for _, sample in samples]
    if 0 < lengths[0] < lengths[1]:
        return dict(CONTINUE)
    counted = [(fields, one) for fields, one in samples if one is not None and re.match(r"\s*6\b", one.text)]
    if not counted:
        return None
    (fields, sample), one_turn = counted[0], await ask([{"role": "user", "content": " ".join(COUNTING)}], {})
    if one_turn is not None and 0 < one_turn.prompt_tokens <= sample.prompt_tokens - _NEW_TURN:
        return None
    return dict(fields)
