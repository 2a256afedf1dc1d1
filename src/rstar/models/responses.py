"""What an OpenAI-compatible server returns: samples, whole or as a stream, of either API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rstar.errors import EngineError
from rstar.http_client import InvalidAnswerError


@dataclass(slots=True)
class Sample:
    """One sample as returned by the server, or as streamed so far.

    `thinking` is what the server reports of it apart from `text`. `named_stop` is the stop string that ended it, if the
    server names them (`names_stops`).
    """

    text: str = ""
    thinking: str = ""
    reason: str | None = None
    named_stop: object = None
    names_stops: bool = False
    ids: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reported_tokens: int = 0
    prompt_tokens: int = 0

    def add(self, choice: dict[str, Any]) -> None:
        """Append a choice, whole or one chunk of a stream. Raises `EngineError` if it is malformed."""
        try:
            self.text += _sound(_content(choice))
            self.thinking += _sound(_thinking(choice))
            self.reason = choice.get("finish_reason") or self.reason
            for key in ("stop_reason", "matched_stop"):
                if key in choice:
                    self.names_stops, self.named_stop = True, choice[key]
            self.ids += choice.get("token_ids") or ()
            logprobs = choice.get("logprobs") or {}
            listed = logprobs.get("content") or ()  # the chat-completions format, which some servers use here
            self.tokens += logprobs.get("tokens") or [token["token"] for token in listed]
            values = logprobs.get("token_logprobs") or [token["logprob"] for token in listed]
            self.logprobs += [float(value or 0.0) for value in values]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EngineError(f"malformed completion choice ({error!r}): {str(choice)[:200]}") from error

    def add_event(self, event: Any) -> None:
        """Append an event of a stream: usually one token. Raises `EngineError` if it is malformed."""
        if not isinstance(event, dict):
            return
        for choice in event.get("choices") or ():
            before = len(self.text), len(self.thinking)
            self.add(choice)
            self.reported_tokens += (len(self.text), len(self.thinking)) != before
        count_tokens([self], event.get("usage"))


def samples_of(name: str, answer: Any) -> list[Sample]:
    """The choices of a response, in order.

    Raises:
        InvalidAnswerError: there are none.
        EngineError: they are malformed. Both messages begin with the engine's `name`.
    """
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise InvalidAnswerError(f"{name}: response without choices: {str(answer)[:200]}")
    numbers = [choice.get("index", position) for position, choice in enumerate(choices)]
    if sorted(map(str, numbers)) != sorted(map(str, range(len(choices)))):
        raise EngineError(f"{name}: {len(choices)} choices with indices {numbers}")
    samples = [Sample() for _ in choices]
    for number, choice in zip(numbers, choices, strict=True):
        samples[int(number)].add(choice)
    count_tokens(samples, answer.get("usage"))
    return samples


SHORT = "1"
"""A text of one token; of two or three with those of the beginning."""
_WRAPPED = 4
"""A prompt of `SHORT` with more tokens holds those of a chat template."""


def wraps_text(answer: Any) -> bool:
    """Whether a server counts so many tokens in the prompt `SHORT` that it has put it into a chat template."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return isinstance(tokens, int) and tokens > _WRAPPED


def n_bytes(token: str) -> int:
    r"""Number of UTF-8 bytes of a listed token; partial characters are listed as ``bytes:\xe2\x82``."""
    return token.count("\\x") if token.startswith("bytes:\\x") else len(token.encode(errors="replace"))


def count_tokens(samples: list[Sample], usage: object) -> None:
    """Divide the server's count of generated tokens among its choices, by text length."""
    if not isinstance(usage, dict):
        return
    tokens, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
    length = sum(len(sample.text) for sample in samples)
    for sample in samples:
        if isinstance(tokens, int):
            sample.reported_tokens = round(tokens * len(sample.text) / length) if length else tokens // len(samples)
        if isinstance(prompt, int):
            sample.prompt_tokens = prompt


def first_stop(text: str, stops: tuple[str, ...]) -> tuple[int, str] | None:
    """End position of the first stop string completed in `text`, and that string."""
    return min(((at + len(stop), stop) for stop in stops if (at := text.find(stop)) >= 0), default=None)


def _sound(text: Any) -> str:
    """A text without lone surrogates; empty for None."""
    return (text or "").encode(errors="replace").decode()


def _thinking(choice: dict[str, Any]) -> Any:
    """What a server reports apart from the text: the thinking of a message, or of a chunk of it."""
    part = choice.get("message") or choice.get("delta") or {}
    found = part.get("reasoning_content") or part.get("reasoning")
    return found if isinstance(found, str) else None


def _content(choice: dict[str, Any]) -> Any:
    """The text of a choice: a completion's, a message's, or a chunk's of a stream of either."""
    part = choice.get("message") or choice.get("delta")
    content = choice.get("text") if part is None else part.get("content")
    if isinstance(content, list):  # parts; those that are not text have no "text"
        return "".join(piece.get("text") or "" for piece in content)
    return content
