"""Isolation of model-written code: the jail that a zygote enters and the confinement of each run in it.

Covered, at level ``full``:
    * files: a mount namespace whose root holds only the interpreter's own files, read-only (no /proc, no accounts, no
      home); a private tmpfs of limited size as scratch folder; Landlock with the same rules as a second layer;
    * network: an empty network namespace; no call that creates a socket;
    * other processes: a PID namespace per program and per tree of states, which dies with its first process (the
      program, or the tree's trusted keeper); no call that signals, traces or accesses the memory of another process;
      no exec; no fork except the one the keeper requested (a seccomp listener decides, also when a state may start
      threads);
    * the kernel: an allow-list of system calls, no capabilities, no new privileges, an unprivileged uid in a separate
      user namespace;
    * resources: address space, CPU time, file size, descriptors, threads (rlimits); the parent limits wall time and
      output (`execution`);
    * secrets: the zygote starts with a fixed environment and inherits no descriptor.

Level ``no-namespaces`` has Landlock, seccomp and rlimits. The code can read the metadata of files, but not their
contents. The kernel caps scratch space per file, and only polling caps the total. A tree is killed process by process.
Level ``limits`` has rlimits only: it stops accidents, not intent. When root starts either level with an interpreter
that only root may read (in /root, say), runs keep the right to read every file: Landlock is then the only barrier, and
at ``limits`` there is none.

Not covered: kernel bugs; side channels (timing, caches, load); what the code prints. States of one tree share a
namespace: a state cannot name the folders of the others, which only the keeper knows, and folders of states at rest are
read-only. A tree's memory is limited per process; `states` keeps the total under its budget after the fact.
"""

from __future__ import annotations

import fcntl
import math
import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from rstar.sandbox.api import Limits
from rstar.sandbox.jail import kernel, seccomp
from rstar.sandbox.jail.paths import interpreter_paths
from rstar.sandbox.jail.root import DEVICES, SCRATCH, build_root, mount_memory
from rstar.sandbox.jail.syscalls import NUMBERS
from rstar.sandbox.keeper.proc import Proc

NOBODY = 65534
"""uid and gid of runs when root starts the sandbox."""

INNER = 1000
"""uid and gid inside the user namespace."""

_ROOT_NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
_PROGRAM_PATHS = ("/usr/bin", "/usr/include", "/usr/libexec", "/usr/local/include")
_EXECUTE = 1 << 0
_READ = 1 << 2 | 1 << 3
_WRITE = _READ | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 14
_DEVICE = 1 << 1 | 1 << 2
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # number of rights per Landlock version; 16 later on
_THREADS, _PROCESSES = 256, 32
_STATES_THREADS, _MAX_FORKS = 4 * _THREADS, 8 * _THREADS
"""Threads of a run; processes and threads of a run that may start programs, which could otherwise fill the machine;
threads allowed to all states of a tree together, and extra processes for forks: a state that takes all threads must
not block the forks of others."""

_DESCRIPTORS, _DESCRIPTORS_OF_PROCESSES = 128, 32
"""Descriptors of a run, and of each process of a run that may start programs. Each may be a socket with a buffer of
0.2 MB, which no memory limit counts."""

_NICE_0 = 20  # in units of RLIMIT_NICE


class MechanismRefusedError(Exception):
    """The kernel refused `mechanism`: namespaces, landlock, seccomp, identity or limits."""

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(f"{mechanism}: {reason}")
        self.mechanism, self.reason = mechanism, reason


@contextmanager
def mechanism(name: str) -> Iterator[None]:
    """Turn an `OSError` or `KeyError` into `MechanismRefusedError` for the mechanism `name`."""
    try:
        yield
    except (OSError, KeyError) as error:
        raise MechanismRefusedError(name, f"{type(error).__name__}: {error}") from error


