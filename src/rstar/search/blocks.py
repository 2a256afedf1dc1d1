"""Fenced blocks in the texts of language models: which of them are Python code, and whether the last one is open.

Fences are those of CommonMark: three or more backticks or tildes; the closing fence has as many or more, and no
language. One thing differs, because models start anew in the middle of a turn: in a block without a language, a fence
with a language opens another block, and what stood before it is dropped.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent

_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*?)[ \t]*$")
_LANGUAGE = re.compile(r"\{?\.?(?P<language>[\w+-]*)\}?")
_ATTRIBUTE = re.compile(r".*[=.{}].*")
_PYTHON = ("python", "python3", "py", "pycon", "ipython", "python-repl", "tool_code")
_INLINE = re.compile(r".*[^\s`](?P<fence>[ \t]*`{3,}(?:python|python3|py))[ \t]*$")
"""A line that ends with the opening fence of Python code."""
_TAGGED = re.compile(
    r"\s*(?:<(?P<tag>code|tool_code)>(?P<inside>.*?)</(?P=tag)>"
    r"|<\|python_tag\|>(?P<rest>.*?)(?:<\|(?:eom|eot)_id\|>)?)\s*",
    re.DOTALL,
)
_TOOL_CALL = re.compile(
    r"\s*(?:<tool_call>|<\|python_tag\|>)?\s*(?P<call>\{.*\})\s*(?:</tool_call>|<\|\w+\|>)?\s*", re.DOTALL
)
_INPUT = re.compile(r"(?:>>>|\.\.\.) ?|In \[\d*\]: ?")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        language: in lower case; empty if the fence names none.
        code: its lines, without common indentation; of an interactive session, the input alone.
        closed: whether a fence ends it.
    """

    language: str
    code: str
    closed: bool

    @property
    def is_python(self) -> bool:
        """Whether the fence names Python."""
        return self.language in _PYTHON


def fenced_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a text, in order. Only the last one can be open."""
    mark, language, lines = "", "", list[str]()
    for line in text.replace("\r\n", "\n").split("\n"):
        fence = _opening(line)
        if not mark and fence is not None:
            (mark, language), lines = fence, []
        elif mark and _closes(line, mark):
            yield Block(language, _joined(lines), closed=True)
            mark = ""
        elif mark and line.split(mark)[0].strip() and line.rstrip().endswith(mark):
            yield Block(language, _joined([*lines, line.rstrip().removesuffix(mark)]), closed=True)
            mark = ""
        elif mark and not language and fence is not None and fence[1] and fence[0][0] == mark[0]:
            (mark, language), lines = fence, []
        elif mark:
            lines.append(line)
    if mark:
        yield Block(language, _joined(lines), closed=False)


def python_code(blocks: list[Block]) -> str | None:
    """The Python code among blocks, joined; None without any.

    Blocks without a language are code only if none names Python, and if they can be: after the code, many models write
    the output that they expect as such a block, which must not run.
    """
    named = [block.code for block in blocks if block.is_python and block.code.strip()]
    if not named:
        named = [block.code for block in blocks if not block.language and looks_like_code(block.code)]
    return "\n".join(named) or None


def looks_like_code(text: str) -> bool:
    """Whether a text is Python that does something. A value, a name or a comparison alone does nothing."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(part, ast.Expr) or _calls(part.value) for part in body)


def bare_code(text: str) -> str | None:
    """A text that is Python code, without a fence, and prints or computes something; else None.

    One line alone computes nothing: ``x = 3 / 4`` may be an answer.
    """
    if (called := _called_code(text)) is not None:
        return called
    tagged = _TAGGED.fullmatch(text)
    code = without_prompts((text if tagged is None else tagged["inside"] or tagged["rest"] or "").strip("\n"))
    if not looks_like_code(code):
        return None
    several = tagged is not None or len(code.strip().splitlines()) > 1
    return code if "print(" in code or (several and _computes(code)) else None


def _called_code(text: str) -> str | None:
    """The code in a text that is a tool call, with code as its only argument; None for any other text."""
    found = _TOOL_CALL.fullmatch(text)
    try:
        call = json.loads(found["call"]) if found is not None else None
    except (ValueError, RecursionError):
        return None
    arguments = (call.get("arguments") or call.get("parameters")) if isinstance(call, dict) else None
    code = next(iter(arguments.values())) if isinstance(arguments, dict) and len(arguments) == 1 else None
    return code if isinstance(code, str) and looks_like_code(code) else None


def _computes(code: str) -> bool:
    """Whether Python code sets a variable to something that is not a value already."""
    set_to = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Assign | ast.AugAssign)]
    return any(isinstance(part, ast.BinOp | ast.Call) for value in set_to for part in ast.walk(value))


def without_prompts(text: str) -> str:
    """The input of an interactive session, without its output; any other text as it is."""
    if not text.startswith((">>>", "In [")):
        return text
    marks = ((line, _INPUT.match(line)) for line in text.split("\n"))
    return "\n".join(line[mark.end() :] for line, mark in marks if mark is not None)


def _calls(part: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(part))


def _opening(line: str) -> tuple[str, str] | None:
    """Mark and language of an opening fence; None if the line is none."""
    if (inline := _INLINE.match(line)) is not None:
        line = inline["fence"]
    fence = _FENCE.match(line)
    if fence is None:
        return None
    first, *rest = fence["info"].split() or [""]
    named = _LANGUAGE.match(first)
    assert named is not None
    if fence["mark"][0] == "~" and not all(_ATTRIBUTE.fullmatch(word) for word in rest):
        return None  # a sentence that begins with tildes
    return fence["mark"], named["language"].lower()


def _closes(line: str, mark: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(mark) and not stripped.strip(mark[0])


def _joined(lines: list[str]) -> str:
    return without_prompts(dedent("\n".join(lines)).strip("\n"))
