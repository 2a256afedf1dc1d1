"""The seccomp filter of model-written code: a small assembler for the allow-list of `syscalls`.

The filter is a binary search over ranges of call numbers, because the kernel evaluates it once per known number when it
is installed, which happens in every run. Calls that are harmless only with certain arguments are decided by the few
instructions of `_guarded`; pointers cannot be looked into, so nothing here depends on one.
"""

from __future__ import annotations

import platform
import struct

from rstar.sandbox import kernel
from rstar.sandbox.syscalls import ALLOWED, METADATA, NEWEST, NUMBERS, PROGRAMS, SENDING

Code = list[tuple[int, int, int, int]]
"""Instructions: operation, jump if true, jump if false, constant."""

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _NOTIFY, _KILL = 0x7FFF0000, 0x7FC00000, 0x80000000
_EPERM, _ENOSYS = 0x00050000 | 1, 0x00050000 | 38
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}.get(platform.machine(), 0)

_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_FCNTLS = (*range(8), 36, 37, 38, 1030, 1031, 1032)  # not F_SETOWN, F_SETSIG: they send signals to others
_AF_UNIX, _SIGKILL = 1, 9
_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag

FORK = kernel.FORK_FLAGS | kernel.CLONE_PARENT
"""The only flags with which a process may be made; it becomes a child of the keeper, not of the process that forks."""


def build(*, forks: bool, namespaces: bool, programs: bool = False) -> kernel.Program:
    """The filter for one run.

    Args:
        forks: let the listener decide about a fork (else it fails with EPERM).
        namespaces: the run has mount and PID namespaces: allow chmod and utime.
        programs: allow to start other programs.
    """
    actions: dict[int, Code] = {
        NUMBERS[name]: _result(_ALLOW) for name in (*ALLOWED, *(METADATA if namespaces else ())) if name in NUMBERS
    }
    actions |= {NUMBERS[name]: code for name, code in _guarded(forks).items()}
    if programs:
        also = (*PROGRAMS, *(SENDING if namespaces else ()))
        actions |= {NUMBERS[name]: _result(_ALLOW) for name in also if name in NUMBERS}
        actions[NUMBERS["clone"]] = [_argument(0), (_ANY_BIT, 0, 1, _NAMESPACES), *_result(_EPERM), *_result(_ALLOW)]
    actions[NUMBERS["clone3"]] = _result(_ENOSYS)  # glibc then uses clone, whose flags a filter can see
    starts: list[tuple[int, Code]] = []
    for number in range(NEWEST + 1):
        code = actions.get(number, _result(_EPERM))
        if not starts or starts[-1][1] != code:
            starts.append((number, code))
    starts.append((NEWEST + 1, _result(_ENOSYS)))
    code = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURE),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        *_search(starts),
    ]
    return kernel.Program(b"".join(struct.pack("=HBBI", *instruction) for instruction in code))


def _search(starts: list[tuple[int, Code]]) -> Code:
    """Jump to the code of the last start that is not above the number."""
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _search(starts[:middle]), _search(starts[middle:])
    return [(_AT_LEAST, len(low), 0, starts[middle][0]), *low, *high]


def _result(action: int) -> Code:
    return [(_RETURN, 0, 0, action)]


def _argument(index: int, *, high: bool = False) -> tuple[int, int, int, int]:
    """Load the low (or high) half of an argument; both supported processors are little-endian."""
    return (_LOAD, 0, 0, 16 + 8 * index + 4 * high)


def _one_of(index: int, values: tuple[int, ...]) -> Code:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_argument(index), *tests, *_result(_EPERM), *_result(_ALLOW)]


def _guarded(forks: bool) -> dict[str, Code]:
    """Calls that depend on their arguments. Kernel arguments of these are 32 bits wide, except pointers."""
    fork = _NOTIFY if forks else _EPERM
    return {
        "ioctl": _one_of(1, _IOCTLS),
        "fcntl": _one_of(1, _FCNTLS),
        "socketpair": _one_of(0, (_AF_UNIX,)),
        "clone": [
            _argument(0),
            (_ANY_BIT, 3, 0, _NAMESPACES),
            (_ANY_BIT, 3, 0, kernel.CLONE_THREAD),
            (_EQUAL, 0, 1, FORK),
            *_result(fork),
            *_result(_EPERM),
            *_result(_ALLOW),
        ],
        "prlimit64": [  # reading only: no new limits
            _argument(2),
            (_EQUAL, 0, 2, 0),
            _argument(2, high=True),
            (_EQUAL, 1, 0, 0),
            *_result(_EPERM),
            *_result(_ALLOW),
        ],
        "prctl": [  # a name, or dying with the keeper
            _argument(0),
            (_EQUAL, 4, 0, kernel.PR_SET_NAME),
            (_EQUAL, 0, 2, kernel.PR_SET_PDEATHSIG),
            _argument(1),
            (_EQUAL, 1, 0, _SIGKILL),
            *_result(_EPERM),
            *_result(_ALLOW),
        ],
    }
