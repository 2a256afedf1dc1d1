"""Keepers outlive what the processes that they keep can do to themselves."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import textwrap
from typing import Any

import pytest

from rstar.sandbox import Result, State, channel
from rstar.sandbox.jail.seccomp import FORK
from rstar.sandbox.keeper.processes import hung_up
from rstar.sandbox.keeper.start import make_template
from tests.sandbox.conftest import Box

SAYS_ITS_END = """
import ctypes, os, threading, time
big = bytearray(40 << 20)
for at in range(0, len(big), 4096):
    big[at] = 1
def say():
    time.sleep(0.2)
    os.write(5, b'{"status": "ok"}')
    time.sleep(9)
threading.Thread(target=say, daemon=True).start()
ctypes.CDLL(None).syscall(60, 0)
"""
"""The main thread ends alone, and another one says that the run is over. /proc tells nothing of such a process."""

MAKES_BAD_FORKS = """
import sys, os, threading, time, ctypes
frame = sys._getframe()
while frame.f_code.co_name != 'serve':
    frame = frame.f_back
channel, fork = frame.f_globals['channel'], frame.f_locals['fork']
receive = channel.receive
def say():
    time.sleep(0.05)
    os.write(5, b'hello')
    time.sleep(9)
def bad(link):
    message = receive(link)
    if message is None or message[0]['do'] != 'fork':
        return message
    end = message[1][0]
    if fork() == 0:
        os.dup2(end, 5)
        os.close(end)
        {child}
    os.close(end)
    return bad(link)
channel.receive = bad
"""
BAD_FORKS = {
    "says hello and is gone": "os.write(5, b'hello'); os._exit(0)",
    "says hello without its main thread": "threading.Thread(target=say).start(); ctypes.CDLL(None).syscall(60, 0)",
}


def beside(box: Box, hostile: str, *, forked: bool) -> tuple[Result, list[Result]]:
    """How a hostile run from a state ends, or one from the state that it leaves, and how its siblings do meanwhile."""

    async def work() -> tuple[Result, list[Result]]:
        start, _ = await box.sandbox.start().run("x = 1")
        assert start is not None
        siblings = [asyncio.create_task(start.run("import time\ntime.sleep(1.5)\nprint(x)")) for _ in range(2)]
        await asyncio.sleep(0.2)
        state: State | None
        state, result = await start.run(hostile)
        if forked:
            assert state is not None, result
            _, result = await state.run("print(x)")
        return result, [result for _, result in await asyncio.gather(*siblings)]

    return box.do(work())


def test_a_run_without_its_main_thread_ends_alone(box: Box) -> None:
    result, siblings = beside(box, SAYS_ITS_END, forked=False)
    assert result.status == "killed"
    assert [sibling.stdout for sibling in siblings] == ["1\n", "1\n"]


@pytest.mark.parametrize("child", BAD_FORKS)
def test_a_fork_that_cannot_be_looked_at_is_killed(box: Box, child: str) -> None:
    code = MAKES_BAD_FORKS.replace("{child}", BAD_FORKS[child])
    result, siblings = beside(box, textwrap.dedent(code), forked=True)
    assert result.status == "killed"
    assert [sibling.stdout for sibling in siblings] == ["1\n", "1\n"]


INTERRUPTS_CLONES = f"""
import ctypes, signal, time
count = 0
def on_alarm(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, on_alarm)
call, end = ctypes.CDLL(None).syscall, time.monotonic() + 1.5
tries = 0
while time.monotonic() < end:
    tries += 1
    signal.setitimer(signal.ITIMER_REAL, 0.00001 + tries % 60 * 0.000001)
    call({56 if platform.machine() == "x86_64" else 220}, {FORK}, 0, 0, 0, 0)
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_forks_are_possible_after_interrupted_ones(box: Box) -> None:
    """A request that was interrupted is gone when the keeper wants to read it, but its listener is not."""

    async def work() -> list[str]:
        state, result = await box.sandbox.start().run(INTERRUPTS_CLONES)
        assert state is not None, result
        process, shown = state._node.process, []
        for code in (
            "count > 100",
            "import threading\nt = threading.Thread(target=print, args=(7,))\nt.start(), t.join()\n",
        ):
            shown.append((await state.run(code))[1].stdout)
        assert state._node.process is process, "it was rebuilt"
        return shown

    assert box.do(work()) == ["True\n", "7\n(None, None)\n"]


class FullJail:
    """Lets the template be made, and then nothing more: there are too many processes."""

    def __init__(self) -> None:
        self._full = False

    def clone(self, **_: bool) -> int:
        if self._full:
            raise BlockingIOError
        self._full = True
        return os.fork()


def test_a_template_outlives_a_fork_that_the_kernel_refuses() -> None:
    """With it all states of its tree would end."""
    jail: Any = FullJail()
    template = make_template(jail, jail, new=False)
    try:
        template.link.settimeout(10)
        for number in range(3):
            ours, theirs = channel.pair()
            with ours:
                template.fork(theirs)
                theirs.close()
                ours.settimeout(10)
                assert ours.recv(10) == b""
            template.ping(number)
            assert template.link.recv(10) == str(number).encode()
    finally:
        template.link.close()
        os.waitpid(template.pid, 0)


def test_hung_up() -> None:
    """Not as long as the other end is open, whether or not there is something to read."""
    for ours, theirs in (socket.socketpair(), os.pipe()):
        one, other = (end if isinstance(end, int) else end.detach() for end in (ours, theirs))
        assert not hung_up(one)
        os.write(other, b"x")
        assert not hung_up(one)
        os.read(one, 1)
        assert not hung_up(one)
        os.close(other)
        assert hung_up(one)
        os.close(one)
