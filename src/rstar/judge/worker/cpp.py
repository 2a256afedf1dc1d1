"""C++: compiled once per source and run as a separate program, both isolated by the sandbox.

A short trusted Python driver inside the sandbox (`LocalSandbox.run_driver`) starts compiler and program and reports how
they ended.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
import signal
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

from rstar.errors import SandboxError
from rstar.sandbox import Limits, LocalSandbox, Result

_FLAGS = ("-O2", "-pipe")
_CACHE_BYTES, _MAX_CACHED = 256 << 20, 1_000
"""Limits of the program cache; each program holds a descriptor."""

_SMALL, _LARGE_BYTES = 1 << 20, 256 << 20
"""Programs beyond the first size, in bytes, share memory of the second size while calls use them."""

_FAILED_SECONDS = 300.0
"""How long a compilation that hit a limit is cached."""

_COMPILERS = 4
"""Driver, g++, its collect2 and ld: all but one wait for another."""

_NORMAL_SECONDS = 5.0
"""How long a compilation keeps its priority, which lets it end among endless loops; most take a second."""

_SIGNALLED = 1_000
"""Offset of signal numbers in a driver's exit code; real exit codes end at 255."""

_UNAVAILABLE = 2_000
"""Exit code of a driver that could not start its program: other processes of this machine fill the kernel's limit."""

_START = f"""
def start(*command, **variables):
    try:
        return os.posix_spawn(command[0], command, {{"LANG": "C.UTF-8", **variables}})
    except BlockingIOError:
        raise SystemExit({_UNAVAILABLE})
"""
_CANNOT_START = "other processes take all that this user may have, so the program could not start"
_SAYS_CANNOT_START = re.compile(r"^(g\+\+|collect2): fatal error: .*Resource temporarily unavailable$", re.MULTILINE)
"""What g++ says if, for the same reason, it cannot start its own programs. A source can make it say so, too."""

_WAITED, _WAIT_SECONDS = 2_001, 14.0
"""Exit code of the compiler's driver if it failed after so many seconds without a processor: g++ tries for 15 s."""

_END = f"""
code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
raise SystemExit(code if code >= 0 else {_SIGNALLED} - code)
"""
_OUT_OF_TIME = 2
"""Exit code of the compiler's driver if the compiler has used up its CPU time."""

_SIGNALLED_PART = 4
"""Exit code of g++ when a signal has ended one of its programs. The signal of the CPU limit can come early by the
process's own count, which leaves out what a busy host takes."""

_JOIN = """
#include <cerrno>
#include <ctime>
#include <pthread.h>
extern "C" __attribute__((weak)) int pthread_join(pthread_t thread, void **result) {
    if (pthread_equal(thread, pthread_self())) return EDEADLK;
    timespec pause = {0, 20000};
    int error;
    while ((error = pthread_tryjoin_np(thread, result)) == EBUSY) {
        nanosleep(&pause, nullptr);
        if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
    }
    return error;
}
"""
"""Linked with every program. The sandbox refuses the C library's wait for the end of a thread, a futex that processes
can share, and the C library would try again without a pause."""

_COMPILE = f"""
import os, resource, time
{_START}
os.ftruncate(3, 0)  # an earlier attempt may have been cut off
os.lseek(3, 0, os.SEEK_SET)
with open("main.cpp", "wb") as file:
    while block := os.read(0, 1 << 20):
        file.write(block)
with open("join.cpp", "w") as file:
    file.write({_JOIN!r})
process = start("/usr/bin/g++", *{_FLAGS!r}, "-o", "main", "main.cpp", "join.cpp", PATH="/usr/bin", TMPDIR=".")
begun = time.monotonic()
status = os.waitpid(process, 0)[1]
if status:
    seconds = time.monotonic() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = used.ru_utime + used.ru_stime
    limit, _ = resource.getrlimit(resource.RLIMIT_CPU)
    late = os.waitstatus_to_exitcode(status) == {_SIGNALLED_PART} and used > limit / 2
    raise SystemExit({_OUT_OF_TIME} if late else {_WAITED} if seconds - used > {_WAIT_SECONDS} else 1)
with open("main", "rb") as file, open(3, "wb", closefd=False) as program:
    while block := file.read(1 << 20):
        program.write(block)
"""
_RUN = f"""
import os
{_START}
copied = 0
with open(os.open("main", os.O_WRONLY | os.O_CREAT, 0o700), "wb") as program:
    while block := os.pread(3, 1 << 20, copied):  # other runs read the same file
        copied += program.write(block)
os.close(3)
for inherited in range(3, 256):
    try:
        os.set_inheritable(inherited, False)
    except OSError:
        pass
process = start("./main")
{_END}"""


