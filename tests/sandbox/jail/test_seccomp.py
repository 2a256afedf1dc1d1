"""The seccomp filter, evaluated here instruction by instruction, decides as the tables say."""

from __future__ import annotations

import platform
import struct

import pytest

from rstar.sandbox.jail import kernel, seccomp
from rstar.sandbox.jail.syscalls import ALLOWED, COPYING, METADATA, NEWEST, NUMBERS, SPACE

ALLOW, NOTIFY, KILL, EPERM, ENOSYS, EOPNOTSUPP = 0x7FFF0000, 0x7FC00000, 0x80000000, 0x50001, 0x50026, 0x5005F
PRETEND, EAGAIN, EINVAL = 0x50000, 0x5000B, 0x50016
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(platform.machine(), 0)

pytestmark = pytest.mark.skipif(not NUMBERS, reason="no table for this processor")


def decide(program: kernel.Program, number: int, *arguments: int, architecture: int = ARCHITECTURE) -> int:
    """What the filter answers to a call."""
    padded = [value & (1 << 64) - 1 for value in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *padded)
    code = list(struct.iter_unpack("=HBBI", program.code.raw))
    place = accumulator = 0
    while True:
        operation, yes, no, constant = code[place]
        place += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, constant)
        elif operation == 0x06:
            return constant
        elif operation == 0x54:
            accumulator &= constant
        else:
            holds = {0x15: accumulator == constant, 0x35: accumulator >= constant, 0x45: bool(accumulator & constant)}
            place += yes if holds[operation] else no


PROGRAMS = {(forks, spaces): seccomp.build(forks=forks, namespaces=spaces) for forks in (0, 1) for spaces in (0, 1)}
GUARDED = {"ioctl", "fcntl", "flock", "socketpair", "sendto", "clone", "prlimit64", "prctl", "mmap", "futex"}
GUARDED |= {"clock_gettime", "clock_getres", "clock_nanosleep"}


@pytest.mark.parametrize(("forks", "metadata"), list(PROGRAMS))
def test_every_number(forks: int, metadata: int) -> None:
    program = PROGRAMS[forks, metadata]
    allowed = {NUMBERS[name] for name in (*ALLOWED, *((*METADATA, *SPACE) if metadata else ())) if name in NUMBERS}
    guarded = {NUMBERS[name] for name in GUARDED}
    refused = {NUMBERS["clone3"]: ENOSYS, NUMBERS["fallocate"]: EOPNOTSUPP}
    refused |= dict.fromkeys(COPYING.values(), EINVAL)
    for number in set(range(NEWEST + 1)) - guarded:
        assert decide(program, number) == (ALLOW if number in allowed else refused.get(number, EPERM)), number
    for number in (NEWEST + 1, 1000, 0x40000000, 0x40000029, -1):
        assert decide(program, number) == ENOSYS
    assert decide(program, NUMBERS["read"], architecture=0x40000003) == KILL


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names and numbers of x86_64")
def test_dangerous_calls_are_not_in_the_table() -> None:
    dangerous = {
        "socket": 41, "connect": 42, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "ptrace": 101, "setuid": 105,
        "setsid": 112, "personality": 135, "pivot_root": 155, "setrlimit": 160, "chroot": 161, "mount": 165,
        "tkill": 200, "io_setup": 206, "tgkill": 234, "keyctl": 250, "inotify_add_watch": 254, "unshare": 272,
        "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "seccomp": 317,
        "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323, "pkey_mprotect": 329,
        "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430,
        "pidfd_open": 434, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
        "memfd_secret": 447, "shmget": 29, "msgget": 68, "mknod": 133, "chown": 92, "rt_sigqueueinfo": 129,
    }  # fmt: skip
    for name, number in dangerous.items():
        assert decide(PROGRAMS[1, 1], number) == EPERM, name


def test_numbers_of_the_table_are_distinct() -> None:
    assert len(set(NUMBERS.values())) == len(NUMBERS)
    assert max(NUMBERS.values()) <= NEWEST
    assert set(ALLOWED) & {"read", "write", "mmap", "openat", "gettimeofday"}


def call(name: str, *arguments: int, forks: int = 1) -> int:
    return decide(PROGRAMS[forks, 1], NUMBERS[name], *arguments)


def test_forks_and_threads() -> None:
    thread = 0x3D0F00
    assert call("clone", thread) == ALLOW
    assert call("clone", seccomp.FORK) == ALLOW  # as far as this filter is concerned: the gate asks
    assert decide(seccomp.build_gate(), NUMBERS["clone"], seccomp.FORK) == NOTIFY
    assert decide(seccomp.build_gate(), NUMBERS["clone"], thread) == NOTIFY
    assert decide(seccomp.build_gate(), NUMBERS["clone"], 17) == ALLOW  # which the other filter refuses
    assert decide(seccomp.build_gate(), NUMBERS["read"]) == ALLOW
    assert call("clone", seccomp.FORK, forks=0) == EPERM
    assert call("clone", kernel.FORK_FLAGS) == EPERM  # not as a child of the keeper
    assert call("clone", 17) == EPERM
    assert call("clone", 0x4111) == EPERM  # vfork
    assert call("clone", thread | 0x4000) == EPERM  # a thread that waits like one that has made a vfork
    assert call("clone", thread & ~kernel.CLONE_FILES) == EPERM  # with descriptors of its own
    assert call("close_range", 3, 100, 4) == ALLOW
    assert call("close_range", 3, 100, 2) == EPERM  # likewise
    for bit in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert call("clone", thread | bit) == EPERM
        assert call("clone", seccomp.FORK | bit) == EPERM


