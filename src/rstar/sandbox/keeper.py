"""The trusted process above the runs: it forks them, freezes them, ends them, and passes their reports to the parent.

A zygote is a keeper whose runs are programs, each in namespaces of its own, and which forks further keepers; such a
keeper holds one tree of states and is the first process of their PID namespace, so that its end is their end.

Invariants:
    * every process of a tree is a child of its keeper, whichever process forked it, so its number stays valid until
      the keeper has waited for it, and nobody else's process can be hit;
    * a process of a tree forks only while its keeper has asked it to, once per request;
    * a state at rest is stopped by the keeper: it uses no processor time, whatever threads the code left behind;
    * what a run sends is passed on unread. Before its "hello" a run executes none of the code, so a failure before it
      is the sandbox's and one after it is the run's own.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rstar.sandbox import channel, kernel
from rstar.sandbox.child import Interpreter, serve
from rstar.sandbox.isolation import Jail, RunLimits

RULESET_FD, PROC_FD, LINK_FD = 3, 4, 5
"""Where a zygote keeps what its children need from it; everything above is closed in them."""

_REAP_MS = 20
_CREDENTIALS = socket.CMSG_SPACE(12)


@dataclass(slots=True, eq=False)
class Run:
    """One process below the keeper. `process` is 0 until a fork has been confirmed."""

    id: int
    link: socket.socket
    folder: str
    limits: RunLimits
    process: int = 0
    source: Run | None = None
    order: tuple[channel.Message, list[int]] | None = None
    greeted: bool = False
    working: bool = True
    may_fork: bool = False
    unwanted: bool = False
    waiting: list[Run] = field(default_factory=list)
    cpu: float = 0.0


class Keeper:
    """The loop between parent and runs.

    Args:
        link: to the parent; when the parent closes it, everything ends.
        jail: that this process is in.
        interpreter: warm; every run works on a copy of it.
        tree: hold a tree of states, instead of programs and trees.
    """

    def __init__(self, link: socket.socket, jail: Jail, interpreter: Interpreter, *, tree: bool) -> None:
        self._link, self._jail, self._interpreter, self._tree = link, jail, interpreter, tree
        self._runs: dict[int, Run] = {}
        self._keepers: dict[int, int] = {}
        self._dying: set[int] = set()
        self._cpu = 0.0
        self._folder = jail.folder
        self._handlers: dict[int, Callable[[], None]] = {link.fileno(): self._obey}
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)

    def loop(self) -> None:
        """Serve until the parent closes the link; then end everything."""
        try:
            while True:
                for fd, _ in self._poll.poll(_REAP_MS if self._dying else None):
                    handler = self._handlers.get(fd)
                    if handler is not None:
                        handler()
                self._reap()
        except (EOFError, ConnectionError):
            self._end_everything()

    def _obey(self) -> None:
        received = channel.receive(self._link)
        if received is None:
            raise EOFError
        message, fds = received
        match message["do"]:
            case "run" if message["source"] is None:
                self._start(message, fds)
            case "run":
                self._branch(message, fds)
            case "more":
                self._continue(message, fds)
            case "tree":
                self._start_tree(message["id"], fds[0])
            case "kill":
                self._kill(message["id"], hard=message["hard"])
            case "stats":
                self._tell(message["id"], "stats", cpu=self._cpu_so_far())

    def _tell(self, run: int, event: str, **details: Any) -> None:
        channel.send(self._link, {"id": run, "event": event, **details})

    # ---- starting

    def _start(self, message: channel.Message, fds: list[int]) -> None:
        """A run in a fresh interpreter."""
        limits = RunLimits(**message["limits"])
        ours, theirs = channel.pair()
        run = Run(message["id"], ours, f"{self._folder}/{message['id']}", limits)
        alone = self._jail.namespaces and not self._tree
        if alone:
            run.folder = self._folder
        else:
            self._make_folder(run, None)
        run.process = self._jail.clone(new=not self._tree)
        if run.process == 0:
            self._become(theirs, run, mount=alone)
        theirs.close()
        self._add(run)
        self._order(run, message, fds)

    def _become(self, link: socket.socket, run: Run, *, mount: bool) -> None:
        """In the new process: bind it and serve. Never returns."""
        try:
            os.dup2(link.fileno(), LINK_FD)
            kernel.close_from(LINK_FD + 1)
            own = socket.socket(fileno=LINK_FD)
            if mount:
                self._jail.mount_scratch(run.folder, run.limits.scratch)
            listener = self._jail.confine(run.limits, run.folder, forks=self._tree)
            socket.send_fds(own, [b"hello"], [listener] if listener else [])
            if listener:
                os.close(listener)
            os.close(RULESET_FD)
            os.close(PROC_FD)
        except BaseException as error:
            os.write(LINK_FD, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        serve(own, lambda: self._jail.clone(new=False, parent=True), self._interpreter, once=not self._tree)

    def _branch(self, message: channel.Message, fds: list[int]) -> None:
        """A run in a copy of another one's process."""
        source = self._runs.get(message["source"])
        if source is None or source.working or not source.process:
            channel.close_all(fds)
            self._tell(message["id"], "gone")
            return
        ours, theirs = channel.pair()
        run = Run(message["id"], ours, f"{self._folder}/{message['id']}", RunLimits(**message["limits"]))
        run.source, run.order = source, (message, fds)
        ours.setsockopt(socket.SOL_SOCKET, kernel.SO_PASSCRED, 1)
        try:
            self._make_folder(run, source)
            os.kill(source.process, signal.SIGCONT)
            channel.send(source.link, {"do": "fork"}, [theirs.fileno()], socket.MSG_DONTWAIT)
        except (OSError, shutil.Error, RecursionError):
            self._add(run)
            self._finish(run, "gone")
        else:
            self._add(run)
            source.waiting.append(run)
            source.may_fork = True
        finally:
            theirs.close()

    def _continue(self, message: channel.Message, fds: list[int]) -> None:
        """More code in the same process, for replaying."""
        run = self._runs.get(message["id"])
        if run is None or run.working:
            channel.close_all(fds)
            self._tell(message["id"], "gone")
            return
        run.working = True
        os.kill(run.process, signal.SIGCONT)
        self._order(run, message, fds)

    def _order(self, run: Run, message: channel.Message, fds: list[int]) -> None:
        order = {"do": "run", "code": message["code"], "name": message["name"], "folder": run.folder}
        try:
            channel.send(run.link, order, fds, socket.MSG_DONTWAIT)
        except OSError:
            self._lost(run)
        finally:
            channel.close_all(fds)

    def _start_tree(self, tree: int, fd: int) -> None:
        process = self._jail.clone(new=True)
        if process:
            os.close(fd)
            self._keepers[tree] = process
            return
        os.dup2(fd, LINK_FD)
        kernel.close_from(LINK_FD + 1)
        link = socket.socket(fileno=LINK_FD)
        if self._jail.namespaces:
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            self._jail.mount_scratch(self._folder, 1 << 20, "0555")
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        keeper = Keeper(link, self._jail, self._interpreter, tree=True)
        if not self._jail.namespaces:
            keeper._folder = f"{self._folder}/tree{tree}"
            os.mkdir(keeper._folder)
        keeper.loop()
        os._exit(0)

    def _make_folder(self, run: Run, source: Run | None) -> None:
        """The scratch folder of a run, with a copy of what its source has."""
        os.mkdir(run.folder, 0o700)
        if self._jail.namespaces:
            self._jail.mount_scratch(run.folder, run.limits.scratch)
        if source is not None and os.listdir(source.folder):
            shutil.copytree(source.folder, run.folder, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)

    # ---- what runs say

    def _add(self, run: Run) -> None:
        self._runs[run.id] = run
        self._handlers[run.link.fileno()] = lambda: self._hear(run)
        self._poll.register(run.link, select.POLLIN)

    def _hear(self, run: Run) -> None:
        """A run has sent something, or has ended."""
        if not run.greeted:
            self._greet(run)
            return
        packet = channel.receive_untrusted(run.link)
        if packet is None:
            return
        if not packet or not run.working:
            self._lost(run)
            return
        run.working = False
        report = packet.decode(errors="replace")
        if self._tree:
            cpu, memory = self._freeze(run)
            self._tell(run.id, "report", report=report, cpu=cpu, memory=memory)
            if not run.process:
                self._finish(run, "gone")
        else:
            self._tell(run.id, "report", report=report)
            self._remove(run)

    def _greet(self, run: Run) -> None:
        """The first packet of a run: it is confined (its listener comes along), or it has been forked."""
        packet, extra, flags, _ = run.link.recvmsg(4096, _CREDENTIALS + socket.CMSG_SPACE(4), socket.MSG_DONTWAIT)
        handles = [int.from_bytes(data[:4], "little") for _, kind, data in extra if kind == socket.SCM_RIGHTS]
        if run.source is not None:
            channel.close_all(handles)
            self._greet_fork(run, [data for _, kind, data in extra if kind == kernel.SCM_CREDENTIALS])
        elif packet == b"hello":
            run.greeted = True
            if handles:
                self._handlers[handles[0]] = lambda: self._decide(handles[0])
                self._poll.register(handles[0], select.POLLIN)
        else:
            self._finish(run, "failed", reason=packet.decode(errors="replace") or "the process ended")

    def _greet_fork(self, run: Run, credentials: list[bytes]) -> None:
        source, process = run.source, int.from_bytes(credentials[0][:4], "little") if credentials else 0
        assert source is not None
        if not process or any(process == other.process for other in self._runs.values()) or not _is_child(process):
            self._lost(source)
            return
        run.greeted, run.process = True, process
        source.waiting.remove(run)
        source.may_fork = bool(source.waiting)
        if not source.waiting:
            os.kill(source.process, signal.SIGSTOP)
        order, run.order, run.source = run.order, None, None
        assert order is not None
        if run.unwanted:
            channel.close_all(order[1])
            self._remove(run)
            return
        self._jail.lower(process, run.limits)
        self._order(run, *order)

    def _decide(self, listener: int) -> None:
        """A process wants to fork: yes, once, if it was asked to."""
        waiting = kernel.notification(listener)
        if waiting is None:
            if select.select([listener], [], [], 0)[0]:  # nobody is left under this filter
                self._poll.unregister(listener)
                del self._handlers[listener]
                os.close(listener)
            return
        cookie, process = waiting
        asked = next((run for run in self._runs.values() if run.process == process and run.may_fork), None)
        if asked is None:
            kernel.answer(listener, cookie, errno.EPERM)
        elif kernel.answer(listener, cookie, None):
            asked.may_fork = False

    def _freeze(self, run: Run) -> tuple[float, int]:
        """Stop a process. Returns its processor time in seconds and an estimate of its own memory in bytes."""
        os.kill(run.process, signal.SIGSTOP)
        _, status, usage = os.wait4(run.process, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            run.process = 0
        run.cpu = usage.ru_utime + usage.ru_stime
        return run.cpu, usage.ru_minflt * resource.getpagesize()

    # ---- ending

    def _kill(self, number: int, *, hard: bool) -> None:
        """End a run or a tree. `hard`: end a source that has not managed to fork, too."""
        if number in self._keepers:
            self._end_process(self._keepers.pop(number))
            return
        run = self._runs.get(number)
        if run is None:
            return
        if run.source is None:
            self._finish(run, "ended", signal=None, cpu=0.0)
        elif hard:
            self._lost(run.source)
        else:
            run.unwanted = True

    def _lost(self, run: Run) -> None:
        """A run closed its link or sent what it should not: end it and tell how it died."""
        if not run.process:
            self._finish(run, "gone")
            return
        os.kill(run.process, signal.SIGKILL)
        _, status, usage = os.wait4(run.process, 0)
        self._cpu += usage.ru_utime + usage.ru_stime
        run.process = 0
        code = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        self._finish(run, "ended", signal=-code if code < 0 else None, cpu=cpu)

    def _finish(self, run: Run, event: str, **details: Any) -> None:
        self._tell(run.id, event, **details)
        self._remove(run)

    def _remove(self, run: Run) -> None:
        """End the process of a run and forget it, and those that wait for it to fork."""
        del self._runs[run.id]
        del self._handlers[run.link.fileno()]
        self._poll.unregister(run.link)
        run.link.close()
        if run.order is not None:
            channel.close_all(run.order[1])
        if run.process:
            self._end_process(run.process)
        if self._tree and self._jail.namespaces:
            kernel.unmount(run.folder)
            os.rmdir(run.folder)
        elif not self._jail.namespaces:
            shutil.rmtree(run.folder, ignore_errors=True)
        for other in run.waiting:
            other.source = None
            self._finish(other, "gone")

    def _end_process(self, process: int) -> None:
        os.kill(process, signal.SIGKILL)  # not waited for yet, so the number is still its own
        self._dying.add(process)

    def _reap(self, flags: int = os.WNOHANG) -> None:
        for process in list(self._dying):
            done, _, usage = os.wait4(process, flags)
            if done:
                self._dying.discard(process)
                self._cpu += usage.ru_utime + usage.ru_stime
                if not self._jail.namespaces:
                    self._sweep()

    def _sweep(self) -> None:
        """Without PID namespaces: end the processes that have lost their parent and fallen to this one."""
        with open("/proc/thread-self/children") as file:
            children = {int(number) for number in file.read().split()}
        known = {*self._keepers.values(), *self._dying, *(run.process for run in self._runs.values())}
        for process in children - known:
            self._end_process(process)

    def _cpu_so_far(self) -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return self._cpu + own.ru_utime + own.ru_stime + sum(run.cpu for run in self._runs.values())

    def _end_everything(self) -> None:
        for process in (*self._keepers.values(), *(run.process for run in self._runs.values() if run.process)):
            self._end_process(process)
        self._reap(0)
        if self._tree and not self._jail.namespaces:
            shutil.rmtree(self._folder, ignore_errors=True)


def _is_child(process: int) -> bool:
    try:
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _copy_file(source: str, target: str) -> None:
    """For plain files; pipes and the like are left out."""
    if os.path.isfile(source) and not os.path.islink(source):
        shutil.copy2(source, target)
