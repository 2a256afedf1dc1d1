"""How one server wants its requests, learnt from what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rstar.models.chat import CONTINUE, Message

_OPTIONAL = frozenset((*CONTINUE, "logprobs", "skip_special_tokens", "return_token_ids", "stream_options"))
_N = re.compile(r"[\"'`]n[\"'`]|\bn\s*(?:[>=!]=?|must|should|is not)|\b(?:parameter|argument|field)s?:? n\b")
"""A refusal that names the number of samples."""
_SYSTEM = re.compile(
    r"\bsystem\b.{0,20}\b(?:role|message|prompt|instruction)|\broles?\b.{0,80}\bsystem\b", re.IGNORECASE
)
"""A refusal that names the system message; some chat templates have none."""


@dataclass(slots=True)
class Dialect:
    """What a server accepts; optimistic until it refuses something by name.

    Attributes:
        limit_name: the field of the token limit.
        optional: fields that only some servers know, by the group of requests that they belong to.
        omitted: settings that the server refuses: ``seed``, ``n``, ``stop``, a ``top_p`` of 1, or ``temperature`` and
            ``top_p`` of models that sample in one way only.
        merges_system: the system message is sent as the beginning of the first user message.
    """

    limit_name: str = "max_tokens"
    optional: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            "completions": {"logprobs": 1, "skip_special_tokens": False},
            "chat": {"logprobs": True},
            "continue": dict(CONTINUE),
            "stream": {"stream_options": {"include_usage": True}},
        }
    )
    omitted: set[str] = field(default_factory=set)
    merges_system: bool = False

    def extras(self, groups: Iterable[str]) -> dict[str, Any]:
        """The optional fields of some groups."""
        return {name: value for group in groups for name, value in self.optional[group].items()}

    def messages(self, messages: list[Message]) -> list[Message]:
        """Messages in the roles that the server takes."""
        if not self.merges_system or len(messages) < 2 or messages[0]["role"] != "system":
            return messages
        system, first, *others = messages
        return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *others]

    def learn_basics(self, refusal: str, body: dict[str, Any]) -> bool:
        """`learn` what concerns every request: the newer name of the token limit, and a temperature that is fixed."""
        if "max_tokens" in body and "max_completion_tokens" in refusal:
            self.limit_name = "max_completion_tokens"
            return True
        if "temperature" in body and re.search(r"\btemperature\b", refusal):
            self.omitted |= {"temperature", "top_p"}
            return True
        return False

    def learn(self, refusal: str, body: dict[str, Any]) -> bool:
        """Take a refusal of `body` into account; return whether the request would now be another one.

        The body decides, not what is known by now: requests that were sent together are refused together.
        """
        if self.learn_basics(refusal, body):
            return True
        refused = [name for name in body if name in _OPTIONAL and name in refusal]
        for fields in self.optional.values():
            for name in refused:
                fields.pop(name, None)
        omitted: set[str] = {name for name in ("seed", "stop") if name in body and re.search(rf"\b{name}\b", refusal)}
        if body.get("n", 1) > 1 and _N.search(refusal):
            omitted.add("n")
        if body.get("top_p") == 1 and "top_p" in refusal:
            omitted.add("top_p")
        self.omitted |= omitted
        if refused or omitted:
            return True
        messages = body.get("messages") or [{}]
        merges = messages[0].get("role") == "system" and _SYSTEM.search(refusal) is not None
        self.merges_system = self.merges_system or merges
        return merges