def test_programs_fork_children_only() -> None:
    clone = seccomp.build(forks=False, namespaces=True, programs=True), NUMBERS["clone"]
    for flags in (17, 0x4111, 0x3D0F00):  # fork, vfork, thread
        assert decide(*clone, flags) == ALLOW
        assert decide(*clone, flags | kernel.CLONE_PARENT) == EPERM  # a sibling


@pytest.mark.parametrize("name", ["clock_gettime", "clock_getres", "clock_nanosleep"])
def test_no_process_reads_the_clock_of_another(name: str) -> None:
    for clock in (*range(12), 1 << 30):
        assert call(name, clock) == ALLOW
    for kind in range(4):
        assert call(name, ~0 << 3 | kind) == ALLOW  # its own
        for pid in (1, 2, 1000, 4_000_000):
            assert call(name, ~pid << 3 | kind) == EINVAL
            assert call(name, (~pid << 3 | kind) & 0xFFFFFFFF) == EINVAL  # the kernel ignores the upper half
            assert call(name, ~pid << 3 | 4 | kind) == ALLOW  # of a thread


@pytest.mark.parametrize("forks", [0, 1])
@pytest.mark.parametrize("operation", [*range(14), 256, 256 | 9])
def test_futexes_are_a_process_s_own(forks: int, operation: int) -> None:
    """Whatever the operation, and with the clock as a flag; `futex_waitv` has its flags in memory."""
    assert call("futex", 0x7000, operation, forks=forks) == EAGAIN
    assert call("futex", 0x7000, operation | 128, forks=forks) == ALLOW
    assert call("futex_waitv", 0x7000, 1, forks=forks) == EPERM


def test_arguments() -> None:
    assert call("prlimit64", 0, 9, 0, 0x7000) == ALLOW
    assert call("prlimit64", 0, 9, 0x7000, 0) == EPERM
    assert call("prlimit64", 0, 9, 0x7000_0000_0000, 0) == EPERM
    assert call("prctl", kernel.PR_SET_NAME, 1) == ALLOW
    assert call("prctl", kernel.PR_SET_PDEATHSIG, 9) == ALLOW
    assert call("prctl", kernel.PR_SET_PDEATHSIG, 0) == EPERM
    assert call("prctl", kernel.PR_SET_DUMPABLE, 1) == EPERM
    assert call("fcntl", 0, 1) == ALLOW
    for command in (8, 10, 15, 1024, 1026, 1031, 1033):
        assert call("fcntl", 0, command) == EPERM
    assert call("ioctl", 0, 0x5401) == ALLOW
    assert call("ioctl", 0, 0x5412) == EPERM  # TIOCSTI
    assert call("socketpair", 1, 1) == ALLOW
    assert call("socketpair", 2, 1) == EPERM


def test_nothing_reaches_other_runs() -> None:
    for kind in (1, 5, 1 | 0o2000000):
        assert call("socketpair", 1, kind) == ALLOW
    for kind in (2, 3, 2 | 0o4000, 3 | 0o2000000):
        assert call("socketpair", 1, kind) == EPERM  # datagrams
    assert call("sendto", 3, 0x7000, 5, 0, 0, 0) == ALLOW
    assert call("sendto", 3, 0x7000, 5, 0, 0x7000, 110) == EPERM
    assert call("sendto", 3, 0x7000, 5, 0, 0x7000_0000_0000, 110) == EPERM
    for name in ("sendmsg", "setsockopt", "pipe2"):
        assert call(name) == EPERM, name
    assert decide(seccomp.build(forks=False, namespaces=True, programs=True), NUMBERS["pipe2"]) == ALLOW
    assert call("flock", 3, 2) == PRETEND
    for command in (6, 7, 37, 38):
        assert call("fcntl", 3, command) == PRETEND


def test_memory_is_not_shared_with_forks() -> None:
    shared, private, anonymous, validate = 1, 2, 0x20, 3
    assert call("mmap", 0, 4096, 3, private | anonymous) == ALLOW
    for flags in (shared | anonymous, shared, validate):
        assert call("mmap", 0, 4096, 1, flags) == EPERM
    for flags in (shared, private, validate, private | anonymous):
        assert call("mmap", 0, 4096, 1, flags, forks=0) == ALLOW
    for flags in (shared | anonymous, validate | anonymous):  # whose pages stay where no count sees them
        assert call("mmap", 0, 4096, 1, flags, forks=0) == EPERM


def test_the_gate_of_programs_asks_about_pipes() -> None:
    gate = seccomp.build_gate(programs=True)
    for name in ("pipe", "pipe2"):
        if name in NUMBERS:
            assert decide(gate, NUMBERS[name]) == NOTIFY
            assert decide(seccomp.build_gate(), NUMBERS[name]) == ALLOW
    for number in {0, 1, NEWEST, NUMBERS["clone"], NUMBERS["pipe2"] - 1, NUMBERS["pipe2"] + 1}:
        assert decide(gate, number, seccomp.FORK) == ALLOW
