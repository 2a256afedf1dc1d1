"""Which API a model's server offers, and whether it continues the assistant's turn: asked when first needed, once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from typing import Literal

from rstar.errors import EngineError, ServerError
from rstar.http_client import HttpRefusedError, ServerClient
from rstar.models.chat import Message, counting_turns, find_continuation
from rstar.models.dialect import Dialect
from rstar.models.responses import SHORT, Sample, samples_of, wraps_text

Api = Literal["completions", "chat"]
PATHS: Mapping[Api, str] = {"completions": "/completions", "chat": "/chat/completions"}
_MISSING = (404, 405, 501)
"""Statuses of a server that lacks an API, or the model."""
_NO_API = re.compile(r"\bcompletions?\b(?! tokens).{0,60}\b(?:only|not)\b", re.IGNORECASE)
"""A refusal (400) of the completions API as such."""


def lacks_page(error: HttpRefusedError) -> bool:
    """Whether a server refuses an API as such, or the model, rather than a request."""
    return error.status in _MISSING or (error.status == 400 and _NO_API.search(error.body) is not None)


class ServerApi:
    """What is known of a server.

    Attributes:
        known: the API in use; None: not known yet.
        model_names: the models that the server lists.
    """

    def __init__(
        self,
        client: ServerClient,
        name: str,
        model: str,
        dialect: Dialect,
        api: Api | None,
        continues: bool | None,
        ids: bool,
    ) -> None:
        """Configure the client; no request is sent.

        Args:
            client: of the server.
            name: of the engine, for messages.
            model: the server's name for the model.
            dialect: how the server wants its requests; learns whether and how it continues turns.
            api: the API to use, if it is given.
            continues: whether the chat API continues the assistant's turn, if it is given.
            ids: contexts are token ids, which only completions can take.
        """
        self.known, self.model_names = api, list[str]()
        self._client, self._name, self._model, self._dialect = client, name, model, dialect
        self._is_given, self._continues, self._ids = api is not None, continues, ids
        self._asking, self._testing = asyncio.Lock(), asyncio.Lock()

    async def api(self) -> Api:
        """The API in use. Raises `EngineError` if the server cannot be reached.

        Completions that put texts into a chat template do not continue them; such a server is asked by chat.
        """
        if self.known is None:
            body = {"model": self._model, "prompt": SHORT, "max_tokens": 1, "temperature": 0}
            try:
                answer = await self._client.request("POST", PATHS["completions"], body)
                self.known = "chat" if wraps_text(answer) and await self._has_chat() else "completions"
            except HttpRefusedError as error:
                if not lacks_page(error) or not await self.falls_back(error):
                    return "completions"  # the first request says why not
            except ServerError as error:
                raise EngineError(str(error)) from error
        return self.known or "completions"

    async def falls_back(self, error: HttpRefusedError) -> bool:
        """Whether a server that refuses completions has chat completions, which are then used from now on."""
        async with self._asking:
            if self.known is None and not self._lacks_model(error):
                self.known = "chat" if await self._has_chat() else "completions"
            return self.known == "chat"

    async def _has_chat(self) -> bool:
        """Whether the server has chat completions, and contexts are text. Raises `EngineError`."""
        if self._ids:
            return False
        turns = counting_turns()[:1]
        body = {"model": self._model, "messages": turns, "temperature": 0, self._dialect.limit_name: 1}
        try:
            await self._client.request("POST", PATHS["chat"], body)
        except HttpRefusedError as refused:
            return not lacks_page(refused)
        except ServerError as failed:
            raise EngineError(str(failed)) from failed
        return True

    async def can_continue(self) -> bool:
        """Whether the chat API continues the assistant's turn; tested once. Raises `EngineError`."""
        async with self._testing:
            if self._continues is None:
                fields = await find_continuation(self._counted)
                self._continues = fields is not None
                self._dialect.optional["continue"] = dict(fields or {})
            return self._continues

    async def _counted(self, messages: list[Message], fields: Mapping[str, bool]) -> Sample | None:
        """The sample for messages with some fields; None if the server refuses them."""
        settings = {"temperature": 0} if "temperature" not in self._dialect.omitted else {}
        body = {"model": self._model, "messages": messages, self._dialect.limit_name: 8, **settings, **fields}
        try:
            read = partial(samples_of, self._name)
            samples: list[Sample] = await self._client.request("POST", PATHS["chat"], body, read=read)
        except HttpRefusedError as error:
            return await self._counted(messages, fields) if self._dialect.learn_basics(error.body, body) else None
        except ServerError as error:
            raise EngineError(str(error)) from error
        return samples[0]

    def _lacks_model(self, error: HttpRefusedError) -> bool:
        return re.search(rf"(?<!\w){re.escape(self._model)}(?!\w)", error.body) is not None

    def not_found_message(self, error: HttpRefusedError) -> str:
        """Error message for a server that lacks the model or the API."""
        if self._lacks_model(error):
            known = f"; it offers {', '.join(self.model_names)}" if self.model_names else ""
            return f"{error}\nThe server does not have the model {self._model!r}{known}"
        if self._ids:
            return f"{error}\nToken ids (?tokenizer=) need the completions API, which this server does not have"
        if self._is_given:
            name = "chat completions" if self.known == "chat" else "completions"
            return f"{error}\nThe server has no {name} API at this URL; remove ?api={self.known}"
        return f"{error}\nThe server has neither completions nor chat completions at this URL"
