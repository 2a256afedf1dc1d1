"""CPU time used by all programs on the processors in this process's affinity set."""

from __future__ import annotations

import os
import time
from contextlib import suppress

_CACHE_SECONDS = 0.02
_TICK = 1 / os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8
"""Columns of ``/proc/stat``: idle and iowait are not work; guest time (from 8 on) is already part of user time."""


class CpuTime:
    """CPU time used by all programs on these processors; cached for 20 ms."""

    def __init__(self) -> None:
        self._read_at = float("-inf")
        self._used: float | None = None

    def used(self) -> float | None:
        """CPU seconds since boot; None where the kernel does not report it."""
        now = time.monotonic()
        if now - self._read_at > _CACHE_SECONDS:
            self._read_at, self._used = now, _read()
        return self._used


def _read() -> float | None:
    with suppress(OSError, ValueError, IndexError), open("/proc/stat", "rb") as file:
        names = {b"cpu%d" % number for number in os.sched_getaffinity(0)}
        rows = [line.split() for line in file if line.startswith(b"cpu")]
        counts = [words[1 : 1 + _GUEST] for words in rows if words[0] in names]
        work = [int(ticks) for row in counts for column, ticks in enumerate(row) if column not in (_IDLE, _IOWAIT)]
        return sum(work) * _TICK or None
    return None
