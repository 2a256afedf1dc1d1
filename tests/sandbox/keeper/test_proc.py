"""What a process can find out about those below it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rstar.sandbox.keeper.proc import PAGE, Proc

CODE = """
import mmap, sys, threading
kept = mmap.mmap(-1, 50 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
kept.write(bytes(50 << 20))
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_namespace_pids(child: int) -> None:
    """Here both numbers are the same: there is one namespace."""
    proc = Proc()
    assert proc.host_pid(child) == proc.local_pid(child) == child
    assert child in proc.children()


def test_who_has_ended_has_no_number() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(OSError, match="No such process"):
        Proc().host_pid(process.pid)
    assert Proc().local_pid(process.pid) == 0


def test_threads_and_descriptors(child: int) -> None:
    proc = Proc()
    assert proc.threads(child) == 2
    assert proc.descriptors(child) == {"0", "1", "2"}
    one, other = socket.socketpair()
    with one, other:
        assert {str(one.fileno()), str(other.fileno())} <= proc.descriptors(os.getpid())


def test_memory(child: int) -> None:
    proc = Proc()
    space, rss = proc.sizes(child)
    assert space > rss
    assert rss > 50 << 20
    assert rss % PAGE == 0
    assert 50 << 20 <= proc.memory(child, 0) <= rss + proc.page_tables(child)
    assert 0 < proc.page_tables(child) < 1 << 20
    assert 50 << 20 <= proc.mapped(child, b"Private_") <= rss


def test_memory_of_a_group_counts_shared_pages_once() -> None:
    """A process with 50 MB that has forked four times, without writing."""
    code = CODE.replace("print(", "import os, time\nfor _ in range(4):\n    os.fork() or time.sleep(60)\nprint(")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert Proc().progress(process.pid).processes == 5
        assert 50 << 20 <= Proc().memory(process.pid, 0) <= 130 << 20
        os.killpg(process.pid, signal.SIGKILL)


def test_nobody_can_tell_of_what_is_not_there() -> None:
    assert Proc().memory(2**22 - 1, 0) == 0
