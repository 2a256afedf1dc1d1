"""Futures of event loops, settled from other threads. A loop that is closed has nobody left who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def finish(future: asyncio.Future[T], result: T) -> None:
    """In the loop of `future`: give it its result, unless it is done."""
    if not future.done():
        future.set_result(result)


def refuse(future: asyncio.Future[Any], error: Exception) -> None:
    """In the loop of `future`: let it raise `error`, unless it is done."""
    if not future.done():
        future.set_exception(error)


def call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Call `function` in `loop`, soon; from any thread."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)
