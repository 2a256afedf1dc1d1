"""Turns for work that blocks the event loop, such as parsing a large request."""

from __future__ import annotations

import asyncio
import time

_MAX_PAUSE = 1.0


class Turns:
    """One piece of work at a time. Between two of them, the loop is free for as long as the first one took."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._began = 0.0

    async def wait(self) -> None:
        """Wait for a turn. The work must follow without another ``await``."""
        is_contended = self._lock.locked()
        async with self._lock:
            now = time.monotonic()
            await asyncio.sleep(min(now - self._began, _MAX_PAUSE) if is_contended else 0)
            self._began = time.monotonic()
