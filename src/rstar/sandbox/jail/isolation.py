"""What keeps model-written code in: the jail that a zygote enters, and how one run is confined in it.

Covered, at level ``full``:
    * files: a mount namespace whose root holds the interpreter's own files, read-only, and nothing else (no /proc, no
      accounts, no home); a private tmpfs of limited size as scratch folder; Landlock on top, which says the same again;
    * network: an empty network namespace, and no call that makes a socket;
    * other processes: a PID namespace for each program and each tree of states, all of which dies with its first
      process (the program, or the tree's trusted keeper); no call that sends a signal, traces, or touches another
      process's memory; no exec; no fork, except the one that the keeper has asked for (a seccomp listener decides that,
      and when a state may start threads);
    * the kernel: an allow-list of system calls, no capabilities, no new privileges, an unprivileged uid of a user
      namespace of its own;
    * resources: address space, processor time, file size, descriptors, threads (rlimits); wall time and output are the
      parent's business (`execution`);
    * secrets: the zygote starts with a fixed environment and inherits no descriptor.

Level ``no-namespaces`` has Landlock, seccomp and rlimits: the code can learn whether a path exists (not what is in
it), scratch space is capped per file by the kernel and in total only by a watch, and a tree is killed process by
process. Level ``limits`` has rlimits only: it stops accidents, not intent. Started by root with an interpreter that
nobody else may read (in /root, say), runs of these two levels keep the right to read every file; Landlock then is all
that holds them back, and at ``limits`` nothing does.

Not covered: flaws of the kernel itself; side channels (timing, caches, load); what the code prints. States of one
tree share a namespace: each has a folder that the others cannot name, and those of states at rest are read-only. The
memory of a tree is limited per process, not in total: `states` keeps the total under its budget after the fact.
"""

from __future__ import annotations

import fcntl
import math
import os
import resource
import select
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from rstar.sandbox import channel
from rstar.sandbox.api import Limits
from rstar.sandbox.jail import filters, kernel
from rstar.sandbox.jail.paths import interpreter_paths
from rstar.sandbox.jail.syscalls import NUMBERS
from rstar.sandbox.keeper.proc import Proc

NOBODY = 65534
"""The uid and gid that runs have when the sandbox is started by root."""

INNER = 1000
"""The uid and gid that code sees in its user namespace."""

SCRATCH = "/scratch/run"
"""Where scratch folders are mounted in a jail with a mount namespace. The Landlock rule is for the folder above: a
folder that a mount hides does not count."""

_PROGRAM_PATHS = ("/usr/bin", "/usr/include", "/usr/libexec", "/usr/local/include")
_EXECUTE = 1 << 0
_READ = 1 << 2 | 1 << 3
_WRITE = _READ | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 14
_DEVICE = 1 << 1 | 1 << 2
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # how many each version of Landlock knows; 16 later on
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_THREADS = 256
_STATES_THREADS, _MOST_FORKS = 4 * _THREADS, 8 * _THREADS
"""Threads that all states of a tree may have together, and further processes that may be forked from them then: a state
that takes all threads must not keep others from being forked."""

_DESCRIPTORS = 128  # each may be a socket with a buffer of 0.2 MB, which no limit of memory counts
_NICE_0 = 20  # in units of RLIMIT_NICE


class MechanismRefusedError(Exception):
    """The kernel refused a mechanism: `mechanism` is namespaces, landlock, seccomp, identity or limits."""

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(f"{mechanism}: {reason}")
        self.mechanism, self.reason = mechanism, reason


@contextmanager
def mechanism(name: str) -> Iterator[None]:
    """Turn an `OSError` into `MechanismRefusedError` by the mechanism `name`."""
    try:
        yield
    except (OSError, KeyError) as error:
        raise MechanismRefusedError(name, f"{type(error).__name__}: {error}") from error


