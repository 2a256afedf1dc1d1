"""ctypes bindings for Linux calls that the standard library lacks: clone, mounts, capabilities, seccomp, Landlock.

Each function wraps one kernel interface, raises `OSError` when the kernel refuses, and makes no decisions; `isolation`
holds the policy. Supported architectures: x86_64 and aarch64.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
from collections.abc import Iterable, Sequence

from rstar.sandbox.jail.syscalls import NUMBERS

libc = ctypes.CDLL(None, use_errno=True)
_syscall = ctypes.PyDLL(None, use_errno=True).syscall  # keeps the GIL: after a fork no thread could return it
_syscall.restype = ctypes.c_long
_syscall.argtypes = [ctypes.c_long] * 7
libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

SIGCHLD = 17
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUTS = 0x00020000, 0x08000000, 0x04000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_THREAD = 0x8000, 0x200000, 0x1000000, 0x10000
CLONE_FILES = 0x400
FORK_FLAGS = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_NAME = 1, 4, 8, 15
PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_GET_TID_ADDRESS, PR_SET_THP_DISABLE = 38, 36, 40, 41
CAP_DAC_READ_SEARCH, CAP_SYS_ADMIN = 2, 21
SCM_CREDENTIALS, SO_PASSCRED = 2, 16
"""Constants of `socket` that some Python builds lack."""

RULESET_FD, PROC_FD, LINK_FD = 3, 4, 5
"""Descriptors that a zygote's children inherit; all higher ones are closed in them."""

_MADV_COLLAPSE, _KCMP_VM = 25, 1
_HUGE = 1 << 21
_SECCOMP_SET_MODE_FILTER, _FLAG_SPEC_ALLOW, _FLAG_NEW_LISTENER = 1, 4, 8
_NOTIF_RECV, _NOTIF_SEND, _NOTIF_CONTINUE = 0xC0502100, 0xC0182101, 1
_LANDLOCK_PATH_BENEATH = 1
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID = 1, 2
_AT_CWD, _OPEN_TREE_CLONE = -100, 1


def call(name: str, *arguments: int) -> int:
    """Make the raw system call `name`; missing arguments are 0."""
    return _checked(_syscall(NUMBERS[name], *(*arguments, 0, 0, 0, 0, 0, 0)[:6]), name)


def _checked(result: int, name: str) -> int:
    """The result of a call. Raises `OSError` if it is negative."""
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)
    return result


def prctl(option: int, *arguments: int) -> int:
    """``prctl(2)``; missing arguments are 0."""
    return _checked(libc.prctl(option, *(*arguments, 0, 0, 0, 0)[:4]), f"prctl {option}")


def same_memory(pid: int, other: int) -> bool:
    """Whether two processes share one address space. Raises `OSError` if the kernel does not say."""
    return call("kcmp", pid, other, _KCMP_VM) == 0


def tid_address() -> int:
    """Address of glibc's main-thread id, which `clone` sets; 0 if the kernel does not report it."""
    place = ctypes.c_ulong(0)
    try:
        prctl(PR_GET_TID_ADDRESS, ctypes.addressof(place))
    except OSError:
        return 0
    return place.value


def clone(flags: int, tid: int) -> int:
    """Fork with the raw call: Python's and glibc's at-fork handlers do not run, so `random` keeps its state.

    Only for a process without other threads. Returns 0 in the child.
    """
    padding = (0, 0, 0) if platform.machine() == "aarch64" else (0, 0)
    return call("clone", flags | FORK_FLAGS, *padding, tid)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """``mount(2)``."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _checked(libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), f"mount {target}")


def unmount(target: str) -> None:
    """Detach the mount at `target`, lazily."""
    _checked(libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def make_readonly(target: str) -> None:
    """Make the mount at `target` and those below it read-only and nosuid; other flags are unchanged."""
    _set_attributes(target, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0)


def set_readonly(target: str, *, on: bool) -> None:
    """Make the mount at `target` read-only or writable. Raises `OSError` while a file in it is open for writing."""
    _set_attributes(target, 0, _MOUNT_ATTR_RDONLY * on, _MOUNT_ATTR_RDONLY * (not on))


def _set_attributes(target: str, flags: int, add: int, remove: int) -> None:
    attributes = struct.pack("=QQQQ", add, remove, 0, 0)
    path, block = ctypes.create_string_buffer(os.fsencode(target)), ctypes.create_string_buffer(attributes)
    call("mount_setattr", _AT_CWD, ctypes.addressof(path), flags, ctypes.addressof(block), len(attributes))


def private_mount(target: str) -> int:
    """A descriptor of a detached clone of the mount at `target`, without a path and with its own flags."""
    path = ctypes.create_string_buffer(os.fsencode(target))
    return call("open_tree", _AT_CWD, ctypes.addressof(path), _OPEN_TREE_CLONE | os.O_CLOEXEC)


def pivot_root(new_root: str) -> None:
    """Make `new_root` (a mount point) the root of this mount namespace and detach the old one."""
    os.chdir(new_root)
    here = ctypes.create_string_buffer(b".")
    call("pivot_root", ctypes.addressof(here), ctypes.addressof(here))
    unmount(".")
    os.chdir("/")


def set_capabilities(keep: Iterable[int] = ()) -> None:
    """Set the effective and permitted capabilities to `keep`; clear the inheritable ones."""
    mask = sum(1 << capability for capability in keep)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
    data = ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, high, high, 0), 24)
    call("capset", ctypes.addressof(header), ctypes.addressof(data))


def has_capability(capability: int) -> bool:
    """Whether this process has the capability in its user namespace (needs /proc)."""
    with open("/proc/self/status") as status:
        effective = next(line for line in status if line.startswith("CapEff")).split()[1]
    return bool(int(effective, 16) >> capability & 1)


def move_up(fd: int) -> int:
    """Move a descriptor above the fixed numbers."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LINK_FD + 1)
    os.close(fd)
    return moved


