"""The seccomp filter of model-written code: a small assembler for the allow-list of `syscalls`.

The filter is a binary search over ranges of call numbers, because the kernel evaluates it once per known number at
installation, which happens in every run. `_guarded` decides calls that are safe only with certain arguments. A filter
cannot dereference pointers, so no rule depends on one.
"""

from __future__ import annotations

import platform
import struct

from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.syscalls import ALLOWED, COPYING, METADATA, NEWEST, NUMBERS, PROGRAMS, SENDING, SPACE

Code = list[tuple[int, int, int, int]]
"""Instructions: operation, jump if true, jump if false, constant."""

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _NOTIFY, _KILL = 0x7FFF0000, 0x7FC00000, 0x80000000
_PRETEND = 0x00050000  # skip the call and return 0
_EPERM, _EAGAIN, _EINVAL = 0x00050000 | 1, 0x00050000 | 11, 0x00050000 | 22
_ENOSYS, _EOPNOTSUPP = 0x00050000 | 38, 0x00050000 | 95
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(platform.machine(), 0)

_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_FCNTLS = (*range(6), 36, 1030, 1032)  # not F_SETOWN, F_SETSIG (signal others), F_SETPIPE_SZ (per-user quota)
_LOCKS = (6, 7, 37, 38)  # F_SETLK, F_SETLKW and their OFD variants
_AF_UNIX, _SIGKILL = 1, 9
_SOCKET_TYPE, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_MAP_SHARED = 1  # also set in MAP_SHARED_VALIDATE, not in MAP_PRIVATE
_MAP_ANONYMOUS = 32
_FUTEX_PRIVATE = 128
_DYNAMIC_CLOCKS, _THREAD_CLOCK, _OWN_CLOCKS = 1 << 31, 4, 0xFFFFFFF8
_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
THREADS = (0x3D0F00, 0x7D0F00)
"""Flags with which the C libraries (GNU, musl) create a thread. With other flags a thread could have its own descriptor
table, with the limit of a whole process, or could not be stopped."""
_UNSHARE = 2  # CLOSE_RANGE_UNSHARE, likewise

FORK = kernel.FORK_FLAGS | kernel.CLONE_PARENT
"""The only flags allowed for a fork; the child's parent is the keeper, not the forking process."""


def build_gate(*, programs: bool = False) -> kernel.Program:
    """The filter that asks its listener about every fork and thread and allows all else; install before `build`'s.

    With `programs` it asks about every new pipe instead.
    """
    new = _one_of(0, (FORK, *THREADS), _NOTIFY, otherwise=_result(_ALLOW))
    asked = {name: _result(_NOTIFY) for name in ("pipe", "pipe2") if name in NUMBERS} if programs else {"clone": new}
    starts = [(0, _result(_ALLOW))]
    for number, code in sorted((NUMBERS[name], code) for name, code in asked.items()):
        starts += [(number, code), (number + 1, _result(_ALLOW))]
    return _assemble(starts)


def build(*, forks: bool, namespaces: bool, programs: bool = False) -> kernel.Program:
    """The filter for one run.

    Args:
        forks: the run is a state that may be forked: allow the fork (the listener of `build_gate` decides), but no
            memory that a fork would share.
        namespaces: the run has mount and PID namespaces: allow chmod, utime and fallocate.
        programs: allow starting other programs, and pipes between them.
    """
    allowed = ALLOWED | METADATA | SPACE if namespaces else ALLOWED
    actions = {number: _result(_EINVAL) for number in COPYING.values()}
    actions |= {number: _result(_EOPNOTSUPP) for number in SPACE.values()}  # the C library then writes the file
    actions |= {number: _result(_ALLOW) for number in allowed.values()}
    actions |= {NUMBERS[name]: code for name, code in _guarded(forks).items()}
    if programs:
        allowed = PROGRAMS | SENDING if namespaces else PROGRAMS
        actions |= {number: _result(_ALLOW) for number in allowed.values()}
        actions[NUMBERS["clone"]] = [  # no siblings: processes that replace each other would escape every count
            _argument(0),
            (_ANY_BIT, 2, 0, _NAMESPACES | kernel.CLONE_PARENT),
            (_ANY_BIT, 0, 2, kernel.CLONE_THREAD),
            (_ANY_BIT, 1, 0, kernel.CLONE_FILES),
            *_result(_EPERM),
            *_result(_ALLOW),
        ]
    actions[NUMBERS["clone3"]] = _result(_ENOSYS)  # glibc then uses clone, whose flags a filter can see
    starts: list[tuple[int, Code]] = []
    for number in range(NEWEST + 1):
        code = actions.get(number, _result(_EPERM))
        if not starts or starts[-1][1] != code:
            starts.append((number, code))
    starts.append((NEWEST + 1, _result(_ENOSYS)))
    return _assemble(starts)


