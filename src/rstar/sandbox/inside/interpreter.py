"""Inside the process that runs model-written code: notebook semantics, and the loop between two runs.

Everything here shares a process with the code it runs, so nothing here is trusted by anybody: the keeper takes what
comes out of this process as a claim about its own run and nothing more. The care taken (private built-ins, streams
opened anew, signals blocked between runs) is for code that breaks things by accident.
"""

from __future__ import annotations

import ast
import atexit
import builtins
import gc
import io
import json
import linecache
import mmap
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, ModuleType, TracebackType
from typing import Any, TextIO, cast

from rstar.sandbox import channel
from rstar.sandbox.inside.variables import new_values
from rstar.sandbox.jail import kernel
from rstar.sandbox.keeper.processes import HELLO

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""The functions below look built-ins up here, whatever a snippet makes of the real ones."""

MESSAGE = 2_000
"""Most characters of an exception's message that are reported."""

_TRACEBACK = 20_000
_ALL_SIGNALS = signal.valid_signals()

Order = tuple[channel.Message, list[int]]

Report = dict[str, Any]


class Interpreter:
    """A ``__main__`` in which code runs, step after step. Made and warmed in the zygote, inherited by every run."""

    def __init__(self) -> None:
        self._main = ModuleType("__main__")
        self._main.__dict__["__builtins__"] = builtins
        self._flags = 0
        self._names: set[str] = set()
        # Never touched: room to report a MemoryError in. Private, or all runs would share it.
        self._reserve = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        sys.modules["__main__"] = self._main
        sys.argv = [""]
        sys.path.insert(0, "")
        sys.stdin = sys.stdout = sys.stderr = None
        self.run("1 / 0", "<warm>")
        self.run("1", "<warm>")
        linecache.clearcache()
        self._names.clear()

    def run(self, code: str, name: str, *, echo: bool = True, values: int = 0) -> Report:
        """Run `code`, known as `name` in tracebacks, and tell how it went. Output is flushed.

        With `echo`, the value of a last-line expression is shown. With `values`, so many new values are told.
        """
        self._open_streams()
        self._names.add(name)
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        try:
            before = dict(self._main.__dict__) if values else {}
            self._execute(code, name, echo)
            report: Report = {"status": "ok"}
            if values:
                with suppress(Exception):  # a class of the snippet's that pretends to be a number: the run went well
                    report["values"] = new_values(before, self._main.__dict__, values)
        except SystemExit as stop:
            report = _stopped(stop, name)
        except MemoryError as error:
            self._reserve.close()
            os.write(2, b"MemoryError\n")
            report = _failed(error, name) | {"status": "memory"}
        except BaseException as error:
            report = self._explained(error, name)
        _flush()
        return report

    def _execute(self, code: str, name: str, echo: bool) -> None:
        space = self._main.__dict__
        body, last = self._compile(code, name, echo)
        exec(body, space)
        if last is not None:
            value = eval(last, space)
            if value is not None:
                print(repr(value))

    def _compile(self, code: str, name: str, echo: bool) -> tuple[CodeType, CodeType | None]:
        """The statements, and the last one apart if it is an expression. ``__future__`` imports last for all steps."""
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | self._flags, dont_inherit=True)
        last = tree.body.pop() if echo and tree.body and isinstance(tree.body[-1], ast.Expr) else None
        body = compile(tree, name, "exec", self._flags, dont_inherit=True)
        self._flags |= body.co_flags & _FUTURES
        if last is None:
            return body, None
        return body, compile(ast.Expression(last.value), name, "eval", self._flags, dont_inherit=True)

    def _explained(self, error: BaseException, name: str) -> Report:
        """The report of an exception, whose traceback goes to stderr with the snippet's frames only."""
        try:
            shown = traceback.TracebackException.from_exception(error)
            self._prune(shown, 0)
            text = "".join(shown.format())
            os.write(2, text[-_TRACEBACK:].encode(errors="backslashreplace"))
        except BaseException:  # an exception class may do anything when it is shown
            os.write(2, f"{type(error).__name__}\n".encode(errors="backslashreplace"))
        return _failed(error, name)

    def _prune(self, shown: traceback.TracebackException, depth: int) -> None:
        kept = [frame for frame in shown.stack if frame.filename in self._names]
        shown.stack = traceback.StackSummary.from_list(kept)
        for other in (shown.__cause__, shown.__context__, *(shown.exceptions or ())):
            if other is not None and depth < 20:
                self._prune(other, depth + 1)

    def _open_streams(self) -> None:
        """Text streams on descriptors 0 to 2, where the code has not put usable ones of its own."""
        for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            current = getattr(sys, name, None)
            if current is None or getattr(current, "closed", False):
                raw = open(fd, mode + "b", closefd=False)  # noqa: SIM115
                errors = "surrogateescape" if mode == "r" else "backslashreplace"
                stream = io.TextIOWrapper(raw, "utf-8", errors, line_buffering=mode == "w")
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)