def close_from(first: int) -> None:
    """Close every descriptor from `first` up."""
    call("close_range", first, 0xFFFFFFFF)


def landlock_abi() -> int:
    """The kernel's Landlock ABI version. Raises `OSError` if it has no Landlock."""
    return call("landlock_create_ruleset", 0, 0, 1)


def landlock_ruleset(handled: tuple[int, int, int], rules: Sequence[tuple[str, int]]) -> int:
    """A descriptor of a ruleset that denies the `handled` rights (files, net, scope) except for the `rules`.

    A rule is a path and the file rights granted beneath it. Missing paths are skipped.
    """
    size = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}.get(landlock_abi(), 24)
    attributes = ctypes.create_string_buffer(struct.pack("=QQQ", *handled)[:size], size)
    ruleset = call("landlock_create_ruleset", ctypes.addressof(attributes), size)
    for path, rights in rules:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)
        call("landlock_add_rule", ruleset, _LANDLOCK_PATH_BENEATH, ctypes.addressof(rule))
        os.close(place)
    return ruleset


class Program(ctypes.Structure):
    """``struct sock_fprog``: a seccomp filter ready to install. Keep `code` alive."""

    _fields_ = (("length", ctypes.c_ushort), ("address", ctypes.c_void_p))

    def __init__(self, code: bytes) -> None:
        self.code = ctypes.create_string_buffer(code, len(code))
        super().__init__(len(code) // 8, ctypes.addressof(self.code))


def seccomp(program: Program, *, listen: bool) -> int:
    """Apply `program` to this thread irrevocably. Returns the listener's descriptor if `listen`, else 0."""
    flags = _FLAG_SPEC_ALLOW | (_FLAG_NEW_LISTENER if listen else 0)
    return call("seccomp", _SECCOMP_SET_MODE_FILTER, flags, ctypes.addressof(program))


def notification(listener: int) -> tuple[int, int, int] | None:
    """The next call pending at a seccomp `listener`: (cookie, caller, first argument); None if the caller is gone.

    The caller is a thread id, which equals the process id for the main thread.
    """
    block = bytearray(80)
    try:
        fcntl.ioctl(listener, _NOTIF_RECV, block)
    except (FileNotFoundError, InterruptedError):
        return None
    cookie, caller = struct.unpack_from("=QI", block)
    (argument,) = struct.unpack_from("=Q", block, 32)
    return cookie, caller, argument


def answer(listener: int, cookie: int, error: int | None) -> bool:
    """Let the call continue (`error` None) or fail with `error`. False if the caller is gone or was interrupted."""
    block = bytearray(struct.pack("=QqiI", cookie, 0, -(error or 0), _NOTIF_CONTINUE if error is None else 0))
    try:
        fcntl.ioctl(listener, _NOTIF_SEND, block)
    except FileNotFoundError:
        return False
    return True


def collapse_heap(maps: str) -> None:
    """Collapse this process's large private mappings into huge pages, which makes every later fork cheaper.

    `maps` is the text of /proc/self/maps. Has no effect before Linux 6.1 or without transparent huge pages.
    """
    for area in (line.split() for line in maps.splitlines()):
        low, high = (int(bound, 16) for bound in area[0].split("-"))
        anonymous = len(area) < 6 or area[5] == "[heap]"
        low, high = -(-low // _HUGE) * _HUGE, high // _HUGE * _HUGE
        if anonymous and "w" in area[1] and low < high:
            libc.madvise(low, high - low, _MADV_COLLAPSE)
