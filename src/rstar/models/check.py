"""What a server can do, found out by asking it: ``rstar models check``.

Each fact comes from one or two short requests; nothing is assumed from the server's name. The model's skill does not
matter, except that a server which continues turns without being told to is recognised only if the model can count.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from rstar.http_client import HttpRefusedError, ServerClient
from rstar.models.chat import Message, find_continuation
from rstar.models.dialect import Dialect
from rstar.models.responses import SHORT, Sample, count_tokens, wraps_text
from rstar.specs import Server

_PROMPT = "One day in spring, a farmer and her son went to the market, and"
_MAX_TOKENS = 24
_STOPS = [",", "e", "a", " "]
"""Strings that nearly every text contains."""
_TOKEN = 12
"""Characters of a long token; a server that stops after a stop string may finish the token that completed it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a server can do or cannot do.

    Attributes:
        name: of the ability.
        works: whether the server has it.
        detail: what was seen, and what it means for rstar.
    """

    name: str
    works: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """All facts, what works with them, and the name and the settings to use."""

    facts: tuple[Fact, ...]
    methods: dict[str, str]
    name: str
    settings: tuple[str, ...]


async def check(server: Server, client: ServerClient) -> Report:
    """Ask a server what it can do; opens and closes `client`. Raises `ServerError` if it cannot be reached."""
    await client.open()
    try:
        return await _check(server, client)
    finally:
        await client.close()


async def _check(server: Server, client: ServerClient) -> Report:
    context = await _context_length(server, client)
    probes = {api: _Probe(server, client, api, Dialect()) for api in ("completions", "chat")}
    has = {api: await probe.api_fact() for api, probe in probes.items()}
    api: str = server.api
    if api == "auto":
        api = "completions" if has["completions"].works else "chat"
    if not has[api].works:
        reason = {"every method": "no: the server lacks the API, or this model"}
        return Report((context, *has.values()), reason, str(server), ())
    facts = [context, *has.values(), *await probes[api].facts()]
    abilities = {fact.name: fact.works for fact in facts}
    methods = _methods(api, abilities)
    usable = len(methods) > 1
    name = _name(server, api, abilities) if usable else str(server)
    return Report(tuple(facts), methods, name, _settings(context) if usable else ())


def _methods(api: str, abilities: dict[str, bool]) -> dict[str, str]:
    """What works, by method or value."""
    if not abilities["stop strings"] and not abilities["streams"]:
        return {"every method": "no: the server neither streams nor says which stop string ended a text"}
    search = "yes, in the format for instruct models (search.shots=2 shows it examples)" if api == "chat" else "yes"
    if api == "completions" and abilities["chat"]:
        search += "; for an instruct model, append ?api=chat to its name"
    if not abilities["stop strings"]:
        search += ", with streams: slower"
    mutual = "yes"
    if api == "chat" and not abilities["continuation"] and not abilities["streams"]:
        mutual = "no: the server neither streams nor continues the assistant's turn"
    elif api == "chat" and not abilities["continuation"]:
        mutual = "yes, but the model is asked to continue its own text, which weak models do badly"
    return {
        "greedy, sample, best-of-n, beam, mcts": search,
        "mutual": mutual,
        "agent": "yes, with ?tokenizer=FOLDER" if abilities["token ids"] else "no: it needs token ids and completions",
        "value logprob, PPMs that read log-probabilities": "yes"
        if abilities["log-probabilities"]
        else "no: the server reports none",
        "equal results for equal seeds": "yes" if abilities["seed"] else "no: the server ignores the seed",
    }


def _name(server: Server, api: str, abilities: dict[str, bool]) -> str:
    """The model's name with all that was found out, so that nothing need be asked again."""
    continues = "auto" if api == "completions" else "yes" if abilities["continuation"] else "no"
    return str(Server(server.url, server.model, server.tokenizer, api, continues))  # type: ignore[arg-type]


def _settings(context: Fact) -> tuple[str, ...]:
    return (f"engine.max_context={context.detail.split()[0].replace(',', '')}",) if context.works else ()


