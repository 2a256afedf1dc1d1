"""Watches the disk use of a run whose scratch folder is not a file system of its own.

Looking at every file is slow, and the kernel caps only single files. So the files are looked at when the free space of
the disk has shrunk, which is cheap to ask, and otherwise four times a second. A run can exceed its limit by what it
writes in about `_POLL_SECONDS`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_POLL_SECONDS, _POLLS_PER_LOOK = 0.02, 12


class DiskWatch:
    """See the module docstring.

    Args:
        folder: on the disk.
        step: bytes by which the free space shrinks until the next look.
        look: looks at the files; calls `done` at its end.
    """

    def __init__(self, folder: Path, step: int, look: Callable[[], None]) -> None:
        self._folder, self._step, self._look = folder, step, look
        self._loop = asyncio.get_running_loop()
        self._looking, self._polls = False, 0
        self._free = self._free_bytes()
        self._timer = self._loop.call_later(_POLL_SECONDS, self._poll)

    def done(self) -> None:
        """The look has ended."""
        self._looking = False

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def _poll(self) -> None:
        self._polls += 1
        free = self._free_bytes()
        shrunk = self._free - free > self._step
        if not self._looking and (shrunk or self._polls % _POLLS_PER_LOOK == 0):
            self._looking, self._free = True, free
            self._look()
        self._timer = self._loop.call_later(_POLL_SECONDS, self._poll)

    def _free_bytes(self) -> int:
        with suppress(FileNotFoundError):  # not created yet, or its keeper has ended
            disk = os.statvfs(self._folder)
            return disk.f_bfree * disk.f_frsize
        return 0
