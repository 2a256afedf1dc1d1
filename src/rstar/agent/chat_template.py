"""A model's own chat template, and the text that it puts between two turns of the assistant.

A conversation is rendered once, up to the first turn of the assistant. From then on text is only appended: what the
model wrote, and what the template puts behind it. Rendering the conversation again would change tokens that the model
has seen (many templates drop earlier reasoning), and a trainer would train on text that was never sampled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from rstar.errors import ConfigError
from rstar.models.spec import local_extra

_USER, _ASSISTANT = "rstar-user-turn", "rstar-assistant-turn"

OPEN_THOUGHT, CLOSE_THOUGHT = "<think>", "</think>"

_DATE = date(2025, 1, 1)
"""The date for templates that show it: a run whose prompts changed overnight could not be resumed or repeated."""


class ChatTemplate:
    """A Jinja chat template.

    Args:
        source: the template.
        tokens: special tokens that it uses, such as ``bos_token``, by name.
        where: names the model in errors.

    Raises:
        ConfigError: the template is not valid Jinja, or cannot render a conversation.
    """

    def __init__(self, source: str, tokens: Mapping[str, str], where: str = "chat template") -> None:
        with local_extra(where):
            from jinja2 import TemplateError
            from jinja2.ext import loopcontrols
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now}
        self._tokens, self._where, self._error = dict(tokens), where, TemplateError
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ConfigError(f"{where}: the chat template cannot be read: {error}") from error
        after = self._after_assistant([], prompt=False)
        self.turn_end = after.rstrip()
        """Text that ends a turn of the assistant; the model writes it as its end-of-sequence token."""
        self.opens_thought = self.message("").rstrip().endswith(OPEN_THOUGHT)
        """Whether a turn begins inside a thought, whose opening the model does not write itself."""

    @classmethod
    def of_folder(cls, folder: Path) -> ChatTemplate | None:
        """The template of a model folder; None if it has none. Raises `ConfigError` if it cannot be read."""
        file, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
        try:
            settings = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
            source = file.read_text(encoding="utf-8") if file.is_file() else settings.get("chat_template")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{folder}: the chat template cannot be read: {error}") from error
        if isinstance(source, list):  # several, by name
            named = {one.get("name"): one.get("template") for one in source}
            source = named.get("tool_use", named.get("default"))
        if not isinstance(source, str):
            return None
        tokens = {name: _content(value) for name, value in settings.items() if name.endswith("_token")}
        return cls(source, {name: text for name, text in tokens.items() if text}, str(folder))

    def prompt(self, question: str, system: str, tools: Sequence[Mapping[str, Any]]) -> str:
        """The conversation up to the assistant's first turn, without BOS, which the engine adds.

        Args:
            question: the user's message.
            system: the system message; empty for none.
            tools: JSON schema of each tool.
        """
        first = [{"role": "system", "content": system}] if system else []
        text = self._render([*first, {"role": "user", "content": question}], tools, prompt=True)
        return text.removeprefix(self._tokens.get("bos_token", ""))

    def responses(self, texts: Sequence[str]) -> str:
        """What follows a turn of the assistant: its end, the responses of the tools, and the opening of a turn."""
        return self._after_assistant([{"role": "tool", "name": "tool", "content": text} for text in texts])

    def message(self, text: str) -> str:
        """What follows a turn of the assistant: its end, a message of the user, and the opening of a turn."""
        return self._after_assistant([{"role": "user", "content": text}])

    def _after_assistant(self, messages: Sequence[Mapping[str, Any]], *, prompt: bool = True) -> str:
        start = [{"role": "user", "content": _USER}, {"role": "assistant", "content": _ASSISTANT}]
        text = self._render([*start, *messages], (), prompt=prompt)
        _, found, after = text.rpartition(_ASSISTANT)
        if not found:
            raise ConfigError(f"{self._where}: the chat template drops the assistant's text")
        return after

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], *, prompt: bool) -> str:
        try:
            return self._template.render(
                messages=list(messages), tools=list(tools) or None, add_generation_prompt=prompt, **self._tokens
            )
        except (self._error, TypeError, ValueError) as error:
            raise ConfigError(f"{self._where}: the chat template fails: {error}") from error


def _content(value: Any) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)  # Jinja's own escapes HTML


def _raise(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return _DATE.strftime(form)
