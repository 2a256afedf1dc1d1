"""Resolve asyncio futures from other threads. On a closed loop nothing happens: no task is waiting there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def finish(future: asyncio.Future[T], result: T) -> None:
    """Set the result of `future` unless it is done. Runs in its loop."""
    if not future.done():
        future.set_result(result)


def refuse(future: asyncio.Future[Any], error: Exception) -> None:
    """Set the exception of `future` unless it is done. Runs in its loop."""
    if not future.done():
        future.set_exception(error)


def call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Schedule `function` in `loop` from any thread."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)
