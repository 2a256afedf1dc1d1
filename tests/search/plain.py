"""A sandbox for tests of the search: runs the tests' own trusted code in this process. Counts live states."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any, Self

from rstar.sandbox.api import CodeError, Limits, Result


class PlainState:
    def __init__(self, box: PlainSandbox, names: dict[str, Any]) -> None:
        self.box, self.names, self.live = box, names, True
        box.live += 1

    async def run(self, code: str, limits: Limits | None = None) -> tuple[PlainState | None, Result]:
        assert self.live, "run from a released state"
        names = copy.deepcopy(self.names)
        self.box.runs.append(code)
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(code, names)
        except Exception as error:
            found = CodeError(type(error).__name__, str(error), 1)
            return PlainState(self.box, _plain(names)), Result("error", out.getvalue(), error=found)
        return PlainState(self.box, _plain(names)), Result("ok", out.getvalue())

    def release(self) -> None:
        if self.live:
            self.live = False
            self.box.live -= 1


class PlainSandbox:
    def __init__(self) -> None:
        self.live = 0
        self.runs: list[str] = []

    def start(self) -> PlainState:
        return PlainState(self, {})

    async def run(self, code: str, stdin: str | None = None, limits: Limits | None = None) -> Result:
        _, result = await self.start().run(code)
        return result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def _plain(names: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if name != "__builtins__"}
