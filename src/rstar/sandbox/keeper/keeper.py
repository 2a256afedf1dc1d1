"""The trusted process above the runs: starts, freezes and kills them and forwards their reports.

A zygote is a keeper whose runs are programs, each in its own namespaces, and which starts further keepers. Each of
these holds one tree of states and is the first process of their PID namespace, so they die with it.

Programs, trees and first steps are forked not from a keeper but from its *template*, an otherwise idle warm process.
Pages written while children live must be copied, and a keeper writes. A keeper also knows the folders and the code of
its runs; its template was forked before it knew any.

Invariants:
    * every process below is a child of its keeper, whichever process forked it, so its pid stays valid until the keeper
      reaps it, and no other process can be hit;
    * a process of a tree forks only on its keeper's request, once per request;
    * a state at rest is stopped by the keeper and uses no CPU time, whatever threads the code left behind;
    * reports are forwarded unread. A run executes no model-written code before its "hello", so an earlier failure is
      the sandbox's and a later one the run's own.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from rstar.sandbox import channel
from rstar.sandbox.api import Limits
from rstar.sandbox.folders import copy_tree, fingerprint
from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.isolation import Jail
from rstar.sandbox.keeper.proc import SOCKET_BYTES, CrowdedError, Progress, used_of
from rstar.sandbox.keeper.processes import (
    HELLO,
    LISTENER,
    OWN_FDS,
    Children,
    PipeQuota,
    Run,
    Template,
    count_maps,
    cpu_of,
    hung_up,
    is_child,
    look_at,
    map_memory,
    own_memory,
    read_hello,
    readable,
)
from rstar.sandbox.keeper.scratch import Scratch

_REAP_MS = 20
_THREAD_BYTES = 24 << 10
"""Kernel memory per thread."""

_MAX_GROWN, _MAX_NEW_MAPS = 4 << 20, 1_000
"""Allowed growth of a state at rest through a fork: bytes (the kernel may merge pages) and memory maps."""


class Keeper:
    """The event loop between parent and runs.

    Args:
        link: to the parent; everything ends when the parent closes it.
        jail: the jail this process is in.
        folder: parent of the scratch folders.
        template: forks fresh processes.
        holds_tree: its runs are the states of one tree; else it is a zygote's keeper.
    """

    def __init__(
        self, link: socket.socket, jail: Jail, folder: str, template: Template, *, holds_tree: bool = False
    ) -> None:
        self._link, self._jail, self._folder = link, jail, folder
        self._template, self._holds_tree = template, holds_tree
        self._runs: dict[int, Run] = {}
        self._keepers: dict[int, int] = {}
        self._children = Children(jail.proc, adopts_orphans=not jail.namespaces, leads_groups=jail.starts_programs)
        self._scratch = Scratch(jail, folder, holds_tree=holds_tree)
        self._handlers: dict[int, Callable[[], None]] = {}
        self._closed: set[int] = set()
        """Descriptors closed since the last poll; their events must not reach a new owner of the number."""
        self._poll = select.poll()
        self._listen(link.fileno(), self._on_order)
        self._listen(template.link.fileno(), self._on_template_packet)
        _, self._rss = jail.proc.sizes("self")

    def loop(self) -> None:
        """Serve until the parent closes the link; then kill everything."""
        try:
            while True:
                self._closed.clear()
                for fd, _ in self._poll.poll(_REAP_MS if self._children.dying or self._scratch.removing else None):
                    handler = None if fd in self._closed else self._handlers.get(fd)
                    if handler is not None:
                        handler()
                self._children.reap()
                if self._children.strays and all(run.pid for run in self._runs.values()):  # no hello is pending
                    self._children.sweep(self._known_children())
                self._scratch.go_on(self._children.dying)
        except (EOFError, ConnectionError):
            return
        finally:
            for pid in self._known_children() - {0}:
                self._children.kill(pid)
            self._children.reap(0)

    def _on_order(self) -> None:
        received = channel.receive(self._link)
        if received is None:
            raise EOFError
        message, fds = received
        try:
            self._dispatch(message, fds)
        except ConnectionError:  # the parent or the template is gone: exit
            raise
        except OSError as error:  # the machine's fault, not the code's
            channel.close_all(fds)
            self._emit(message["id"], "failed", reason=f"{type(error).__name__}: {error}")

    def _dispatch(self, message: channel.Message, fds: list[int]) -> None:
        run = self._runs.get(message.get("run", -1))
        started = run if run and run.pid else None
        match message["do"]:
            case "run" if message["source"] is None:
                self._start_run(message, fds)
            case "run":
                self._fork_run(message, fds)
            case "continue":
                self._continue_run(message, fds)
            case "tree":
                self._start_tree(message, fds)
            case "kill":
                self._kill(message["id"], hard=message["hard"])
            case "nice":
                self._lower_priority(message["id"], message["nice"])
            case "progress":
                progress = self._progress(started) if started else Progress()
                started_at = (run.started_at or None) if run else None
                self._emit(message["id"], "progress", started_at=started_at, **asdict(progress))
            case "memory":
                self._emit(message["id"], "memory", memory=self._look(started, "memory", self._memory))
            case "unlinked":
                self._emit(message["id"], "unlinked", held=self._look(started, "unlinked", self._disk_use))
            case "ping":
                self._template.ping(message["id"])
            case "stats":
                self._emit(message["id"], "stats", cpu=self._cpu_seconds())

    def _emit(self, run: int, event: str, **details: Any) -> None:
        channel.send(self._link, {"id": run, "event": event, **details})

    # ---- starting

    def _start_run(self, message: channel.Message, fds: list[int]) -> None:
        limits = Limits(**message["limits"])
        if self._jail.namespaces and not self._holds_tree:
            folder = self._folder  # the run mounts a private one there
        else:
            folder = self._scratch.make(message["folder"], limits)
        self._send_order(self._spawn(message["id"], folder, limits, message["threads"]), message, fds)

    def _start_tree(self, message: channel.Message, fds: list[int]) -> None:
        """Start a further keeper, which has its own link to the parent."""
        folder = self._scratch.of_tree(message["id"])
        self._send_order(self._spawn(message["id"], folder, None), message, fds)

    def _spawn(self, number: int, folder: str, limits: Limits | None, threads: int = 0) -> Run:
        """Start a fresh process, which will send a hello."""
        ours, theirs = channel.pair()
        ours.setsockopt(socket.SOL_SOCKET, kernel.SO_PASSCRED, 1)
        self._template.fork(theirs)
        theirs.close()
        return self._register(Run(number, ours, folder, limits, threads))

    def _fork_run(self, message: channel.Message, fds: list[int]) -> None:
        """Start a run in a copy of another run's process."""
        source = self._runs.get(message["source"])
        if source is not None and not source.running and source.pid and self._scratch.is_changed(source):
            self._abort(source)
        if source is None or source.running or not source.pid:
            channel.close_all(fds)
            self._emit(message["id"], "gone")
            return
        limits = Limits(**message["limits"])
        folder = self._scratch.make(message["folder"], limits)
        ours, theirs = channel.pair()
        ours.setsockopt(socket.SOL_SOCKET, kernel.SO_PASSCRED, 1)
        with theirs:
            reason = "unforkable"
            try:
                if os.listdir(source.folder):
                    copy_tree(source.folder, folder)
                reason = "gone"
                if self._scratch.is_changed(source):
                    raise OSError(errno.ESTALE, "scratch folder changed while it was copied")
                self._jail.set_fork_limit(source.pid, raised=True)
                os.kill(source.pid, signal.SIGCONT)
                channel.send(source.link, {"do": "fork"}, [theirs.fileno()], socket.MSG_DONTWAIT)
            except OSError:  # files that cannot be copied, or a source that does not read its orders
                ours.close()
                channel.close_all(fds)
                self._scratch.remove(folder)
                self._emit(message["id"], reason)
                return
            inode = os.fstat(theirs.fileno()).st_ino
        threads = message["threads"]
        run = Run(message["id"], ours, folder, limits, threads, rss_before=source.rss, source=source, link_inode=inode)
        self._register(run)
        run.pending_order, run.started_at = (message, fds), time.monotonic()
        source.pending_forks.append(run)
        source.forks_requested += 1

    def _continue_run(self, message: channel.Message, fds: list[int]) -> None:
        """Run more code in the same process: for a replay, or from a state that cannot be copied."""
        run = self._runs.get(message["id"])
        if run is None or run.running or not run.pid:
            channel.close_all(fds)
            self._emit(message["id"], "gone")
            return
        run.running, run.started_at, run.threads = True, time.monotonic(), message["threads"]
        run.progress_before = self._jail.proc.progress(self._host_pid(run))
        self._jail.set_soft_limits(run.pid, Limits(**message["limits"]), cpu_of(run.pid))
        self._jail.set_fork_limit(run.pid, raised=False)
        if self._jail.namespaces:
            self._jail.seal_folder(run.folder, sealed=False)
        if run.nice:
            self._set_priority(run, 0)
        os.kill(run.pid, signal.SIGCONT)
        self._send_order(run, message, fds)

    def _send_order(self, run: Run, message: channel.Message, fds: list[int]) -> None:
        last = not self._holds_tree
        order = message | {"folder": run.folder, "writable": run.folder if last else self._folder, "last": last}
        try:
            channel.send(run.link, order, fds, socket.MSG_DONTWAIT)
        except OSError:
            self._abort(run)
        finally:
            channel.close_all(fds)

    # ---- messages from runs

    def _register(self, run: Run) -> Run:
        self._runs[run.id] = run
        self._listen(run.link.fileno(), lambda: self._on_packet(run))
        return run

    def _stop_listening(self, fd: int) -> None:
        self._closed.add(fd)
        del self._handlers[fd]
        self._poll.unregister(fd)

    def _listen(self, fd: int, handler: Callable[[], None]) -> None:
        self._handlers[fd] = handler
        self._poll.register(fd, select.POLLIN)

    def _on_packet(self, run: Run, *, died: bool = False) -> None:
        if not run.pid:
            self._on_hello(run)
            return
        packet = channel.receive_untrusted(run.link)
        if packet is None and not died:
            return
        if not packet or not run.running:
            self._abort(run)
            return
        run.running = False
        report = packet.decode(errors="replace")
        if not self._holds_tree:
            self._finish(run, "report", report=report)
        else:
            try:
                self._freeze(run, report)
            except OSError:  # only its main thread has ended: /proc has no data on such a process
                self._abort(run)
                return
            if not run.pid:
                self._finish(run, "gone")

    def _on_hello(self, run: Run) -> None:
        """Read a run's pid from its first packet, which in a tree's first run follows the listener."""
        packet, sender, handles = read_hello(run.link)
        pid = sender if packet == HELLO else 0
        run.started_at = time.monotonic()
        if packet == LISTENER and run.source is None:
            decide = self._decide_clone if self._holds_tree else self._pipe_decision(run)
            for listener in handles:
                self._listen(listener, partial(self._on_request, listener, decide))
            return
        channel.close_all(handles)
        if run.source is not None:
            try:
                self._on_fork_hello(run, pid)
            except OSError:  # it, or only its main thread, has ended
                self._abort(run.source or run)
        elif not pid:
            self._finish(run, "failed", reason=packet.decode(errors="replace") or "the process ended")
        elif run.limits is None:
            self._remove(run)
            if run.cancelled:
                self._kill_keeper(run.id, pid)
            else:
                self._keepers[run.id] = pid
        else:
            run.pid, run.rss_before, run.maps = pid, self._rss, self._jail.maps
            if run.cancelled:
                self._remove(run)

    def _on_fork_hello(self, run: Run, pid: int) -> None:
        """Verify a fork that the source claims to have made, and send its order."""
        source, order = run.source, run.pending_order
        assert source is not None
        assert order is not None
        assert run.limits is not None
        if not pid or any(pid == other.pid for other in self._runs.values()) or not is_child(pid):
            self._abort(source)
            return
        run.pid = pid
        # Not even standard streams yet: on any number could be a descriptor that its siblings have too.
        files = self._jail.proc.open_files(self._host_pid(run))
        if {name: file.st_ino for name, file in files.items()} != {str(kernel.LINK_FD): run.link_inode}:
            self._abort(source)
            return
        source.forks_unconfirmed -= 1
        run.maps, run.generation = source.maps, source.generation + 1
        run.unseen_cpu = source.unseen_cpu + cpu_of(source.pid) - source.cpu
        run.source, run.pending_order = None, None
        if source.nice:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, 0)
        source.pending_forks.remove(run)
        if not source.pending_forks:
            self._refreeze(source)
        run.pidfd = os.pidfd_open(pid)  # its stopped source may still hold the link open
        self._listen(run.pidfd, partial(self._on_packet, run, died=True))
        if run.cancelled:
            channel.close_all(order[1])
            self._remove(run)
            return
        self._jail.set_fork_limit(pid, raised=False)
        assert source.limits is not None
        if run.limits.kernel != source.limits.kernel:
            self._jail.set_soft_limits(pid, run.limits)
        self._send_order(run, *order)

    def _refreeze(self, source: Run) -> None:
        """Stop a state that was woken to fork, and kill it if it did anything else."""
        os.kill(source.pid, signal.SIGSTOP)
        host_pid = self._host_pid(source)
        _, rss = self._jail.proc.sizes(host_pid)
        most = source.maps + _MAX_NEW_MAPS
        try:
            count_maps(self._jail.proc, host_pid, source, cpu_of(source.pid))
        except CrowdedError:
            source.maps = most + 1
        if rss > source.rss + _MAX_GROWN or source.maps > most or self._jail.proc.threads(host_pid) > 1:
            self._abort(source)

    def _on_request(self, listener: int, decide: Callable[[int, int, int, int], None]) -> None:
        """Decide on the call that a process asks about; see `seccomp.build_gate`."""
        if hung_up(listener):  # no process is left under this filter
            self._stop_listening(listener)
            os.close(listener)
            return
        if not readable(listener, 0):  # the request was interrupted
            return
        waiting = kernel.notification(listener)
        if waiting is not None:  # else its caller is gone or was interrupted
            decide(listener, *waiting)

    def _decide_clone(self, listener: int, cookie: int, caller: int, flags: int) -> None:
        """Allow a fork once per request, and a new thread while the process runs code.

        A state woken to fork, and a fork before its hello, get no threads: their thread limit is raised
        (`Jail.set_fork_limit`).
        """
        run = next((run for run in self._runs.values() if run.pid == caller), None)
        if flags & kernel.CLONE_THREAD:
            allowed = (run.running if run is not None else not is_child(caller)) and self._has_thread_left()
            kernel.answer(listener, cookie, None if allowed else errno.EAGAIN)
        elif run is None or not run.forks_requested:
            kernel.answer(listener, cookie, errno.EPERM)
        elif kernel.answer(listener, cookie, None):
            run.forks_requested -= 1
            run.forks_unconfirmed += 1

    def _has_thread_left(self) -> bool:
        """Whether the runs at work have fewer threads than they may have together."""
        used = most = 0
        for run in self._runs.values():
            if run.running and run.pid:
                most += run.threads
                with suppress(OSError):  # it has ended
                    used += self._jail.proc.threads(self._host_pid(run))
        return used < most

    def _pipe_decision(self, run: Run) -> Callable[[int, int, int, int], None]:
        quota = PipeQuota(lambda: self._jail.proc.pipes(self._host_pid(run)))

        def decide(listener: int, cookie: int, *_: int) -> None:
            kernel.answer(listener, cookie, None if quota.allows(len(self._runs)) else errno.EMFILE)
            if quota.used_up and run.pid:
                self._abort(run)

        return decide

    def _freeze(self, run: Run, report: str) -> None:
        """Stop a process and forward its report with the figures of the state.

        `unforkable`: a copy would differ, because a fork loses the process's threads and shares its descriptors.
        """
        os.kill(run.pid, signal.SIGSTOP)
        _, status, usage = os.wait4(run.pid, os.WUNTRACED)
        cpu, memory, threads, unforkable = usage.ru_utime + usage.ru_stime, 0, 1, False
        if os.WIFSTOPPED(status):
            host_pid = self._host_pid(run)
            count_maps(self._jail.proc, host_pid, run, cpu)
            memory, run.rss = own_memory(
                self._jail.proc, host_pid, usage.ru_minflt, run.rss_before, self._jail.base,
                scattered=run.maps > self._jail.maps + _MAX_NEW_MAPS,
            )  # fmt: skip
            if not run.rss:
                raise ProcessLookupError
            threads = self._jail.proc.threads(host_pid)
            files = self._jail.proc.open_files(host_pid)
            unforkable = threads > 1 or not files.keys() <= OWN_FDS
            sockets = len({file.st_ino for file in files.values() if stat.S_ISSOCK(file.st_mode)}) - 1  # its link
            memory += (threads - 1) * _THREAD_BYTES + sockets * SOCKET_BYTES + map_memory(run)
            if self._jail.namespaces:
                memory += used_of(run.folder)
                unforkable |= not self._jail.seal_folder(run.folder, sealed=True)
            else:
                if self._jail.landlock and run.limits is not None and self._unlinked(run) > run.limits.scratch:
                    raise ProcessLookupError
                run.fingerprint = fingerprint(run.folder)
                unforkable |= run.fingerprint is None
        else:
            self._children.cpu += cpu
            run.pid = 0
        self._emit(run.id, "report", report=report, memory=memory, threads=threads, cpu=cpu, unforkable=unforkable)

    def _check_folders(self) -> None:
        """Remove what runs have written to the folders of states at rest and of ended runs.

        The states are rebuilt. So nobody has to find out which run it was, and no file stays that counts for no run.
        """
        if self._holds_tree:
            for run in [run for run in self._runs.values() if run.pid and not run.running]:
                if self._scratch.is_changed(run):
                    self._abort(run)
            self._scratch.remove_again()

    def _progress(self, run: Run) -> Progress:
        """Progress of a run since it began or was continued."""
        return self._jail.proc.progress(self._host_pid(run)) - run.progress_before

    def _look(self, run: Run | None, question: str, answer: Callable[[Run], int]) -> int:
        """What a look at a run finds; 0 if there is no such run. A run that is too much to look at is killed."""
        if run is not None:
            try:
                return look_at(run, question, answer, sum(other.running for other in self._runs.values()))
            except CrowdedError:
                self._abort(run)
        return 0

    def _memory(self, run: Run) -> int:
        host_pid = self._host_pid(run)
        used = self._jail.proc.memory(host_pid, run.rss_before)
        return used + (self._jail.proc.scratch_used(host_pid, run.folder) if self._jail.namespaces else 0)

    def _disk_use(self, run: Run) -> int:
        """Disk space that a run holds outside all folders; those that are not its own are put in order."""
        self._check_folders()
        return self._unlinked(run)

    def _unlinked(self, run: Run) -> int:
        return self._jail.proc.unlinked(self._host_pid(run), 0 if run.limits is None else run.limits.scratch)

    def _host_pid(self, run: Run) -> int:
        if not run.host_pid:
            run.host_pid = self._jail.proc.host_pid(run.pid)
        return run.host_pid

    def _on_template_packet(self) -> None:
        packet = self._template.link.recv(64)
        if not packet:
            raise EOFError
        self._emit(int(packet), "pong")

    # ---- ending

    def _lower_priority(self, number: int, nice: int) -> None:
        """Lower the priority of a long run; of a state that may be forked later, only if it can be restored."""
        run = self._runs.get(number)
        if run is not None and run.pid and (not self._holds_tree or self._jail.restores_priority):
            self._set_priority(run, nice)

    def _set_priority(self, run: Run, nice: int) -> None:
        run.nice = nice
        if self._jail.starts_programs:
            # As a group: processes that fork and end all the time would be missed. Stopped, because a child that is
            # being made has its parent's priority before it belongs to the group; a signal cancels the fork.
            with suppress(OSError):
                os.killpg(run.pid, signal.SIGSTOP)
                os.setpriority(os.PRIO_PGRP, run.pid, nice)
                os.killpg(run.pid, signal.SIGCONT)
            return
        for task in (run.pid, *(number for _, number in self._jail.proc.tasks(self._host_pid(run)))):
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, task, nice)

    def _kill(self, number: int, *, hard: bool) -> None:
        """Kill a run or a tree. `hard`: also kill a source that has not forked yet."""
        run = self._runs.get(number)
        if number in self._keepers:
            self._kill_keeper(number, self._keepers.pop(number))
        elif run is None:
            return
        elif run.pid:
            self._finish(run, "ended", signal=None, cpu=0.0)
        elif run.source is not None and hard:
            self._abort(run.source)
        else:
            run.cancelled = True
            self._emit(run.id, "ended", signal=None, cpu=0.0)

    def _kill_keeper(self, number: int, pid: int) -> None:
        self._children.kill(pid)
        self._scratch.remove_tree(number, pid)

    def _abort(self, run: Run) -> None:
        """Kill a run that closed its link or broke the protocol, and report how it died."""
        if not run.pid:
            self._finish(run, "gone")
            return
        pid, run.pid = run.pid, 0
        self._children.kill_and_report(pid, partial(self._report_death, run))
        self._remove(run, pid)

    def _report_death(self, run: Run, status: int, cpu: float) -> None:
        code = os.waitstatus_to_exitcode(status)
        if not run.cancelled:
            self._emit(run.id, "ended", signal=-code if code < 0 else None, code=code if code >= 0 else None, cpu=cpu)

    def _finish(self, run: Run, event: str, **details: Any) -> None:
        if not run.cancelled:
            self._emit(run.id, event, **details)
        self._remove(run)

    def _remove(self, run: Run, killed: int = 0) -> None:
        """Kill the process of a run, unless it is `killed`, and forget it and the runs waiting for its forks."""
        del self._runs[run.id]
        self._stop_listening(run.link.fileno())
        run.link.close()
        if run.pidfd is not None:
            self._stop_listening(run.pidfd)
            os.close(run.pidfd)
        if run.pending_order is not None:
            channel.close_all(run.pending_order[1])
        if run.pid:
            self._children.kill(run.pid)
        self._children.strays |= run.forks_unconfirmed > 0
        if run.limits is not None:
            self._scratch.remove(run.folder, run.pid or killed)
        for other in run.pending_forks:
            other.source = None
            self._finish(other, "gone")

    def _known_children(self) -> set[int]:
        return {self._template.pid, *self._keepers.values(), *(run.pid for run in self._runs.values())}

    def _cpu_seconds(self) -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        alive = [self._template.pid, *(run.pid for run in self._runs.values() if run.pid)]
        return self._children.cpu + own.ru_utime + own.ru_stime + sum(cpu_of(pid) for pid in alive)
