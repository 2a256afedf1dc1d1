"""Output that cannot control the terminal.

Questions, answers, model-written code, its output and the names in run files may hold escape sequences, carriage
returns and bidirectional marks. All text for people goes through a `Screen`, which replaces each such character by
U+FFFD. JSON for machines loses nothing: it has ``\\u`` escapes instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except line feed and tab, line separators, bidirectional marks, surrogates."""


def visible(text: str) -> str:
    r"""The text with U+FFFD for every character that could control a terminal.

    >>> visible("\x1b[2Jgone\r\n")
    '�[2Jgone�\n'
    """
    return _COMMANDS.sub("\ufffd", text)


def visible_json(value: Any) -> str:
    r"""One line of JSON with all characters that could control a terminal escaped.

    >>> visible_json({"é": "\x9b2J\u202e"})
    '{"é": "\\u009b2J\\u202e"}'
    """
    text = json.dumps(value, ensure_ascii=False)
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Screen(Console):
    """A console that prints no control sequences but its own styles."""

    def render_str(self, text: str, **options: Any) -> Text:
        """See `Console.render_str`."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See `Console.render`."""
        if isinstance(renderable, Text):
            shown = renderable.copy()
            shown.plain = visible(renderable.plain)
            return super().render(shown, options)
        return super().render(renderable, options)
