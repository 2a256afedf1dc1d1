"""`OpenAIEngine`: a model behind an OpenAI-compatible server, by its completions API or its chat-completions API.

Completions continue a text, which is what search does, so they are used where the server offers them (vLLM, SGLang,
llama.cpp, ``transformers serve``). Otherwise contexts are sent as messages (`rstar.models.chat`).
`rstar.models.server_api` asks the server.

Servers differ in how they report the end of a text; in order of preference:

1. The text contains the stop string (transformers serve): the text is cut after it.
2. The server names the stop string that it removed (vLLM ``stop_reason``, SGLang ``matched_stop``): it is appended. The
   server is not asked to include it: vLLM would then include the text of end-of-sequence, too.
3. Neither (llama.cpp): the request is repeated as a stream without stop strings, closed at the first complete stop
   string. All later requests to this server are streams.

Where a chat API does not continue the assistant's message, the model goes on in a new one. It is streamed, too, because
what it repeats (`rstar.models.repetition`) may contain stop strings.

What a server refuses by name is omitted from then on (`rstar.models.dialect`). If it returns fewer than n choices, each
sample becomes its own request, with a seed derived from (seed, index). A stream is closed when it has more tokens than
were asked for, because some servers ignore the limit.

Without a tokenizer, contexts are text and `ids` stay empty. With the model's tokenizer, contexts carry ids, prompts are
sent as ids, and the server must return ids (vLLM's ``return_token_ids``); only completions can do this.

Not done here: starting a server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rstar.errors import ContextFullError, EngineError, ServerError
from rstar.http_client import HttpRefusedError, InvalidAnswerError, ServerClient
from rstar.lifecycle import SharedContext
from rstar.models.chat import asking_to_go_on, begun, messages_of
from rstar.models.dialect import Dialect
from rstar.models.engine import Capacity, Completion, Context, Request, StopReason, Weights
from rstar.models.kv_capacity import ask_kv_tokens
from rstar.models.repetition import continuation
from rstar.models.responses import Sample, first_stop, n_bytes, samples_of
from rstar.models.server_api import PATHS, Api, ServerApi, lacks_page

if TYPE_CHECKING:
    from rstar.models.local.tokens import TokenText

T = TypeVar("T")
_FAILURES = ("abort", "error", "insufficient_system_resource")
"""Finish reasons that mean that the server failed."""
_LENGTHS = ("length", "max_tokens", "model_length", "MAX_TOKENS")
"""Finish reasons of a text that reached a limit."""
_CONTEXT_FULL = re.compile(
    r"context.{0,3}(?:length|size|window)|max_model_len|maximum.{0,20}(?:length|token)|max_new_tokens"
    r"|(?:prompt|input) (?:is too long|length)|too many (?:input )?tokens|max_tokens.{0,20}too large",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content.{0,3}(?:filter|management|policy)|safety (?:system|filter)", re.IGNORECASE)
"""A refusal of what one question says."""
_MIN_TOKENS = 16
_HIDDEN_STOP = (
    "the server neither streams completions nor names the stop string that ended a completion (stop_reason or "
    "matched_stop); enable streaming, or use vLLM or SGLang"
)
_NO_STREAM = "the server neither streams completions nor continues a message that the assistant has begun"


class _FilteredError(EngineError):
    """The server's filter of contents refuses a context."""


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
        api: Literal["auto", "completions", "chat"] = "auto",
        continues: bool | None = None,
        max_context: int = 2048,
        concurrency: int = 64,
        timeout: float = 120.0,
        retries: int = 5,
        pause: float = 0.5,
        asks_capacity: bool = False,
    ) -> None:
        """Configure the client; no request is sent before ``async with``.

        Args:
            url: base URL, such as ``http://127.0.0.1:8000/v1``; ``/v1`` is added if it has no path.
            model: the server's name for the model.
            name: name of the model in run folders; default ``openai:URL#MODEL``.
            key: API key, sent as a bearer token; kept in memory only.
            tokenizer: the model's tokenizer, if ids are needed.
            api: which API to use; auto: completions, unless the server only has chat completions.
            continues: whether the chat API continues the assistant's turn; None: it is tested when first needed.
            max_context: prompt plus completion; lowered to the limit that the server reports.
            concurrency: maximum number of concurrent requests.
            timeout: seconds per request.
            retries: attempts after the first.
            pause: seconds before the first retry, doubled each time.
            asks_capacity: ask the server for the size of its KV cache, which `Replicas` use.
        """
        super().__init__()
        url = base_url(url)
        self.name = name or f"openai:{url}#{model}"
        self.max_context, self.version = max_context, 0
        self._model, self._tokenizer = model, tokenizer
        self._client = ServerClient(
            url, key=key, concurrency=concurrency, timeout=timeout, retries=retries, pause=pause
        )
        self._dialect = Dialect()
        if tokenizer is not None:
            self._dialect.optional["completions"]["return_token_ids"] = True
        known = None if api == "auto" else api
        self._server = ServerApi(self._client, self.name, model, self._dialect, known, continues, tokenizer is not None)
        self._concurrency, self._asks_capacity = concurrency, asks_capacity
        self._kv_tokens: int | None = None
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
        try:
            if request.temperature == 0:  # all samples are equal, and some servers reject n > 1
                return list(await self._samples(request, 1)) * request.n
            return await self._samples(request, request.n)
        except _FilteredError:  # as if the model had said nothing; other questions may pass
            return [Completion("", (), (), "eos")] * request.n

    async def api(self) -> Api:
        """The API in use; the server is asked once. Raises `EngineError` if it cannot be reached."""
        return await self._server.api()

    async def load(self, weights: Weights, version: int) -> None:
        """Raise `EngineError`: a server cannot load new weights."""
        raise EngineError(f"{self.name}: a server cannot load new weights; restart it with the new model folder")

    def capacity(self) -> Capacity:
        """The maximum number of concurrent requests; the KV cache, if the server tells."""
        return Capacity(self._concurrency, self._kv_tokens, self._client.overloads)

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
        self._server.model_names = [str(model.get("id")) for model in entries]
        for model in entries:
            if model.get("id") == self._model:
                longest = model.get("max_model_len")
                self.max_context = min(self.max_context, longest if isinstance(longest, int) else self.max_context)
        if self._asks_capacity:
            self._kv_tokens = await ask_kv_tokens(self._client.url)

    async def _close(self) -> None:
        await self._client.close()

    async def _samples(self, request: Request, n: int) -> Sequence[Completion]:
        started = await self._started(request)
        if n > 1 and "n" not in self._dialect.omitted and not self._streams and not started:
            samples = await self._post(request, n, _sample_seed(request.seed, request.first))
            if len(samples) == n:
                completions = [c for sample in samples if (c := self._read(request, sample)) is not None]
                if len(completions) == n:
                    return completions
                self._streams = True
            else:
                self._dialect.omitted.add("n")
        return await asyncio.gather(*(self._sample(request, index, started) for index in range(n)))

    async def _started(self, request: Request) -> str:
        """The message that the model must go on with in a new message; empty if the server continues the text."""
        started = begun(messages_of(request.context.text))
        if not started or self._tokenizer is not None or await self.api() == "completions":
            return ""
        return "" if await self._server.can_continue() else started

    async def _sample(self, request: Request, index: int, started: str) -> Completion:
        seed = _sample_seed(request.seed, request.first + index)
        if not self._streams and not started:
            completion = self._read(request, (await self._post(request, 1, seed))[0])
            if completion is not None:
                return completion
            self._streams = True
        completion = self._read(request, await self._stream(request, seed, started))
        assert completion is not None  # `_stream` leaves nothing hidden
        return completion

    async def _post(self, request: Request, n: int, seed: int) -> list[Sample]:
        send = partial(self._client.request, "POST", read=partial(samples_of, self.name))
        return await self._send_adapted(send, request, n, seed, request.stop)

    async def _stream(self, request: Request, seed: int, started: str) -> Sample:
        """A sample, streamed and cut here: the server could cut what the model repeats of its message (`started`)."""

        def stops(text: str) -> bool:
            if started and first_stop(text, request.stop) is not None:
                text = continuation(started, text, ended=False) or ""
            return first_stop(text, request.stop) is not None

        async def read(limit: int, events: AsyncIterator[Any]) -> Sample:
            sample, streamed, done = Sample(), False, False
            async for event in events:
                streamed = True
                sample.add_event(event)
                if done := stops(sample.text) or sample.reported_tokens > limit:
                    break
            if not streamed:
                raise InvalidAnswerError(f"{self.name}: {_NO_STREAM if started else _HIDDEN_STOP}")
            if sample.reason is None and not done:
                raise InvalidAnswerError(f"{self.name}: a stream ended without a finish reason")
            if sample.reason is None and not stops(sample.text):
                sample.reason = "length"
            sample.names_stops = True  # sent without stop strings, so the server has removed none
            if started:
                sample.text = continuation(started, sample.text) or ""
            return sample

        def send(path: str, body: dict[str, Any]) -> Awaitable[Sample]:
            limit = body[self._dialect.limit_name]
            return self._client.stream(path, body | {"stream": True}, partial(read, limit))

        return await self._send_adapted(send, request, 1, seed, (), ("stream",))

    async def _send_adapted(
        self,
        send: Callable[[str, dict[str, Any]], Awaitable[T]],
        request: Request,
        n: int,
        seed: int,
        stop: tuple[str, ...],
        groups: tuple[str, ...] = (),
    ) -> T:
        """Send the request's body by `send` to the path of the API in use, adapting it to the server.

        Retries without what the server refuses by name, and with fewer tokens if prompt plus completion are too long:
        without a tokenizer only the server knows the length of the prompt.
        """
        limit = min(request.max_tokens, self.max_context - len(request.context.ids))
        while True:
            api = self._server.known or "completions"
            body = self._settings(request, n, seed, stop) | {self._dialect.limit_name: limit}
            body |= await self._content(request.context, api, groups)
            try:
                return await send(PATHS[api], body)
            except HttpRefusedError as error:
                if error.status in (400, 403, 451) and _FILTERED.search(error.body):
                    raise _FilteredError(str(error)) from error
                if lacks_page(error):
                    if api == "completions" and await self._server.falls_back(error):
                        continue
                    raise EngineError(self._server.not_found_message(error)) from error
                if error.status not in (400, 403, 413, 422):
                    raise EngineError(self._refusal_message(error)) from error
                if _CONTEXT_FULL.search(error.body):
                    if limit <= _MIN_TOKENS:
                        raise ContextFullError(str(error)) from error
                    limit //= 2
                elif not self._dialect.learn(error.body, body):
                    raise EngineError(self._refusal_message(error)) from error
            except ServerError as error:
                raise EngineError(str(error)) from error

    async def _content(self, context: Context, api: Api, groups: tuple[str, ...]) -> dict[str, Any]:
        """The context as the API wants it, with the optional fields of it and of `groups`."""
        if api == "completions":
            prompt = list(context.ids) if self._tokenizer else context.text
            return {"prompt": prompt} | self._dialect.extras(("completions", *groups))
        messages, kinds = messages_of(context.text), ("chat", *groups)
        if begun(messages):
            if await self._server.can_continue():
                kinds = ("chat", "continue", *groups)
            else:
                messages = asking_to_go_on(messages)
        return {"messages": self._dialect.messages(messages)} | self._dialect.extras(kinds)

    def _refusal_message(self, error: HttpRefusedError) -> str:
        """Error message for a refused request; says so if the server may not take token ids."""
        hint = "\nThe prompt was sent as token ids (?tokenizer=), which this server may not accept"
        return f"{error}{hint if self._tokenizer is not None and 'prompt' in error.body else ''}"

    def _settings(self, request: Request, n: int, seed: int, stop: tuple[str, ...]) -> dict[str, Any]:
        settings: dict[str, Any] = {"model": self._model, "temperature": request.temperature, "top_p": request.top_p}
        settings["seed"] = seed % 2**31
        if n > 1:
            settings["n"] = n
        if stop:
            settings["stop"] = list(stop)
        return {name: value for name, value in settings.items() if name not in self._dialect.omitted}

    def _read(self, request: Request, sample: Sample) -> Completion | None:
        """Convert a server's sample; None if the server hides which stop string, if any, ended the text."""
        text, named = sample.text, sample.named_stop
        if not text.strip() and sample.thinking:  # no stop string ends what is only thought
            text = f"<think>{sample.thinking}"
            return self._build(sample, text, "length" if sample.reason in _LENGTHS else "eos", None)
        if (ending := first_stop(text, request.stop)) is not None:
            end, stop = ending
            self._includes_stops = self._includes_stops or not sample.names_stops
            return self._build(sample, text[:end], "stop", stop)
        if sample.reason in _LENGTHS:
            return self._build(sample, text, "length", None)
        if sample.reason in _FAILURES:
            raise EngineError(f"{self.name}: the server stopped a completion with finish reason {sample.reason!r}")
        if sample.reason not in (None, "stop"):  # eos_token, content_filter …: the model's text has ended
            return self._build(sample, text, "eos", None)
        if isinstance(named, str) and named in request.stop:
            return self._build(sample, text + named, "stop", named)
        hidden = not sample.names_stops and not self._includes_stops and "stop" not in self._dialect.omitted
        if request.stop and hidden:
            return None
        return self._build(sample, text, "eos", None)

    def _build(self, sample: Sample, text: str, reason: StopReason, stop: str | None) -> Completion:
        ids, logprobs = sample.ids, sample.logprobs
        if self._tokenizer is None:
            # Servers also list tokens outside the text: end-of-sequence, or tokens past a stop string.
            covered, length = 0, len(text.encode())
            for count, token in enumerate(sample.tokens):
                if covered >= length:
                    logprobs = logprobs[:count]
                    break
                covered += n_bytes(token)
            return Completion(text, (), tuple(logprobs), reason, stop, sample.reported_tokens, sample.prompt_tokens)
        if sample.text and not ids:
            raise EngineError(f"{self.name}: the server does not return token ids; use it without a tokenizer")
        end = None
        if reason == "eos" and ids and ids[-1] in self._tokenizer.eos_ids:
            end = (ids[-1], logprobs[len(ids) - 1]) if len(logprobs) >= len(ids) else None
            ids = ids[:-1]
        return Completion(text, tuple(ids), tuple(logprobs[: len(ids)]), reason, stop, end=end)


def base_url(url: str) -> str:
    """The base URL of a server; ``/v1`` is added to a URL without a path."""
    return url if "/" in url.split("://")[-1].rstrip("/") else url.rstrip("/") + "/v1"


def _sample_seed(seed: int, index: int) -> int:
    """Seed of a sample sent as its own request; sample 0 uses the request's seed."""
    if index == 0:
        return seed
    return int.from_bytes(blake2b(b"%d/%d" % (seed, index), digest_size=4).digest(), "little")