def finish() -> None:
    """What an interpreter does at its end: wait for threads, call what `atexit` was given."""
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    with suppress(BaseException):
        atexit._run_exitfuncs()
    _flush()


def serve(
    link: socket.socket,
    order: tuple[channel.Message, list[int]] | None,
    fork: Callable[[], int],
    interpreter: Interpreter,
) -> None:
    """Do what the keeper says, until it closes the link: run code, or fork. Never returns.

    Args:
        link: to the keeper.
        order: the first thing to do.
        fork: makes a child process, 0 in the child.
        interpreter: runs the code.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    collecting = gc.isenabled()
    while order is not None:
        message, fds = order
        if message["do"] == "fork":
            link = _fork(link, fork, fds[0])
        else:
            if min(fds) < len(fds):  # the code has closed its streams, whose numbers were the first free ones
                fds = [kernel.move_up(fd) for fd in fds]
            for target, fd in enumerate(fds):
                os.dup2(fd, target)
            channel.close_all(fds)
            os.chdir(message["folder"])
            if "tempfile" in sys.modules:
                sys.modules["tempfile"].__dict__["tempdir"] = None  # the folder of the state before
            if collecting:
                gc.enable()
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                report = interpreter.run(message["code"], message["name"], **message.get("how", {}))
                if message["last"]:
                    finish()
            except BaseException as error:  # a signal handler of the snippet, in our own lines
                report = _failed(error, message["name"])
            mask = _quiet()
            collecting = gc.isenabled()
            gc.disable()
            link.send(json.dumps(report).encode())
        order = channel.receive(link)
    os._exit(0)


def _fork(link: socket.socket, fork: Callable[[], int], fd: int) -> socket.socket:
    """Fork; the child goes on with the link at `fd`, this process with the one it has.

    Python's at-fork handlers do not run: this thread is the only one (the keeper sees to that), so there is no lock to
    put in order, and they would seed `random` anew.
    """
    if fork():
        os.close(fd)
        return link
    os.dup2(fd, link.fileno())
    os.close(fd)
    link.send(HELLO)
    return link


def _quiet() -> set[signal.Signals | int]:
    """Let nothing of the snippet run between two runs: no timer, trace function or signal handler."""
    sys.settrace(None)
    sys.setprofile(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)


def _stopped(stop: SystemExit, name: str) -> Report:
    """`sys.exit`: None and 0 are a good end; a text goes to stderr and counts as 1."""
    code = stop.code
    if isinstance(code, int) and abs(code) >= 1 << 31:  # has no meaning, and thousands of digits if it likes
        code = 1
    if not (code is None or isinstance(code, int)):
        os.write(2, f"{code}\n".encode(errors="backslashreplace"))
        code = 1
    if not code:
        return {"status": "ok", "exit_code": 0}
    return _failed(stop, name) | {"exit_code": code}


def _failed(error: BaseException, name: str) -> Report:
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error)[:MESSAGE]
    except BaseException:
        message = ""
    return {"status": "error", "kind": type(error).__name__[:MESSAGE], "message": message, "line": _line(error, name)}


def _line(error: BaseException, name: str) -> int | None:
    """The line of the snippet `name` at which the error left it."""
    if isinstance(error, SyntaxError) and error.filename == name:
        return error.lineno
    line = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _flush() -> None:
    for stream in {sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__}:
        with suppress(BaseException):  # whatever the snippet has put there
            cast(TextIO, stream).flush()


_FUTURES = 0
for _feature in __import__("__future__").all_feature_names:
    _FUTURES |= getattr(__import__("__future__"), _feature).compiler_flag