class Jail:
    """The confinement that a zygote enters once and all its runs inherit.

    Args:
        mechanisms: any of namespaces, landlock and seccomp.
        folder: parent of scratch folders when there is no mount namespace; owned by this process's uid.
        programs: runs may start programs, the system's and their own.
    """

    def __init__(self, mechanisms: Iterable[str], folder: str, *, programs: bool = False) -> None:
        self.starts_programs = programs
        self.namespaces, self.landlock = "namespaces" in mechanisms, "landlock" in mechanisms
        self.seccomp = "seccomp" in mechanisms
        self.folder = SCRATCH if self.namespaces else folder
        self.proc = Proc(same_memory=kernel.same_memory)
        self._capabilities: tuple[int, ...] = ()
        self._ruleset = -1
        self._rules: list[tuple[str, int]] = []
        self._programs: dict[bool, kernel.Program] = {}
        self._tid = kernel.tid_address()
        self._tasks = 0
        self.base = self.maps = 0
        self._tree_folder = -1

    def enter(self) -> None:
        """Set up namespaces and root, identity, Landlock rules and filters. Raises `MechanismRefusedError`."""
        os.umask(0o022)  # runs of another uid must pass the folders of the root, whatever the caller's mask
        paths = interpreter_paths()
        if self.starts_programs:
            paths += [path for path in _PROGRAM_PATHS if os.path.exists(path)]
        with suppress(OSError, ValueError):  # root only; allows lowered priorities to be restored
            resource.setrlimit(resource.RLIMIT_NICE, (_NICE_0, _NICE_0))
        self.restores_priority = resource.getrlimit(resource.RLIMIT_NICE)[0] >= _NICE_0
        if self.landlock:
            with mechanism("landlock"):
                kernel.landlock_abi()
        if self.seccomp:
            with mechanism("seccomp"):
                if not NUMBERS:
                    raise OSError("this processor is not supported; x86_64 and aarch64 are")
                self._gate = seccomp.build_gate(programs=self.starts_programs)
                self._programs = {
                    forks: seccomp.build(forks=forks, namespaces=self.namespaces, programs=self.starts_programs)
                    for forks in (False, True)
                }
        if not self.namespaces:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        privileged = os.geteuid() == 0 and _is_mapped(NOBODY)  # else root in a container, an ordinary user outside
        if self.namespaces and privileged and kernel.has_capability(kernel.CAP_SYS_ADMIN):
            with mechanism("namespaces"):
                kernel.call("unshare", _ROOT_NAMESPACES)
                build_root(paths)
            self._drop_root(paths)
        else:
            if privileged:
                self._drop_root(paths)
            if self.namespaces:
                owner = os.getuid(), os.getgid()  # before they change
                with mechanism("namespaces"):
                    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
                    kernel.call("unshare", kernel.CLONE_NEWUSER | _ROOT_NAMESPACES)
                    self._map_ids(*owner)
                    build_root(paths)
        with mechanism("identity"):
            kernel.set_capabilities(self._capabilities)
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise /proc/self/uid_map belongs to root
        self._tasks = _tasks_of(os.getuid()) if not self.namespaces else 0
        if self.landlock:
            execute = _EXECUTE if self.starts_programs else 0
            self._rules = [(path, (_READ if os.path.isdir(path) else 1 << 2) | execute) for path in paths]
            self._rules += [(path, _DEVICE) for path in DEVICES]
            if self.namespaces:
                with mechanism("landlock"):
                    self._ruleset = self._make_ruleset(os.path.dirname(SCRATCH))

    def finish_warm_up(self, proc_fd: int, ruleset_fd: int) -> None:
        """Call when the interpreter is warm: memory limits count from here.

        Moves the /proc and ruleset descriptors, which `clone` and `confine` need, to the given numbers.
        """
        maps = self.proc.read("self/maps")
        self.maps = maps.count(b"\n")
        kernel.collapse_heap(maps.decode())
        self.base = int(self.proc.read("self/statm").split()[0]) * resource.getpagesize()
        handles = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (self.proc.handle, max(self._ruleset, 0))]
        for handle, target in zip(handles, (proc_fd, ruleset_fd), strict=True):
            os.dup2(handle, target)
            os.close(handle)
        self.proc, self._ruleset = Proc(proc_fd, kernel.same_memory), ruleset_fd

    def clone(self, *, new: bool, parent: bool = False) -> int:
        """Fork; 0 in the child. `new`: into new namespaces; `parent`: as a child of this process's parent."""
        flags = kernel.CLONE_PARENT if parent else 0
        if not (new and self.namespaces):
            pid = kernel.clone(flags, self._tid)
            if pid == 0 and not self.namespaces:
                kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
                if not self.seccomp:
                    os.setsid()  # otherwise a signal to its own group would reach its keeper
            return pid
        owner = os.getuid(), os.getgid()
        spaces = kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC
        pid = kernel.clone(spaces | flags, self._tid)
        if pid == 0:
            self._map_ids(*owner)
        return pid

    def mount_scratch(self, folder: str, size: int) -> None:
        """Mount an empty file system of `size` bytes at `folder`."""
        mount_memory(folder, f"size={size},nr_inodes={max(64, size >> 14)},mode=0700")

    def mount_tree_folder(self) -> None:
        """Mount the parent folder of a tree's scratch folders.

        At its path it is read-only, because runs have the keeper's uid and could change its permissions. The keeper
        writes through a second mount without a path. The folder cannot be listed, so a state knows only its own folder
        and those of its ancestors.
        """
        mount_memory(self.folder, "size=1m,nr_inodes=65536,mode=0111")
        self._tree_folder = kernel.private_mount(self.folder)
        kernel.make_readonly(self.folder)

    def add_folder(self, name: str, size: int) -> str:
        """Create an empty scratch folder of `size` bytes for a state of the tree. Returns its path."""
        os.mkdir(name, 0o700, dir_fd=self._tree_folder)
        folder = f"{self.folder}/{name}"
        self.mount_scratch(folder, size)
        return folder

    def seal_folder(self, folder: str, *, sealed: bool) -> bool:
        """Make a scratch folder read-only, for a state at rest, or writable again.

        Returns False, and leaves it writable, if a file in it is open for writing.
        """
        try:
            kernel.set_readonly(folder, on=sealed)
        except OSError:
            return False
        return True

    def remove_folder(self, folder: str) -> None:
        """Unmount and remove a scratch folder."""
        kernel.unmount(folder)
        os.rmdir(os.path.basename(folder), dir_fd=self._tree_folder)

    def confine(
        self,
        limits: Limits,
        scratch: str,
        writable: str,
        on_listener: Callable[[int], object] | None,
        *,
        forks: bool,
        threads: int = _THREADS,
    ) -> None:
        """Confine this process irrevocably, before the first line of model-written code.

        Args:
            limits: become hard limits.
            scratch: its scratch folder, which becomes the working directory.
            writable: where it and its forks may write: `scratch`, or the parent of a tree's scratch folders.
            on_listener: sends the descriptor of the listener (see `seccomp.build_gate`) to the keeper while this
                process still can. None: no listener.
            forks: it is a state that may be forked.
            threads: the most threads it may have, or processes and threads together; of a state, its keeper decides.

        Raises:
            MechanismRefusedError: a mechanism failed; the process is unusable.
        """
        if self.starts_programs and os.getpgrp() != os.getpid():
            os.setpgid(0, 0)  # its priority is lowered as a group
        if self.starts_programs and not self.namespaces:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # programs whose parents have ended stay below this process
        with mechanism("limits"):
            os.chdir(scratch)
            os.umask(0o077)
            for kind, value in self._rlimits(limits, forks, threads):
                resource.setrlimit(kind, value)
        with mechanism("identity"):
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            kernel.prctl(kernel.PR_SET_THP_DISABLE, 1)  # what is left of a huge page is counted nowhere
        if self.landlock:
            with mechanism("landlock"):
                ruleset = self._ruleset if self.namespaces else self._make_ruleset(writable)
                kernel.call("landlock_restrict_self", ruleset)
                if not self.namespaces:
                    os.close(ruleset)
        with mechanism("identity"):
            kernel.set_capabilities(self._capabilities)
        if self.seccomp:
            with mechanism("seccomp"):
                if on_listener is not None:
                    listener = kernel.seccomp(self._gate, listen=True)
                    on_listener(listener)
                    os.close(listener)
        with mechanism("limits"):  # not earlier: with a low limit no descriptor can be sent while many are in flight
            most = _DESCRIPTORS_OF_PROCESSES if self.starts_programs else _DESCRIPTORS
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if self.seccomp:
            with mechanism("seccomp"):
                kernel.seccomp(self._programs[forks], listen=False)

    def set_soft_limits(self, pid: int, limits: Limits, used: float = 0.0) -> None:
        """Set the soft limits of another process, capped by its hard limits; `used` is its CPU time so far, in s."""
        memory, cpu = limits.kernel
        _set_soft(pid, resource.RLIMIT_AS, self.base + memory)
        _set_soft(pid, resource.RLIMIT_CPU, math.ceil(used) + cpu)

    def set_fork_limit(self, pid: int, *, raised: bool) -> None:
        """Raise a state's process limit so that it can be forked whatever threads others have, or restore the limit."""
        _set_soft(pid, resource.RLIMIT_NPROC, self._tasks + _STATES_THREADS + (_MAX_FORKS if raised else 0))

    def _rlimits(self, limits: Limits, forks: bool, threads: int) -> list[tuple[int, tuple[int, int]]]:
        space, cpu = self.base + limits.memory, limits.whole_cpu_seconds
        most, others = _PROCESSES if self.starts_programs else _THREADS, self._tasks
        if self.namespaces:  # otherwise the threads of other runs count, too
            most = min(most, threads)
        elif self.starts_programs:  # `most` is small, and other services have started threads since
            others = _tasks_of(os.getuid())
        tasks = others + (_STATES_THREADS if forks else most)
        most = tasks + (_MAX_FORKS if forks else 0)
        return [
            (resource.RLIMIT_AS, (space, space)),
            (resource.RLIMIT_CPU, (cpu, cpu + 1)),  # SIGXCPU, then SIGKILL
            (resource.RLIMIT_FSIZE, (limits.scratch, limits.scratch)),
            (resource.RLIMIT_NPROC, (tasks, most)),
            (resource.RLIMIT_CORE, (0, 0)),
            (resource.RLIMIT_MEMLOCK, (0, 0)),
            (resource.RLIMIT_MSGQUEUE, (0, 0)),
        ]

    def _make_ruleset(self, writable: str) -> int:
        abi = kernel.landlock_abi()
        files = (1 << _FILE_RIGHTS.get(abi, 16)) - 1
        write = _WRITE | (_EXECUTE if self.starts_programs else 0)
        rules = [(path, rights & files) for path, rights in [*self._rules, (writable, write)]]
        return kernel.landlock_ruleset((files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0), rules)

    def _drop_root(self, paths: list[str]) -> None:
        """Switch from root to nobody. Keep the right to read every file only if the interpreter needs it."""
        with mechanism("identity"):
            if not self.namespaces:
                os.chown(self.folder, NOBODY, NOBODY)
            kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            if not all(os.access(path, os.R_OK) for path in paths):
                self._capabilities = (kernel.CAP_DAC_READ_SEARCH,)

    def _map_ids(self, uid: int, gid: int) -> None:
        maps = {"setgroups": "deny", "uid_map": f"{INNER} {uid} 1", "gid_map": f"{INNER} {gid} 1"}
        for name, text in maps.items():
            handle = os.open(f"self/{name}", os.O_WRONLY, dir_fd=self.proc.handle)
            os.write(handle, text.encode())
            os.close(handle)


def _set_soft(pid: int, kind: int, value: int) -> None:
    _, hard = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _is_mapped(uid: int) -> bool:
    with open("/proc/self/uid_map") as lines:
        ranges = [[int(word) for word in line.split()] for line in lines]
    return any(first <= uid < first + count for first, _, count in ranges)


def _tasks_of(uid: int) -> int:
    """Number of threads of the user, which RLIMIT_NPROC counts where there is no user namespace."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count