class Jail:
    """The surroundings that a zygote enters once and all of its runs inherit.

    Args:
        mechanisms: which to use, of namespaces, landlock and seccomp.
        folder: where scratch folders are made without a mount namespace; owned by this process's uid.
        programs: runs may start programs: those of the system, and what they have written themselves.
    """

    def __init__(self, mechanisms: Iterable[str], folder: str, *, programs: bool = False) -> None:
        self._starts_programs = programs
        self.namespaces, self.landlock, self.seccomp = (
            name in mechanisms for name in ("namespaces", "landlock", "seccomp")
        )
        self.folder = SCRATCH if self.namespaces else folder
        self.proc = Proc()
        self._capabilities: tuple[int, ...] = ()
        self._ruleset = -1
        self._rules: list[tuple[str, int]] = []
        self._programs: dict[bool, kernel.Program] = {}
        self._tid = kernel.tid_address()
        self._tasks = 0
        self.base = 0
        self._room = -1

    def enter(self) -> None:
        """Go in: namespaces and root, identity, Landlock rules, filters. Raises `MechanismRefusedError`."""
        paths = interpreter_paths()
        if self._starts_programs:
            paths += [path for path in _PROGRAM_PATHS if os.path.exists(path)]
        with suppress(OSError, ValueError):  # only root may, and then priorities that were lowered can be restored
            resource.setrlimit(resource.RLIMIT_NICE, (_NICE_0, _NICE_0))
        self.restores_priority = resource.getrlimit(resource.RLIMIT_NICE)[0] >= _NICE_0
        if self.landlock:
            with mechanism("landlock"):
                kernel.landlock_abi()
        if self.seccomp:
            with mechanism("seccomp"):
                if not NUMBERS:
                    raise OSError("this processor is not supported: x86_64 and aarch64 are")
                self._gate = filters.build_gate()
                self._programs = {
                    forks: filters.build(forks=forks, namespaces=self.namespaces, programs=self._starts_programs)
                    for forks in (False, True)
                }
        if not self.namespaces:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        privileged = os.geteuid() == 0 and _is_mapped(NOBODY)  # else root of a container, an ordinary user outside
        if self.namespaces and privileged and kernel.has_capability(kernel.CAP_SYS_ADMIN):
            with mechanism("namespaces"):
                kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS)
                build_root(paths)
            self._drop_root(paths)
        else:
            if privileged:
                self._drop_root(paths)
            if self.namespaces:
                self._enter_as_user(paths)
        with mechanism("identity"):
            kernel.set_capabilities(self._capabilities)
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # or /proc/self/uid_map belongs to root
        self._tasks = _tasks_of(os.getuid()) if not self.namespaces else 0
        if self.landlock:
            execute = _EXECUTE if self._starts_programs else 0
            self._rules = [(path, (_READ if os.path.isdir(path) else 1 << 2) | execute) for path in paths]
            self._rules += [(path, _DEVICE) for path in _DEVICES]
            if self.namespaces:
                with mechanism("landlock"):
                    self._ruleset = self._make_ruleset(os.path.dirname(SCRATCH))

    def settle(self, proc_fd: int, ruleset_fd: int) -> None:
        """Call when the interpreter is warm: memory limits count from here.

        What `clone` and `confine` need of this process moves to the two descriptors given.
        """
        kernel.collapse_heap(self.proc.read("self/maps").decode())
        self.base = int(self.proc.read("self/statm").split()[0]) * resource.getpagesize()
        handles = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (self.proc.handle, max(self._ruleset, 0))]
        for handle, target in zip(handles, (proc_fd, ruleset_fd), strict=True):
            os.dup2(handle, target)
            os.close(handle)
        self.proc, self._ruleset = Proc(proc_fd), ruleset_fd

    def clone(self, *, new: bool, parent: bool = False) -> int:
        """Fork. `new`: into namespaces of its own; `parent`: as a child of this process's parent. 0 in the child."""
        flags = kernel.CLONE_PARENT if parent else 0
        if not (new and self.namespaces):
            process = kernel.clone(flags, self._tid)
            if process == 0 and not self.namespaces:
                kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
                if not self.seccomp:
                    os.setsid()  # or a signal to its own group would reach its keeper
            return process
        owner = os.getuid(), os.getgid()
        spaces = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC
        process = kernel.clone(spaces | flags, self._tid)
        if process == 0:
            self._map_ids("self", *owner, INNER)
        return process

    def mount_scratch(self, folder: str, size: int) -> None:
        """Put an empty file system of `size` bytes at `folder`."""
        _mount_memory(folder, f"size={size},nr_inodes={max(64, size >> 14)},mode=0700")

    def mount_room(self) -> None:
        """Make room for the scratch folders of a tree.

        Where others find it, it is read-only: runs have the keeper's uid, and could change its permissions else. The
        keeper writes to it through a mount without a path. Nobody can list what is in it, so a state knows only its own
        folder and those of the states before it.
        """
        _mount_memory(self.folder, "size=1m,nr_inodes=65536,mode=0111")
        self._room = kernel.private_mount(self.folder)
        kernel.make_readonly(self.folder)

    def add_folder(self, name: str, size: int) -> str:
        """Make an empty scratch folder of `size` bytes in the room of a tree. Returns its path."""
        os.mkdir(name, 0o700, dir_fd=self._room)
        folder = f"{self.folder}/{name}"
        self.mount_scratch(folder, size)
        return folder

    def seal_folder(self, folder: str, *, sealed: bool) -> bool:
        """Make a scratch folder in the room read-only, or writable again: what is at rest must stay as it is.

        False where a file in it is open for writing: it stays writable then.
        """
        try:
            kernel.set_readonly(folder, on=sealed)
        except OSError:
            return False
        return True

    def remove_folder(self, folder: str) -> None:
        """Remove a scratch folder from the room."""
        kernel.unmount(folder)
        os.rmdir(os.path.basename(folder), dir_fd=self._room)

    def rehearse(self, check: Callable[[], None] = lambda: None) -> None:
        """Confine a process in each way once, so that what does not work shows now. Raises `MechanismRefusedError`.

        `check` runs in the confined process and raises where the confinement does not hold.
        """
        for forks in (False, True):
            ours, theirs = channel.pair()
            with mechanism("namespaces"):
                process = self.clone(new=True)
            if process == 0:
                self._rehearse_in_child(theirs, forks, check)
            theirs.close()
            with ours:
                said = _hear_rehearsal(ours)
            with suppress(ChildProcessError):
                while True:  # and the fork that it may have made
                    os.wait()
            if said != "confined":
                raise MechanismRefusedError(*(said or "limits\nthe process that tried them died").split("\n", 1))

    def _rehearse_in_child(self, link: socket.socket, forks: bool, check: Callable[[], None]) -> NoReturn:
        try:
            if self.namespaces:
                with mechanism("namespaces"):
                    self.mount_scratch(self.folder, 1 << 20)
            listens = forks and self.seccomp
            hand_over = (lambda listener: socket.send_fds(link, [b"listener"], [listener])) if listens else None
            limits = Limits(cpu_seconds=10, memory_mb=64, scratch_mb=1)
            self.confine(limits, self.folder, self.folder, hand_over)
            # The first process of a namespace cannot make a sibling.
            if listens and not self.namespaces and self.clone(new=False, parent=True) == 0:
                os._exit(0)
            check()
            link.send(b"confined")
        except MechanismRefusedError as refused:
            link.send(f"{refused.mechanism}\n{refused.reason}".encode())
        except BaseException as error:
            link.send(f"limits\n{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)

    def confine(self, limits: Limits, scratch: str, room: str, hand_over: Callable[[int], object] | None) -> None:
        """Bind this process, for good, in front of the first line of model-written code.

        Args:
            limits: become hard limits.
            scratch: its folder, which becomes the working directory.
            room: the folder that it and its forks may write to; `scratch`, or where the scratch folders of a tree are.
            hand_over: for a state, which may be forked: gives the descriptor of the listener that decides about forks
                to the keeper, while this process still can. None: there are no forks.

        Raises:
            MechanismRefusedError: something did not work; the process is of no use.
        """
        forks = hand_over is not None
        with mechanism("limits"):
            os.chdir(scratch)
            os.umask(0o077)
            for kind, value in self._rlimits(limits, forks):
                resource.setrlimit(kind, value)
        with mechanism("identity"):
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if self.landlock:
            with mechanism("landlock"):
                ruleset = self._ruleset if self.namespaces else self._make_ruleset(room)
                kernel.landlock_restrict(ruleset)
                if not self.namespaces:
                    os.close(ruleset)
        with mechanism("identity"):
            kernel.set_capabilities(self._capabilities)
        if self.seccomp:
            with mechanism("seccomp"):
                if hand_over is not None:
                    listener = kernel.seccomp(self._gate, listen=True)
                    hand_over(listener)
                    os.close(listener)
        with mechanism("limits"):  # not before: who may have few descriptors may send none while many are under way
            resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
        if self.seccomp:
            with mechanism("seccomp"):
                kernel.seccomp(self._programs[forks], listen=False)

    def lower(self, process: int, limits: Limits, used: float = 0.0) -> None:
        """Set the soft limits of another process, at most as high as its hard ones.

        `used` is the processor time that it has used already, in seconds.
        """
        memory, cpu = limits.kernel
        _set_soft(process, resource.RLIMIT_AS, self.base + memory)
        _set_soft(process, resource.RLIMIT_CPU, math.ceil(used) + cpu)

    def may_fork(self, process: int, *, yes: bool) -> None:
        """Let a state be forked whatever threads others have; or hold it to the threads that all may have."""
        _set_soft(process, resource.RLIMIT_NPROC, self._tasks + _STATES_THREADS + (_MOST_FORKS if yes else 0))

    def _rlimits(self, limits: Limits, forks: bool) -> list[tuple[int, tuple[int, int]]]:
        space, tasks = self.base + limits.memory, self._tasks + (_STATES_THREADS if forks else _THREADS)
        most, cpu = tasks + (_MOST_FORKS if forks else 0), limits.whole_cpu_seconds
        return [
            (resource.RLIMIT_AS, (space, space)),
            (resource.RLIMIT_CPU, (cpu, cpu + 1)),  # SIGXCPU, then SIGKILL
            (resource.RLIMIT_FSIZE, (limits.scratch, limits.scratch)),
            (resource.RLIMIT_NPROC, (tasks, most)),
            (resource.RLIMIT_CORE, (0, 0)),
            (resource.RLIMIT_MEMLOCK, (0, 0)),
            (resource.RLIMIT_MSGQUEUE, (0, 0)),
        ]

    def _make_ruleset(self, room: str) -> int:
        abi = kernel.landlock_abi()
        files = (1 << _FILE_RIGHTS.get(abi, 16)) - 1
        writable = _WRITE | (_EXECUTE if self._starts_programs else 0)
        rules = [(path, rights & files) for path, rights in [*self._rules, (room, writable)]]
        return kernel.landlock_ruleset((files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0), rules)

    def _drop_root(self, paths: list[str]) -> None:
        """From root to nobody. The right to read every file is kept only where the interpreter would break without."""
        with mechanism("identity"):
            if not self.namespaces:
                os.chown(self.folder, NOBODY, NOBODY)
            kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            if not all(os.access(path, os.R_OK) for path in paths):
                self._capabilities = (kernel.CAP_DAC_READ_SEARCH,)

    def _enter_as_user(self, paths: list[str]) -> None:
        owner = os.getuid(), os.getgid()
        with mechanism("namespaces"):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
            kernel.unshare(
                kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
                | kernel.CLONE_NEWUTS
            )  # fmt: skip
            self._map_ids("self", *owner, INNER)
            build_root(paths)

    def _map_ids(self, process: str, uid: int, gid: int, inner: int) -> None:
        for name, text in (
            ("setgroups", "deny"), ("uid_map", f"{inner} {uid} 1"), ("gid_map", f"{inner} {gid} 1")
        ):  # fmt: skip
            handle = os.open(f"{process}/{name}", os.O_WRONLY, dir_fd=self.proc.handle)
            os.write(handle, text.encode())
            os.close(handle)


def _hear_rehearsal(link: socket.socket) -> str:
    """What a confined process says; its one fork is allowed."""
    packet, handles, _, _ = socket.recv_fds(link, 4096, 1)
    if not handles:
        return packet.decode(errors="replace")
    try:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        poll.register(handles[0], select.POLLIN)
        ready = [fd for fd, _ in poll.poll(5_000)]
        if not ready:
            return "seccomp\nno notification of a fork"
        if link.fileno() not in ready:
            waiting = kernel.notification(handles[0])
            if waiting is None or not kernel.answer(handles[0], waiting[0], None):
                return "seccomp\nthe notification of a fork could not be answered"
        return link.recv(4096).decode(errors="replace")
    finally:
        os.close(handles[0])


def _set_soft(process: int, kind: int, value: int) -> None:
    _, hard = resource.prlimit(process, kind)
    resource.prlimit(process, kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _mount_memory(folder: str, options: str) -> None:
    kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)


def build_root(paths: list[str]) -> None:
    """Make a root of `paths`, devices and a mount point for scratch, all read-only, and move into it.

    Needs a mount namespace of its own.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    sources = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in (*paths, *_DEVICES)]
    place = next(path for path in ("/tmp", "/mnt", "/dev") if os.path.isdir(path))
    kernel.mount("tmpfs", place, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=1m,mode=0755")
    os.makedirs(place + SCRATCH)
    for path, handle in sources:
        _graft(path, handle, place)
        os.close(handle)
    os.chmod(place, 0o755)
    kernel.make_readonly(place)
    kernel.pivot_root(place)


def _graft(path: str, handle: int, root: str) -> None:
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(f"/proc/self/fd/{handle}"):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    kernel.mount(f"/proc/self/fd/{handle}", target, None, kernel.MS_BIND | kernel.MS_REC)


def _is_mapped(uid: int) -> bool:
    """Whether this user namespace has the uid."""
    with open("/proc/self/uid_map") as lines:
        ranges = [[int(word) for word in line.split()] for line in lines]
    return any(first <= uid < first + count for first, _, count in ranges)


def _tasks_of(uid: int) -> int:
    """How many threads the user runs by now; RLIMIT_NPROC counts them where there is no user namespace."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count