async def _context_length(server: Server, client: ServerClient) -> Fact:
    name = "context length"
    listed = await client.get("/models")
    models = listed.get("data") if isinstance(listed, dict) else None
    entries = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    own = next((model for model in entries if model.get("id") == server.model), None)
    if own is None:
        known = ", ".join(str(model.get("id")) for model in entries[:8]) or "no models"
        return Fact(name, False, f"unknown; the server does not list {server.model!r} but {known}")
    for key in ("max_model_len", "context_length", "context_window", "max_context_length"):
        if isinstance(own.get(key), int):
            return Fact(name, True, f"{own[key]:,} tokens")
    return Fact(name, False, "not reported; set engine.max_context to that of the model")


@dataclass(frozen=True, slots=True)
class _Probe:
    """Asks one API of one server."""

    server: Server
    client: ServerClient
    api: str
    dialect: Dialect

    async def facts(self) -> list[Fact]:
        """All facts about the API."""
        parts = [
            self.temperature_fact(),
            self.stop_fact(),
            self.stream_fact(),
            self.markers_fact(),
            self.logprob_fact(),
            self.ids_fact(),
            self.several_fact(),
            self.seed_fact(),
        ]
        if self.api == "chat":
            parts += [self.system_fact(), self.continuation_fact()]
        return list(await asyncio.gather(*parts))

    def to_send(self, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Path and body of a request."""
        content: dict[str, Any] = {"prompt": _PROMPT}
        if self.api == "chat":
            content = {"messages": [{"role": "user", "content": f"Continue the story: {_PROMPT}"}]}
        path = "/completions" if self.api == "completions" else "/chat/completions"
        limit = {self.dialect.limit_name: fields.pop("max_tokens", _MAX_TOKENS)}
        body = {"model": self.server.model, **limit, "temperature": 0, **content, **fields}
        return path, {name: value for name, value in body.items() if name not in self.dialect.omitted}

    async def ask(self, **fields: Any) -> tuple[list[dict[str, Any]], str]:
        """The raw choices, and why there are none. Raises `ServerError` for anything but a refusal."""
        choices, why, _ = await self.ask_with_usage(**fields)
        return choices, why

    async def ask_with_usage(self, **fields: Any) -> tuple[list[dict[str, Any]], str, Any]:
        """`ask`, and the server's count of tokens."""
        path, body = self.to_send(dict(fields))
        try:
            answer = await self.client.request("POST", path, body)
        except HttpRefusedError as error:
            if self.dialect.learn_basics(error.body, body):
                return await self.ask_with_usage(**fields)
            return [], f"HTTP {error.status}: {error.body.strip()[:120]}", None
        choices = answer.get("choices") if isinstance(answer, dict) else None
        found = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
        usage = answer.get("usage") if isinstance(answer, dict) else None
        return found, "" if found else f"no choices: {str(answer)[:120]}", usage

    async def api_fact(self) -> Fact:
        """Whether the server has the API, and the model says something."""
        choices, why = await self.ask()
        if not choices:
            return Fact(self.api, False, why)
        sample = _sample(choices[0])
        if self.api == "completions" and await self.wraps():
            return Fact(self.api, False, "texts are put into a chat template, so they are answered, not continued")
        if sample.text.strip():
            what = "continues texts; any format works" if self.api == "completions" else "answers messages"
            return Fact(self.api, True, what)
        if sample.thinking or sample.reason == "length":  # or thinks without showing it
            return Fact(self.api, True, "the model thinks first: allow it enough tokens (search.max_step_tokens)")
        return Fact(self.api, False, f"the reply is empty: {str(choices[0])[:120]}")

    async def wraps(self) -> bool:
        """Whether texts are put into a chat template."""
        _, _, usage = await self.ask_with_usage(prompt=SHORT, max_tokens=1)
        return wraps_text({"usage": usage})

    async def temperature_fact(self) -> Fact:
        """Whether the temperature can be set; known from the first request."""
        if "temperature" in self.dialect.omitted:
            return Fact("temperature", False, "refused: the model samples at its own temperature, greedy decoding, too")
        return Fact("temperature", True, "can be set")

    async def stop_fact(self) -> Fact:
        """Whether stop strings work, and how the server reports them."""
        name = "stop strings"
        choices, why = await self.ask(stop=_STOPS)
        if not choices:
            return Fact(name, False, f"refused ({why})")
        sample = _sample(choices[0])
        first = min((at for stop in _STOPS if (at := sample.text.find(stop)) >= 0), default=-1)
        if first >= 0 and len(sample.text) - first <= _TOKEN:
            return Fact(name, True, "included in the text")
        if sample.names_stops:
            return Fact(name, True, "removed from the text and named")
        if first >= 0:
            return Fact(name, False, "ignored")
        return Fact(name, False, "removed; the response does not say which one ended the text")

    async def stream_fact(self) -> Fact:
        """Whether texts are streamed, so that they can be cut here."""

        async def read(events: AsyncIterator[Any]) -> Fact:
            sample, streamed = Sample(), False
            async for event in events:
                streamed = True
                sample.add_event(event)
                if sample.reported_tokens > 2 * _MAX_TOKENS:
                    return Fact(name, True, "texts are cut here where needed, because max_tokens is ignored")
            if not streamed:
                return Fact(name, False, "stream = true is ignored")
            if sample.reason is None:
                return Fact(name, False, "a stream ends without a finish reason")
            return Fact(name, True, "texts are cut here where needed")

        name, (path, body) = "streams", self.to_send({"stream": True})
        try:
            return await self.client.stream(path, body, read)
        except HttpRefusedError as error:
            return Fact(name, False, f"HTTP {error.status}: {error.body.strip()[:120]}")

    async def system_fact(self) -> Fact:
        """Whether a conversation can begin with a system message."""
        system = {"role": "system", "content": "Be brief."}
        choices, why = await self.ask(messages=[system, {"role": "user", "content": f"Continue: {_PROMPT}"}])
        if choices:
            return Fact("system message", True, "accepted")
        return Fact("system message", False, f"{why}; it becomes the beginning of the question")

    async def markers_fact(self) -> Fact:
        """Whether the server can be told to keep special tokens in texts."""
        choices, why = await self.ask(skip_special_tokens=False)
        refused = f"removed from texts ({why}); see `rstar models export`"
        detail = "the server accepts that rstar asks for them (skip_special_tokens)" if choices else refused
        return Fact("special tokens", bool(choices), detail)

    async def logprob_fact(self) -> Fact:
        """Whether log-probabilities are reported."""
        choices, why = await self.ask(logprobs=1 if self.api == "completions" else True)
        works = bool(choices) and bool(_sample(choices[0]).logprobs)
        return Fact("log-probabilities", works, "one per token" if works else why or "not in the answer")

    async def ids_fact(self) -> Fact:
        """Whether token ids are returned."""
        if self.api == "chat":
            return Fact("token ids", False, "only with completions")
        choices, why = await self.ask(return_token_ids=True)
        works = bool(choices) and bool(_sample(choices[0]).ids)
        return Fact("token ids", works, "returned (return_token_ids)" if works else why or "not in the answer")

    async def several_fact(self) -> Fact:
        """Whether one request can ask for several samples."""
        choices, why = await self.ask(n=3, temperature=1.0, max_tokens=4)
        works = len(choices) == 3
        detail = "n = 3 gives 3" if works else f"n = 3 gives {len(choices)}; each sample is a request of its own"
        return Fact("several samples", works, detail if choices else why)

    async def seed_fact(self) -> Fact:
        """Whether equal seeds give equal texts, although different seeds do not."""
        texts = []
        for seed in (11, 11, 12, 13):
            choices, why = await self.ask(seed=seed, temperature=1.0)
            if not choices:
                return Fact("seed", False, why)
            texts.append(_sample(choices[0]).text)
        if texts[0] != texts[1]:
            return Fact("seed", False, "equal seeds give different texts")
        if len(set(texts)) == 1:
            return Fact("seed", False, "all seeds give the same text")
        return Fact("seed", True, "equal seeds give equal texts")

    async def continuation_fact(self) -> Fact:
        """Whether the assistant's turn is continued."""

        async def ask(messages: list[Message], fields: Mapping[str, bool]) -> Sample | None:
            choices, _, usage = await self.ask_with_usage(messages=messages, **fields)
            if not choices:
                return None
            sample = _sample(choices[0])
            count_tokens([sample], usage)
            return sample

        fields = await find_continuation(ask)
        if fields is None:
            return Fact("continuation", False, "not seen; the model is asked to go on in a new turn")
        how = "with continue_final_message" if fields else "of itself"
        return Fact("continuation", True, f"continues the assistant's turn {how}")


def _sample(choice: dict[str, Any]) -> Sample:
    sample = Sample()
    sample.add(choice)
    return sample
