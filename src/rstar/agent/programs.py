"""Programs as answers: found in a text, and run on test cases."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rstar.sandbox.api import Limits, Sandbox

_BLOCK = re.compile(
    r"^[ \t]*```[ \t]*(?:python3?|py)?[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE | re.IGNORECASE
)


def last_block(text: str) -> str | None:
    """The code of the last fenced Python block in `text`; None if there is none.

    >>> last_block("First:\\n```python\\nprint(1)\\n```\\nBetter:\\n```\\nprint(2)\\n```")
    'print(2)'
    """
    blocks = _BLOCK.findall(text)
    return blocks[-1].strip("\n") or None if blocks else None


async def passes(code: str, cases: Sequence[tuple[str, str]], sandbox: Sandbox, limits: Limits) -> bool:
    """Whether a program passes all test cases. They run in order, up to the first that fails.

    Args:
        code: the program.
        cases: standard input, and the expected standard output; lines are compared without their trailing blanks.
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
    return [line.rstrip() for line in output.strip().splitlines()]
