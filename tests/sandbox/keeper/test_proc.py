"""What a process can find out about those below it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rstar.sandbox.folders import remove_tree
from rstar.sandbox.keeper.proc import MAP_BYTES, PAGE, SOCKET_BYTES, CrowdedError, Proc

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
    assert 50 << 20 <= proc.memory(child, 0) <= rss + proc.page_tables(child) + proc.maps(child) * MAP_BYTES
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


HOLDS_SOCKETS = """
import socket
held = [socket.socketpair() for _ in range(40)]
"""
HOLDS_MAPS = """
import ctypes
call = ctypes.CDLL(None).mmap
call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
held = [call(None, 4096, number % 2, 34, -1, 0) for number in range(20_000)]
"""


@pytest.mark.parametrize("forks", [False, True])
@pytest.mark.parametrize(("held", "size"), [(HOLDS_SOCKETS, 79 * SOCKET_BYTES), (HOLDS_MAPS, 20_000 * MAP_BYTES)])
def test_memory_that_the_kernel_takes_for_a_process(held: str, size: int, forks: bool) -> None:
    """In a group of processes, sockets count once, and maps for each."""

    def memory(code: str) -> int:
        code += "import os, time\nos.fork() or time.sleep(60)\n" if forks else ""
        with subprocess.Popen(
            [sys.executable, "-c", code + CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            found = Proc().memory(process.pid, 0)
            os.killpg(process.pid, signal.SIGKILL)
            return found

    more = memory(held) - memory(re.sub(r"range\([\d_]+\)", "()", held))
    assert 0.9 * size <= more <= 3 * size


def test_nobody_can_tell_of_what_is_not_there() -> None:
    assert Proc().memory(2**22 - 1, 0) == 0


HIDES = {
    "a child that has ended": "import os\nif os.fork() == 0:\n    os._exit(0)\n",
    "no main thread": (
        "import ctypes, mmap, threading, time\n"
        "def work():\n"
        "    kept = mmap.mmap(-1, 50 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "    kept.write(bytes(50 << 20))\n"
        "    while open('/proc/self/stat').read().rpartition(')')[2].split()[0] != 'Z':\n"
        "        time.sleep(0.01)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "threading.Thread(target=work).start()\n"
        "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[__import__('os').uname().machine], 0)\n"
    ),
}


@pytest.mark.parametrize("name", HIDES)
def test_what_has_ended_hides_no_memory(name: str) -> None:
    command = [sys.executable, "-c", HIDES[name] + CODE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert 50 << 20 <= Proc().memory(process.pid, 0) <= 130 << 20
        process.kill()


HOLDS = """
import ctypes, mmap, os, sys
call = ctypes.CDLL(None).mmap
call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
path, depth, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chdir(path)
for _ in range(depth):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
file = os.open("file", os.O_RDWR | os.O_CREAT)
os.write(file, bytes(8192))
kept = [call(None, 4096, 1, 2, file, 4096 * (number % 2)) for number in range(count)]
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("depth", "count"), [(400, 100), (10, 20_000)], ids=["long paths", "many maps"])
def test_maps_are_read_up_to_a_bound(depth: int, count: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path), str(depth), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for look in (Proc().maps, lambda pid: Proc().unlinked(pid, 0)):
            with pytest.raises(CrowdedError):
                look(process.pid)
        process.kill()
    remove_tree(str(tmp_path))  # pytest cannot


def test_maps_of_all_processes_are_bounded_together() -> None:
    """Each of three has 30,000 maps, with short lines."""
    maps = (
        "import ctypes, os, time\ncall = ctypes.CDLL(None).mmap\n"
        "call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]\n"
        "kept = [call(None, 4096, 1 + number % 2, 34, -1, 0) for number in range(30_000)]\n"
        "for _ in range({others}):\n    os.fork() or time.sleep(60)\n"
    )
    for others in (0, 2):
        command = [sys.executable, "-c", maps.format(others=others) + CODE]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            if others:
                with pytest.raises(CrowdedError):
                    Proc().memory(process.pid, 0)
            else:
                assert Proc().maps(process.pid) > 30_000
                assert Proc().memory(process.pid, 0) >= 50 << 20
            os.killpg(process.pid, signal.SIGKILL)
