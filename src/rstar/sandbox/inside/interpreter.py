"""Runs inside the process of model-written code: notebook semantics and the loop between runs.

Nothing here is trusted, because it shares a process with the code it runs: the keeper takes this process's output as a
claim about its own run and no more. The precautions (private built-ins, reopened streams, signals blocked between runs)
are against accidents.
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
from rstar.sandbox.inside.variables import MAX_MESSAGE, new_values, shown_values
from rstar.sandbox.jail import kernel
from rstar.sandbox.keeper.processes import HELLO

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""Built-ins of the functions below, unaffected by a snippet that changes the real ones."""

_TRACEBACK = 20_000
_MAX_LINE = 10_000_000
_type_name = type.__dict__["__name__"].__get__
"""The name of a type; its metaclass may give another one, of any kind."""

_ALL_SIGNALS = signal.valid_signals()

Order = tuple[channel.Message, list[int]]

Report = dict[str, Any]


class Interpreter:
    """A ``__main__`` in which code runs step by step; created and warmed in the zygote, inherited by every run."""

    def __init__(self) -> None:
        self._main = ModuleType("__main__")
        self._main.__dict__["__builtins__"] = builtins
        self._flags = 0
        self._names: set[str] = set()
        # Untouched reserve, released to report a MemoryError. Private, or all runs would share it.
        self._reserve = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        sys.modules["__main__"] = self._main
        sys.argv = [""]
        sys.path.insert(0, "")
        sys.stdin = sys.stdout = sys.stderr = None
        self.run("1 / 0", "<warm>")
        self.run("1", "<warm>")
        linecache.clearcache()
        self._names.clear()

    def run(self, code: str, name: str, *, echo: bool = True, values: int = 0, in_place: bool = False) -> Report:
        """Run `code` under the file name `name`, flush its output and return a report.

        `echo` prints the value of a last-line expression. `values` is the maximum number of new values to report, with
        `in_place` also of variables whose object has changed.
        """
        self._open_streams()
        self._names.add(name)
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        try:
            before = dict(self._main.__dict__) if values else {}
            texts = shown_values(before) if in_place else None
            self._execute(code, name, echo)
            report: Report = {"status": "ok"}
            if values:
                with suppress(Exception):  # a snippet's own kind of string; the run itself succeeded
                    report["values"] = new_values(before, self._main.__dict__, values, texts)
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
        """The statements, and separately a final expression. ``__future__`` imports stay active in later steps."""
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | self._flags, dont_inherit=True)
        last = tree.body.pop() if echo and tree.body and isinstance(tree.body[-1], ast.Expr) else None
        body = compile(tree, name, "exec", self._flags, dont_inherit=True)
        self._flags |= body.co_flags & _FUTURES
        if last is None:
            return body, None
        return body, compile(ast.Expression(last.value), name, "eval", self._flags, dont_inherit=True)

    def _explained(self, error: BaseException, name: str) -> Report:
        """Report an exception; its traceback, pruned to the snippet's frames, goes to stderr."""
        try:
            shown = traceback.TracebackException.from_exception(error)
            self._prune(shown, 0)
            text = "".join(shown.format())
            os.write(2, text[-_TRACEBACK:].encode(errors="backslashreplace"))
        except BaseException:  # formatting an exception can run arbitrary code
            os.write(2, f"{_type_name(type(error))}\n".encode(errors="backslashreplace"))
        return _failed(error, name)

    def _prune(self, shown: traceback.TracebackException, depth: int) -> None:
        kept = [frame for frame in shown.stack if frame.filename in self._names]
        shown.stack = traceback.StackSummary.from_list(kept)
        for other in (shown.__cause__, shown.__context__, *(shown.exceptions or ())):
            if other is not None and depth < 20:
                self._prune(other, depth + 1)

    def _open_streams(self) -> None:
        """Open text streams on descriptors 0 to 2 unless the code has installed usable ones."""
        for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            current = getattr(sys, name, None)
            if current is None or getattr(current, "closed", False):
                raw = open(fd, mode + "b", closefd=False)  # noqa: SIM115
                errors = "surrogateescape" if mode == "r" else "backslashreplace"
                stream = io.TextIOWrapper(raw, "utf-8", errors, line_buffering=mode == "w")
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)