def _assemble(starts: list[tuple[int, Code]]) -> kernel.Program:
    """A program from (first call number, code) of each range."""
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCHITECTURE), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0), *_search(starts)]
    return kernel.Program(b"".join(struct.pack("=HBBI", *instruction) for instruction in code))


def _search(starts: list[tuple[int, Code]]) -> Code:
    """Jump to the code of the range that contains the call number."""
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _search(starts[:middle]), _search(starts[middle:])
    return [(_AT_LEAST, len(low), 0, starts[middle][0]), *low, *high]


def _result(action: int) -> Code:
    return [(_RETURN, 0, 0, action)]


def _argument(index: int, *, high: bool = False) -> tuple[int, int, int, int]:
    """Load the low (or high) half of an argument; both supported architectures are little-endian."""
    return (_LOAD, 0, 0, 16 + 8 * index + 4 * high)


def _one_of(index: int, values: tuple[int, ...], found: int = _ALLOW, otherwise: Code | None = None) -> Code:
    """Return `found` if the argument is one of `values`, else continue with `otherwise`."""
    otherwise = otherwise or _result(_EPERM)
    tests = [(_EQUAL, len(values) - place - 1 + len(otherwise), 0, value) for place, value in enumerate(values)]
    return [_argument(index), *tests, *otherwise, *_result(found)]


def _is_null(index: int) -> Code:
    return [
        _argument(index),
        (_EQUAL, 0, 2, 0),
        _argument(index, high=True),
        (_EQUAL, 1, 0, 0),
        *_result(_EPERM),
        *_result(_ALLOW),
    ]


def _guarded(forks: bool) -> dict[str, Code]:
    """Code for calls that depend on their arguments, which are 32 bits wide in these calls, except pointers."""
    clock = [  # not the CPU time of another process; the kernel allows only clocks of the process's own threads
        _argument(0),
        (_AT_LEAST, 0, 3, _DYNAMIC_CLOCKS),
        (_ANY_BIT, 2, 0, _THREAD_CLOCK),
        (_AT_LEAST, 1, 0, _OWN_CLOCKS),
        *_result(_EINVAL),
        *_result(_ALLOW),
    ]
    return {
        **dict.fromkeys(("clock_gettime", "clock_getres", "clock_nanosleep"), clock),
        "ioctl": _one_of(1, _IOCTLS),
        # Pretend: the scratch folder is private, and a real lock on a library's file would be visible to other runs.
        "flock": _result(_PRETEND),
        "fcntl": _one_of(1, _LOCKS, _PRETEND, otherwise=_one_of(1, _FCNTLS)),
        "socketpair": [  # connected types only: datagrams can reach other sockets
            _argument(1),
            (_AND, 0, 0, _SOCKET_TYPE),
            (_EQUAL, 2, 0, _SOCK_STREAM),
            (_EQUAL, 1, 0, _SOCK_SEQPACKET),
            *_result(_EPERM),
            *_one_of(0, (_AF_UNIX,)),
        ],
        "mmap": [  # a fork would share it; released pages of a shared anonymous map stay uncounted
            _argument(3),
            (_ANY_BIT, 0, 1 if forks else 2, _MAP_SHARED),
            *([] if forks else [(_ANY_BIT, 0, 1, _MAP_ANONYMOUS)]),
            *_result(_EPERM),
            *_result(_ALLOW),
        ],
        # Without the flag, processes that map the same file of a library wait for and wake each other. EAGAIN, because
        # the C library then looks at the word again: `pthread_join` waits so for the kernel's wake at a thread's end.
        "futex": [_argument(1), (_ANY_BIT, 0, 1, _FUTEX_PRIVATE), *_result(_ALLOW), *_result(_EAGAIN)],
        "sendto": _is_null(4),  # no address: only to the connected end
        "clone": [
            _argument(0),
            (_EQUAL, 4, 0, THREADS[0]),
            (_EQUAL, 3, 0, THREADS[1]),
            (_EQUAL, 0, 1, FORK),
            *_result(_ALLOW if forks else _EPERM),
            *_result(_EPERM),
            *_result(_ALLOW),
        ],
        "close_range": [_argument(2), (_ANY_BIT, 0, 1, _UNSHARE), *_result(_EPERM), *_result(_ALLOW)],
        "prlimit64": _is_null(2),  # read only
        "prctl": [  # PR_SET_NAME, or to die with the keeper
            _argument(0),
            (_EQUAL, 4, 0, kernel.PR_SET_NAME),
            (_EQUAL, 0, 2, kernel.PR_SET_PDEATHSIG),
            _argument(1),
            (_EQUAL, 1, 0, _SIGKILL),
            *_result(_EPERM),
            *_result(_ALLOW),
        ],
    }
