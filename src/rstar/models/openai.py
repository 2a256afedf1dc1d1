"""`OpenAIEngine`: a model behind an OpenAI-compatible ``/v1/completions`` endpoint.

vLLM, SGLang, llama.cpp and ``transformers serve`` have one. Servers differ in how they report the end of a text; in
order of preference:

1. The text contains the stop string (transformers serve): the text is cut after it.
2. The server names the stop string that it removed (vLLM ``stop_reason``, SGLang ``matched_stop``): it is appended. The
   server is not asked to include it: vLLM would then include the text of end-of-sequence, too.
3. Neither (llama.cpp): the request is repeated as a stream without stop strings, closed at the first complete stop
   string. All later requests to this server are streams.

Optional fields that a server rejects by name are omitted from then on. If a server returns fewer than n choices, each
sample becomes its own request, with a seed derived from (seed, index).

Without a tokenizer, contexts are text and `ids` stay empty. With the model's tokenizer, contexts carry ids, prompts are
sent as ids, and the server must return ids (vLLM's ``return_token_ids``).

Not done here: chat templates (completions continue a text, chat endpoints do not), starting a server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from rstar.errors import ContextFullError, EngineError, ServerError
from rstar.http_client import HttpRefusedError, ServerClient
from rstar.lifecycle import SharedContext
from rstar.models.engine import Capacity, Completion, Context, Request, StopReason, Weights

if TYPE_CHECKING:
    from rstar.models.local.tokens import TokenText

T = TypeVar("T")
_PATH = "/completions"
_FAILURES = ("abort", "error")
"""Finish reasons that mean that the server failed."""
_CONTEXT_FULL = re.compile(r"context.{0,3}(?:length|size|window)|max_model_len|maximum.{0,20}length", re.IGNORECASE)
_MIN_TOKENS = 16


@dataclass(slots=True)
class _Sample:
    """One sample as returned by the server, or as streamed so far."""

    text: str = ""
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
            self.text += (choice.get("text") or "").encode(errors="replace").decode()  # no lone surrogates
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


class OpenAIEngine(SharedContext):
    """An `Engine` over HTTP; the module docstring states its requirements on the server."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        name: str | None = None,
        key: str | None = None,
        tokenizer: TokenText | None = None,
        max_context: int = 2048,
        concurrency: int = 64,
        timeout: float = 120.0,
        retries: int = 5,
        pause: float = 0.5,
    ) -> None:
        """Configure the client; no request is sent before ``async with``.

        Args:
            url: base URL, such as ``http://127.0.0.1:8000/v1``; ``/v1`` is added if it has no path.
            model: the server's name for the model.
            name: name of the model in run folders; default ``openai:URL#MODEL``.
            key: API key, sent as a bearer token; kept in memory only.
            tokenizer: the model's tokenizer, if ids are needed.
            max_context: prompt plus completion; lowered to the limit that the server reports.
            concurrency: maximum number of concurrent requests.
            timeout: seconds per request.
            retries: attempts after the first.
            pause: seconds before the first retry, doubled each time.
        """
        super().__init__()
        if "/" not in url.split("://")[-1].rstrip("/"):
            url = url.rstrip("/") + "/v1"
        self.name = name or f"openai:{url}#{model}"
        self.max_context, self.version = max_context, 0
        self._model, self._tokenizer = model, tokenizer
        self._client = ServerClient(
            url, key=key, concurrency=concurrency, timeout=timeout, retries=retries, pause=pause
        )
        self._optional_fields: dict[str, Any] = {"logprobs": 1, "skip_special_tokens": False}
        if tokenizer is not None:
            self._optional_fields["return_token_ids"] = True
        self._concurrency = concurrency
        self._model_names: list[str] = []
        self._ignores_n = False
        self._includes_stops = False
        self._streams = False

    def context(self, text: str) -> Context:
        """Start a context with `text`; it has ids if there is a tokenizer."""
        return Context(text, self._tokenizer.prompt(text) if self._tokenizer else ())

    def append(self, context: Context, text: str) -> Context:
        """Append text that the model did not write."""
        return Context(context.text + text, context.ids + (self._tokenizer.encode(text) if self._tokenizer else ()))

    async def complete(self, request: Request) -> Sequence[Completion]:
        """Generate `request.n` completions, in order.

        Raises:
            ContextFullError: the context is full, by its known number of ids or by the server's answer.
            EngineError: the server rejects the request, fails, or lacks a required feature.
        """
        length = len(request.context.ids)
        if length >= self.max_context:
            raise ContextFullError(f"{self.name}: {length} tokens of context fill max_context {self.max_context}")
        if request.temperature == 0:  # all samples are equal, and some servers reject n > 1
            return list(await self._samples(request, 1)) * request.n
        return await self._samples(request, request.n)

    async def load(self, weights: Weights, version: int) -> None:
        """Raise `EngineError`: a server cannot load new weights."""
        raise EngineError(f"{self.name}: a server cannot load new weights; restart it with the new model folder")

    def capacity(self) -> Capacity:
        """The maximum number of concurrent requests."""
        return Capacity(self._concurrency, None)

    async def _open(self) -> None:
        await self._client.open()
        try:
            listed = await self._client.get("/models")
        except BaseException as error:
            await self._client.close()
            if isinstance(error, ServerError):
                raise EngineError(str(error)) from error
            raise
        models = listed.get("data") if isinstance(listed, dict) else None
        entries = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
        self._model_names = [str(model.get("id")) for model in entries]
        for model in entries:
            if model.get("id") == self._model:
                longest = model.get("max_model_len")
                self.max_context = min(self.max_context, longest if isinstance(longest, int) else self.max_context)

    async def _close(self) -> None:
        await self._client.close()

    async def _samples(self, request: Request, n: int) -> Sequence[Completion]:
        if n > 1 and not self._ignores_n and not self._streams:
            samples = await self._post(request, n, _sample_seed(request.seed, request.first))
            if len(samples) == n:
                completions = [c for sample in samples if (c := self._read(request, sample)) is not None]
                if len(completions) == n:
                    return completions
                self._streams = True
            else:
                self._ignores_n = True
        return await asyncio.gather(*(self._sample(request, index) for index in range(n)))

    async def _sample(self, request: Request, index: int) -> Completion:
        seed = _sample_seed(request.seed, request.first + index)
        if not self._streams:
            completion = self._read(request, (await self._post(request, 1, seed))[0])
            if completion is not None:
                return completion
            self._streams = True
        completion = self._read(request, await self._stream(request, seed))
        assert completion is not None  # `_stream` leaves nothing hidden
        return completion

    async def _post(self, request: Request, n: int, seed: int) -> list[_Sample]:
        answer = await self._send_adapted(partial(self._client.request, "POST", _PATH), request, n, seed, request.stop)
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
            raise EngineError(f"{self.name}: response without choices: {str(answer)[:200]}")
        numbers = [choice.get("index", position) for position, choice in enumerate(choices)]
        if sorted(map(str, numbers)) != sorted(map(str, range(len(choices)))):
            raise EngineError(f"{self.name}: {len(choices)} choices with indices {numbers}")
        samples = [_Sample() for _ in choices]
        for number, choice in zip(numbers, choices, strict=True):
            samples[int(number)].add(choice)
        _count(samples, answer.get("usage"))
        return samples

    async def _stream(self, request: Request, seed: int) -> _Sample:
        async def read(events: AsyncIterator[Any]) -> _Sample:
            sample, streamed = _Sample(), False
            async for event in events:
                streamed = True
                for choice in (event.get("choices") or ()) if isinstance(event, dict) else ():
                    sample.add(choice)
                    sample.reported_tokens += bool(choice.get("text"))  # one token per event
                if _first_stop(sample.text, request.stop) is not None:
                    break
            if not streamed:
                raise EngineError(
                    f"{self.name}: the server neither streams completions nor names the stop string that ended a "
                    "completion (stop_reason or matched_stop); enable streaming, or use vLLM or SGLang"
                )
            if sample.reason is None and _first_stop(sample.text, request.stop) is None:
                raise EngineError(f"{self.name}: a stream ended without a finish reason")
            sample.names_stops = True  # sent without stop strings, so the server has removed none
            return sample

        def send(body: dict[str, Any]) -> Awaitable[_Sample]:
            return self._client.stream(_PATH, body | {"stream": True}, read)

        return await self._send_adapted(send, request, 1, seed, ())

    async def _send_adapted(
        self, send: Callable[[dict[str, Any]], Awaitable[T]], request: Request, n: int, seed: int, stop: tuple[str, ...]
    ) -> T:
        """Send the request's body by `send`, adapting it to the server.

        Retries without optional fields that the server rejects, and with fewer tokens if prompt plus completion are too
        long: without a tokenizer only the server knows the length of the prompt.
        """
        body = self._body(request, n, seed, stop)
        while True:
            extras = dict(self._optional_fields)
            try:
                return await send(body | extras)
            except HttpRefusedError as error:
                if error.status in (404, 405, 501):
                    raise EngineError(self._not_found_message(error)) from error
                if error.status not in (400, 413, 422):
                    raise EngineError(str(error)) from error
                if _CONTEXT_FULL.search(error.body):
                    if body["max_tokens"] <= _MIN_TOKENS:
                        raise ContextFullError(str(error)) from error
                    body["max_tokens"] //= 2
                elif refused := [name for name in extras if name in error.body]:
                    for name in refused:
                        self._optional_fields.pop(name, None)
                else:
                    raise EngineError(str(error)) from error
            except ServerError as error:
                raise EngineError(str(error)) from error

    def _not_found_message(self, error: HttpRefusedError) -> str:
        """Error message for a server that lacks the model or the completions API."""
        if re.search(rf"(?<!\w){re.escape(self._model)}(?!\w)", error.body):
            known = f"; it offers {', '.join(self._model_names)}" if self._model_names else ""
            return f"{error}\nThe server does not have the model {self._model!r}{known}"
        return (
            f"{error}\nThe server has no completions API at this URL. Search continues texts, which chat completions "
            "cannot do. Check the URL, or serve the model with vLLM, SGLang or llama.cpp, which have /v1/completions"
        )

    def _body(self, request: Request, n: int, seed: int, stop: tuple[str, ...]) -> dict[str, Any]:
        ids = request.context.ids
        return {
            "model": self._model,
            "prompt": list(ids) if self._tokenizer else request.context.text,
            "max_tokens": min(request.max_tokens, self.max_context - len(ids)),
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": seed % 2**31,
            **({"n": n} if n > 1 else {}),
            **({"stop": list(stop)} if stop else {}),
        }

    def _read(self, request: Request, sample: _Sample) -> Completion | None:
        """Convert a server's sample; None if the server hides which stop string, if any, ended the text."""
        text, named = sample.text, sample.named_stop
        if (ending := _first_stop(text, request.stop)) is not None:
            end, stop = ending
            self._includes_stops = self._includes_stops or not sample.names_stops
            return self._build(sample, text[:end], "stop", stop)
        if sample.reason == "length":
            return self._build(sample, text, "length", None)
        if sample.reason in _FAILURES:
            raise EngineError(f"{self.name}: the server stopped a completion with finish reason {sample.reason!r}")
        if sample.reason not in (None, "stop"):  # eos_token, content_filter …: the model's text has ended
            return self._build(sample, text, "eos", None)
        if isinstance(named, str) and named in request.stop:
            return self._build(sample, text + named, "stop", named)
        if request.stop and not sample.names_stops and not self._includes_stops:
            return None
        return self._build(sample, text, "eos", None)

    def _build(self, sample: _Sample, text: str, reason: StopReason, stop: str | None) -> Completion:
        ids, logprobs = sample.ids, sample.logprobs
        if self._tokenizer is None:
            # Servers also list tokens outside the text: end-of-sequence, or tokens past a stop string.
            covered, length = 0, len(text.encode())
            for count, token in enumerate(sample.tokens):
                if covered >= length:
                    logprobs = logprobs[:count]
                    break
                covered += _bytes(token)
            return Completion(text, (), tuple(logprobs), reason, stop, sample.reported_tokens, sample.prompt_tokens)
        if sample.text and not ids:
            raise EngineError(f"{self.name}: the server does not return token ids; use it without a tokenizer")
        end = None
        if reason == "eos" and ids and ids[-1] in self._tokenizer.eos_ids:
            end = (ids[-1], logprobs[len(ids) - 1]) if len(logprobs) >= len(ids) else None
            ids = ids[:-1]
        return Completion(text, tuple(ids), tuple(logprobs[: len(ids)]), reason, stop, end=end)


def _bytes(token: str) -> int:
    r"""Number of UTF-8 bytes of a listed token; partial characters are listed as ``bytes:\xe2\x82``."""
    return token.count("\\x") if token.startswith("bytes:\\x") else len(token.encode(errors="replace"))


def _count(samples: list[_Sample], usage: object) -> None:
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


def _first_stop(text: str, stops: tuple[str, ...]) -> tuple[int, str] | None:
    """End position of the first stop string completed in `text`, and that string."""
    return min(((at + len(stop), stop) for stop in stops if (at := text.find(stop)) >= 0), default=None)


def _sample_seed(seed: int, index: int) -> int:
    """Seed of a sample sent as its own request; sample 0 uses the request's seed."""
    if index == 0:
        return seed
    return int.from_bytes(blake2b(b"%d/%d" % (seed, index), digest_size=4).digest(), "little")