def finish() -> None:
    """Interpreter shutdown: join threads, call `atexit` handlers."""
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
    """Execute the keeper's orders (run code, or fork) until it closes the link. Never returns.

    Args:
        link: to the keeper.
        order: the first order.
        fork: forks this process; returns 0 in the child.
        interpreter: runs the code.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    collecting = gc.isenabled()
    while order is not None:
        message, fds = order
        if message["do"] == "fork":
            link = _fork(link, fork, fds[0])
        else:
            if min(fds) < len(fds):  # after a fork, or if the code closed its streams, their numbers are reused
                fds = [kernel.move_up(fd) for fd in fds]
            for target, fd in enumerate(fds):
                os.dup2(fd, target)
            channel.close_all(fds)
            os.chdir(message["folder"])
            if "tempfile" in sys.modules:
                sys.modules["tempfile"].__dict__["tempdir"] = None  # cached folder of the previous state
            if collecting:
                gc.enable()
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                report = interpreter.run(message["code"], message["name"], **message.get("how", {}))
                if message["last"]:
                    finish()
            except BaseException as error:  # raised in our code by the snippet's signal handler
                report = _failed(error, message["name"])
            mask = _quiet()
            collecting = gc.isenabled()
            gc.disable()
            link.send(_encoded(report))
        order = channel.receive(link)
    os._exit(0)


def _fork(link: socket.socket, fork: Callable[[], int], fd: int) -> socket.socket:
    """Fork; the child continues with the link at `fd` and no other descriptor, this process with its own.

    Python's at-fork handlers do not run. They would reseed `random`, and the keeper ensures that this is the only
    thread, so there are no locks to reset.
    """
    if fork():
        os.close(fd)
        return link
    os.dup2(fd, link.fileno())
    os.close(fd)
    os.closerange(0, 3)
    link.send(HELLO)
    return link


def _quiet() -> set[signal.Signals | int]:
    """Stop the snippet's timers, trace functions and signal handlers from running between runs."""
    sys.settrace(None)
    sys.setprofile(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)


def _stopped(stop: SystemExit, name: str) -> Report:
    """Report `sys.exit`: None and 0 are success; a message goes to stderr and counts as 1."""
    code = stop.code
    if isinstance(code, int) and abs(code) >= 1 << 31:  # meaningless, and may have thousands of digits
        code = 1
    if not (code is None or isinstance(code, int)):
        os.write(2, f"{code}\n".encode(errors="backslashreplace"))
        code = 1
    if not code:
        return {"status": "ok", "exit_code": 0}
    return _failed(stop, name) | {"exit_code": code}


def _failed(error: BaseException, name: str) -> Report:
    """Report an exception, which may be of any type: only true strings and numbers get into the report."""
    message, line = "", None
    with suppress(BaseException):
        message = str.__getitem__(str(error.msg if isinstance(error, SyntaxError) else error), slice(MAX_MESSAGE))
    with suppress(BaseException):
        found = _line(error, name)
        line = found if type(found) is int and 0 < found <= _MAX_LINE else None
    return {"status": "error", "kind": _type_name(type(error))[:MAX_MESSAGE], "message": message, "line": line}


def _encoded(report: Report) -> bytes:
    """The report as a packet. If it cannot be one, only its status is reported."""
    with suppress(BaseException):
        packet = json.dumps(report).encode()
        if len(packet) <= channel.MAX_REPORT:
            return packet
    return json.dumps({"status": report["status"], "kind": "Exception", "message": "", "line": None}).encode()


def _line(error: BaseException, name: str) -> int | None:
    """The line of snippet `name` at which the error left it."""
    if isinstance(error, SyntaxError) and type(error.filename) is str and error.filename == name:
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
        with suppress(BaseException):  # may be any object of the snippet
            cast(TextIO, stream).flush()


_FUTURES = 0
for _feature in __import__("__future__").all_feature_names:
    _FUTURES |= getattr(__import__("__future__"), _feature).compiler_flag
