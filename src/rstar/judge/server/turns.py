"""Turns for work that blocks the event loop, such as parsing a large request."""

from __future__ import annotations

import asyncio
import time

_SHORT_SECONDS, _MAX_PAUSE = 0.02, 1.0


class Turns:
    """One piece of work at a time. After a long one, the event loop is free for as long as it took."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._began = 0.0

    async def wait(self) -> None:
        """Wait for a turn. The work must follow without another ``await``."""
        is_contended = self._lock.locked()
        async with self._lock:
            took = time.monotonic() - self._began if is_contended else 0.0
            await asyncio.sleep(min(took, _MAX_PAUSE) if took > _SHORT_SECONDS else 0)
            self._began = time.monotonic()