class _Program:
    """A sealed memory file with a program, shared by all its runs."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        self.size = os.fstat(handle).st_size

    def __del__(self) -> None:
        os.close(self.handle)


class _Memory:
    """Bytes that calls share, in order of arrival. A call that needs more than all gets all."""

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._changed = asyncio.Condition()
        self._turn = asyncio.Lock()

    def take(self, size: int) -> bool:
        """Take bytes if they are free and nobody waits."""
        size = min(size, self._total)
        if self._turn.locked() or self._free < size:
            return False
        self._free -= size
        return True

    async def wait_and_take(self, size: int) -> None:
        """Take bytes as soon as they are free."""
        size = min(size, self._total)
        async with self._turn, self._changed:
            await self._changed.wait_for(lambda: self._free >= size)
            self._free -= size

    async def give_back(self, size: int) -> None:
        """Give back bytes that were taken."""
        async with self._changed:
            self._free += min(size, self._total)
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class _Compiled:
    result: Result
    program: _Program | None

    @property
    def large_bytes(self) -> int:
        """Size of a large program; 0 for any other."""
        size = 0 if self.program is None else self.program.size
        return size if size > _SMALL else 0


class Compiler:
    """Compiles and runs C++ in a sandbox and caches the programs.

    Args:
        sandbox: an open sandbox.
        seconds: wall time of a compilation.
        memory_mb: memory of all compiler processes together, capped at what one run may have.
    """

    def __init__(self, sandbox: LocalSandbox, seconds: float, memory_mb: int) -> None:
        self._sandbox = sandbox
        memory_mb = min(memory_mb, sandbox.total >> 21)
        # Twice the CPU time: its own clock ends a compilation, which stops while others have the processors.
        self._limits = Limits(seconds, cpu_seconds=2 * seconds, memory_mb=memory_mb, output_bytes=64_000, scratch_mb=64)
        self._cache: OrderedDict[str, _Compiled] = OrderedDict()
        self._size = 0
        self._failed: dict[str, tuple[float, _Compiled]] = {}
        self._compiling: dict[str, asyncio.Future[_Compiled]] = {}
        self._in_use = _Memory(_LARGE_BYTES)
        self._at_normal = 0  # compilations that keep their priority; no more of them than foreground runs

    async def run(self, source: str, stdin: str | None, limits: Limits) -> Result:
        """Compile `source`, unless cached, and run it.

        A source that does not compile ends as ``error`` with the compiler's messages on stderr.

        Raises:
            SandboxError: there is no compiler, or the sandbox failed.
        """
        if shutil.which("g++", path="/usr/bin") is None:
            raise SandboxError("C++ needs the compiler /usr/bin/g++, which is not installed")
        compiled: _Compiled | None = await self._compiled(source)
        assert compiled is not None
        size = compiled.large_bytes
        if not size:
            return await self._run(compiled, stdin, limits)
        if not self._in_use.take(size):
            compiled = None  # while it waits, a call keeps no program in memory
            await self._in_use.wait_and_take(size)
        try:
            return await self._run(compiled or await self._compiled(source), stdin, limits)
        finally:
            await self._in_use.give_back(size)

    async def _run(self, compiled: _Compiled, stdin: str | None, limits: Limits) -> Result:
        program = compiled.program
        if program is None:
            return compiled.result
        # The program's file is in the scratch folder but must not count.
        room = limits.scratch_mb + (program.size >> 20) + 1
        result = await self._sandbox.run_driver(_RUN, stdin, program.handle, replace(limits, scratch_mb=room))
        if result.exit_code == _UNAVAILABLE:
            raise SandboxError(_CANNOT_START)
        return _program_result(result, limits.seconds)

    async def _compiled(self, source: str) -> _Compiled:
        """The compilation of a source; concurrent requests for the same source share one."""
        name = hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()
        while (others := self._compiling.get(name)) is not None:
            await asyncio.wait((others,))
            if not others.cancelled() and others.exception() is None:
                return others.result()
        if (compiled := self._cache.get(name)) is not None:
            self._cache.move_to_end(name)
            return compiled
        if (failed := self._failed.get(name)) is not None and time.monotonic() - failed[0] < _FAILED_SECONDS:
            return failed[1]
        ours = self._compiling[name] = asyncio.get_running_loop().create_future()
        try:
            compiled = await self._compile(source)
            ours.set_result(compiled)
        finally:
            ours.cancel()  # no effect if done; else a waiting request takes over
            del self._compiling[name]
        if compiled.result.status in ("ok", "error"):
            self._store(name, compiled)
        else:
            oldest = time.monotonic() - _FAILED_SECONDS
            self._failed = {known: failed for known, failed in self._failed.items() if failed[0] > oldest}
            self._failed[name] = time.monotonic(), compiled
        return compiled

    async def _compile(self, source: str) -> _Compiled:
        memory = os.memfd_create("program", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        seconds = _NORMAL_SECONDS if self._at_normal < self._sandbox.workers else 0.0
        self._at_normal += seconds > 0
        try:
            result = await self._sandbox.run_driver(
                _COMPILE, source, memory, self._limits, processes=_COMPILERS, normal_seconds=seconds
            )
        except BaseException:
            os.close(memory)
            raise
        finally:
            self._at_normal -= seconds > 0
        program = _Program(memory)
        waited = result.exit_code == _WAITED and _SAYS_CANNOT_START.search(result.stderr)
        if waited or result.exit_code == _UNAVAILABLE:
            raise SandboxError(_CANNOT_START)
        late = result.status == "error" and result.exit_code == _OUT_OF_TIME
        result = replace(result, status="timeout" if late else result.status, error=None)
        return _Compiled(result, program if result.ok else None)

    def _store(self, name: str, compiled: _Compiled) -> None:
        self._cache[name] = compiled
        self._size += _size(compiled)
        while (self._size > _CACHE_BYTES or len(self._cache) > _MAX_CACHED) and len(self._cache) > 1:
            self._size -= _size(self._cache.popitem(last=False)[1])


def _size(compiled: _Compiled) -> int:
    return (0 if compiled.program is None else compiled.program.size) + len(compiled.result.stderr) + 1_000


def _program_result(result: Result, seconds: float) -> Result:
    """Convert a driver's result to that of its program, whose limit was `seconds`.

    SIGKILL may come from the program itself or, at the CPU limit, from the kernel.
    """
    code = result.exit_code
    if result.status != "error" or code is None:
        return replace(result, exit_code=0 if result.ok else None)
    if code < _SIGNALLED:
        return replace(result, error=None)
    number = code - _SIGNALLED
    late = number == signal.SIGXCPU or (number == signal.SIGKILL and result.seconds >= seconds / 2)
    return replace(result, status="timeout" if late else "error", error=None, exit_code=None, signal=number)
