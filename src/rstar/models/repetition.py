"""A new message of a chat model as the continuation of one that it left unfinished.

Models that are asked to go on often begin again: they repeat their last line, all lines, or the label of a step in bold
type or as an item of a list, think, and say what they are about to do. Only what comes after that continues the text.
Nothing is removed from the rest of the message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rstar.prompts.code_steps import MARKERS

_THINKING = "<think>", "</think>"
_BULLET = re.compile(r"^(?:[-•>]|#{1,6}|\*(?!\*))[ \t]+")
_DECORATION = "-•>#*_ "
_EMPHASIS = re.compile(r"(\*\*|__)(.+?)\1")
_LANGUAGE = re.compile(r"(?<=^```)\w+(?=\s*$)")
_LABEL = re.compile(r"^[A-Z][a-z]+(?: \d+)?: *")
_COURTESY = re.compile(
    r"(?:sure|certainly|of course|absolutely|okay|ok|alright|great|got it|understood|here(?:'s| is| are)|continuing"
    r"|i(?:'ll| will) (?:continue|go on)|i apologi[sz]e|let's (?:continue|go on)|the continuation)\b"
    r"(?:.*:|[^\d]*[.!])\s*$",
    re.IGNORECASE,
)
_ELLIPSIS = re.compile(r"^(?:\.\.\.|…)[ \t]*")
_BLANK_LINES = re.compile(r"^(?:[ \t]*\n)+")
_ONE_SPACE = re.compile(r"^ (?! )")

_Line = tuple[str, int, bool]
"""A line without decoration, the position of its end in the text, and whether a line break follows."""


def continuation(begun: str, text: str, *, ended: bool = True) -> str | None:
    r"""What `text`, a new message, adds to `begun`; None if that cannot be known before the message goes on.

    The result can be appended to `begun`: it starts with a space or a line break where one is needed.

    Args:
        begun: the unfinished message, not empty.
        text: the new message, or its beginning.
        ended: the message is complete.

    >>> continuation("So:\nStep 1:", "**Step 1:** 3 + 4 = 7.")
    ' 3 + 4 = 7.'
    """
    if text.lstrip().startswith(_THINKING[0]):
        _, done, said = text.partition(_THINKING[1])
        if not (done or ended):
            return None
        text = said if done else text
    known = [_plain(line).rstrip() for line in begun.splitlines() if line.strip()]
    lines = _lines(text)
    has_preamble = bool(lines) and _COURTESY.match(lines[0][0]) is not None
    if not ended and len(lines) <= has_preamble:
        return None
    for first in range(1 + has_preamble):
        for repeated in _repeatable(known):
            rest = _after(repeated, lines[first:], text)
            if rest is not None:
                return _joined(begun, rest)
            if not ended and _goes_on(repeated, lines[first:]):
                return None
    if has_preamble and len(lines) > 1:
        text = text[lines[0][1] :]
    return _joined(begun, text)


def _lines(text: str) -> list[_Line]:
    """The lines of a text that are not blank."""
    found, end = list[_Line](), 0
    for line in text.splitlines(keepends=True):
        end += len(line)
        if line.strip():
            content = line.rstrip("\r\n")
            found.append((_plain(content), end - len(line) + len(content), content != line))
    return found


def _plain(line: str) -> str:
    """A line without its bullet, the emphasis with which it begins, and the language of a fence."""
    line = _BULLET.sub("", line.lstrip())
    if (bold := _EMPHASIS.match(line)) is not None:
        line = bold[2] + line[bold.end() :]
    return _LANGUAGE.sub("", line)


def _repeatable(known: Sequence[str]) -> list[list[str]]:
    """What a model may repeat, longest first: the last lines, or the last line without its label."""
    found = [list(known[first:]) for first in range(len(known))]
    unlabelled = _LABEL.sub("", known[-1]) if known else ""
    return [*found, [unlabelled]] if " " in unlabelled else found


def _after(repeated: Sequence[str], lines: Sequence[_Line], text: str) -> str | None:
    """The text after its repetition of some lines, of which it may continue the last; None if it does not repeat."""
    *whole, last = repeated
    if len(lines) < len(repeated) or any(
        line.rstrip() != other for (line, _, _), other in zip(lines, whole, strict=False)
    ):
        return None
    line, end, _ = lines[len(whole)]
    return line[len(last) :] + text[end:] if line.startswith(last) else None


def _goes_on(repeated: Sequence[str], lines: Sequence[_Line]) -> bool:
    """Whether lines may be the beginning of a repetition."""
    if not lines or len(lines) > len(repeated):
        return False
    *whole, (last, _, complete) = lines
    same = all(line.rstrip() == other for (line, _, _), other in zip(whole, repeated, strict=False))
    expected = repeated[len(whole)]
    return same and (last.rstrip() == expected if complete else expected.startswith(last.strip(_DECORATION)))


def _joined(begun: str, text: str) -> str:
    """A text as it is appended to `begun`: a word after a space, code on a line of its own."""
    if begun.endswith(("\n", *MARKERS)):
        text = _ONE_SPACE.sub("", _BLANK_LINES.sub("", text))
        return text if begun.endswith("\n") or not text.strip() else f"\n{text}"
    text = _ELLIPSIS.sub("", text.lstrip())
    return f" {text}" if text and not begun[-1:].isspace() else text
