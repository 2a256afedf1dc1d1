"""Bounds the threads of all runs together.

The kernel numbers the threads of all users from one small supply, and each run alone has a limit that a thousand
sleeping runs would multiply beyond it. So a run may have a share of what is left, and no other run gets that share
meanwhile. While few programs run, each may have `MOST` threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOST, FEWEST = 256, 8
"""Threads that a run may have while nearly all are left, and when none is: what a compiler or an event loop needs."""

_PART = 32
"""A run may have this part of what is left."""

_MACHINE_PART = 4
"""All runs of a machine may have this part of its threads."""

_SUPPLIES = ("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max", "/sys/fs/cgroup/pids.max")


class ThreadBudget:
    """The threads that runs may have together, besides `FEWEST` each.

    Args:
        total: their number.
    """

    def __init__(self, total: int) -> None:
        self.left = total

    @contextmanager
    def share(self) -> Iterator[int]:
        """The number of threads that a run may have inside the block."""
        threads = max(FEWEST, min(MOST, self.left // _PART))
        self.left -= threads
        try:
            yield threads
        finally:
            self.left += threads


def threads_for_programs() -> int:
    """Default budget: this machine's, or this container's, share for programs."""
    supply = 1 << 22  # the most that the kernel has
    for name in _SUPPLIES:
        with suppress(OSError, ValueError):  # missing, or unlimited
            supply = min(supply, int(Path(name).read_text()))
    return supply // _MACHINE_PART
