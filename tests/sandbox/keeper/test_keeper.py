"""Keepers outlive what the processes that they keep can do to themselves."""

from __future__ import annotations

import asyncio
import os
import socket
import textwrap
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from rstar.sandbox import Result, State
from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.isolation import Jail
from rstar.sandbox.keeper.keeper import Keeper
from rstar.sandbox.keeper.proc import Proc
from rstar.sandbox.keeper.processes import Template, hung_up
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


@pytest.mark.parametrize("waiting", [False, True])
def test_an_interrupted_request_closes_the_listener_for_no_others(
    waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone when the keeper looks, or when it asks for it. Only without any process is the listener closed."""
    monkeypatch.setattr(kernel, "notification", lambda listener: None)
    parent, template = socket.socketpair(), socket.socketpair()
    jail = SimpleNamespace(proc=Proc(), namespaces=True)
    keeper = Keeper(parent[0], cast(Jail, jail), "/", Template(template[0], 0), has_states=True)
    listener, processes = socket.socketpair()
    number = listener.fileno()
    keeper._listen(number, partial(keeper._on_clone_request, number))
    if waiting:
        processes.send(b"request")
    for _ in range(3):
        keeper._handlers[number]()
    processes.close()
    assert hung_up(number)
    keeper._handlers[number]()
    assert number not in keeper._handlers
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(listener.detach())
    for end in (*parent, *template):
        end.close()
