"""Programs as answers: found in a text, and run on test cases."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rstar.sandbox.api import Limits, Sandbox

_FENCE = re.compile(r"[ \t]*(`{3,})[ \t]*([^`]*)")
_PYTHON = ("", "py", "python", "python3")


def last_block(text: str) -> str | None:
    """The code of the last fenced block in `text` that is Python or names no language; None if there is none.

    A block ends at a fence at least as long as the one that began it; one without an end is none.

    >>> last_block("Input:\\n```text\\n3\\n```\\n```python\\nprint(int(input()) ** 2)\\n```")
    'print(int(input()) ** 2)'
    """
    found, fence, language = "", "", ""
    block: list[str] = []
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line.rstrip())
        if fence and (match is None or match[2][:1].isalnum() or len(match[1]) < len(fence)):
            block.append(line)
        elif fence:  # also where a tag follows, such as </answer>
            found = "\n".join(block) if language in _PYTHON else found
            fence = ""
        elif match is not None:
            fence, language, block = match[1], (match[2].split() or [""])[0].lower(), []
    return found.strip("\n") or None


async def passes(code: str, cases: Sequence[tuple[str, str]], sandbox: Sandbox, limits: Limits) -> bool:
    """Whether a program passes all test cases. They run in order, up to the first that fails.

    Args:
        code: the program.
        cases: standard input, and the expected standard output; neither trailing blanks of a line nor empty lines at
            the end count.
        sandbox: runs the program, in a fresh interpreter for each case.
        limits: of one case.

    Raises:
        SandboxError: the sandbox failed.
    """
    for given, expected in cases:
        result = await sandbox.run(code, given, limits)
        if not result.ok or _lines(result.stdout) != _lines(expected):
            return False
    return True


def _lines(output: str) -> list[str]:
    return [line.rstrip() for line in output.rstrip().split("\n")]
