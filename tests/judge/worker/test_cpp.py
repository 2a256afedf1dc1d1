"""C++ that takes what it can: compilers and groups of processes are bounded as a whole."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from rstar.errors import SandboxError
from rstar.judge.bench import descendants
from rstar.judge.worker import cpp
from rstar.judge.worker.cpp import Compiler
from rstar.sandbox import Limits, LocalSandbox, Result
from rstar.sandbox.jail.isolation import NOBODY

COMPILE_SECONDS, COMPILE_MB = 30.0, 300

BUSY = "#include <unistd.h>\nint main(){for(int n=0;n<6;n++)if(!fork())break;for(;;);}"
LEFT = "#include <unistd.h>\nint main(){for(int n=0;n<6;n++)if(!fork())for(;;);}"
GREEDY = """
#include <cstring>
#include <unistd.h>
#include <cstdlib>
int main() {
    for (int n = 0; n < 5; n++) if (!fork()) { memset(malloc(60 << 20), 1, 60 << 20); pause(); }
    pause();
}
"""
TALKING = "#include <unistd.h>\nint main(){char text[4096]={};for(int n=0;n<4;n++)fork();for(;;)write(1,text,4096);}"
MANY = """
#include <cstdio>
#include <unistd.h>
int main() {
    int n = 0;
    for (; n < 300; n++) { int child = fork(); if (child < 0) break; if (!child) { pause(); } }
    printf("%d", n);
}
"""
COMETS = """
#include <cstdio>
#include <csignal>
#include <ctime>
#include <sys/resource.h>
#include <unistd.h>
double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main() {
    signal(SIGCHLD, SIG_IGN);
    double started = now();
    for (int i = 0; i < 10; i++) if (!fork()) {
        while (now() < started + 1.5) if (!fork()) _exit(0);
        if (!fork()) printf("%d\\n", getpriority(PRIO_PROCESS, 0));
        return 0;
    }
    setpgid(0, 0);
    while (now() < started + 2.5) {}
}
"""
"""There are new processes every moment."""
TIME_BOMB = """
template<int n> constexpr int f() {
    int x = n;
    for (int i = 0; i < 10; i++) for (int j = 0; j < 100000; j++) x ^= i * j;
    return x;
}
template<int n> struct A { static constexpr int x = f<n>() + A<n - 1>::x; };
template<> struct A<0> { static constexpr int x = 0; };
int main() { return A<200>::x; }
"""
"""Takes no memory to speak of, however fast the machine is."""

MEMORY_BOMB = (
    "#define A0 1\n" + "".join(f"#define A{n + 1} {','.join([f'A{n}'] * 10)}\n" for n in range(9)) + "int x[]={A9};"
)
TALK_BOMB = "#error " + "x" * 60 + '\n#include "main.cpp"'


def outcome(source: str, limits: Limits, compile_seconds: float = COMPILE_SECONDS) -> Result:
    """What became of a program. It leaves no process, and nothing hangs."""

    async def run() -> Result:
        async with LocalSandbox(workers=2) as sandbox:
            compiler = Compiler(sandbox, compile_seconds, COMPILE_MB)
            assert (await compiler.run("int main(){}", None, limits)).ok  # the processes that are to stay
            own = descendants(os.getpid())
            result = await compiler.run(source, None, limits)
            while len(descendants(os.getpid())) > len(own):
                await asyncio.sleep(0.05)
            return result

    return asyncio.run(asyncio.wait_for(run(), 100))


@pytest.mark.parametrize(
    ("source", "status"),
    [(BUSY, "timeout"), (LEFT, "ok"), (GREEDY, "memory"), (TALKING, "output_limit")],
    ids=["busy", "left", "greedy", "talking"],
)
def test_a_group_of_processes_has_the_limits_of_one(source: str, status: str) -> None:
    result = outcome(source, Limits(2.0, memory_mb=128))
    assert result.status == status
    assert result.seconds < 20  # the group may not add up the times of its processes
    assert len(result.stdout) <= 1_000_000


def test_a_program_has_few_processes() -> None:
    result = outcome(MANY, Limits(20.0, memory_mb=256))
    assert 8 <= int(result.stdout) <= 32


def test_a_program_that_forks_all_the_time_has_a_low_priority_too() -> None:
    result = outcome(COMETS, Limits(5.0, memory_mb=256))
    priorities = [int(line) for line in result.stdout.split()]
    assert priorities
    assert min(priorities) >= 10


SPAWNING = """
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
int waits(void *) { sleep(2); _exit(0); }
int main() {
    char *kept = (char *)malloc(90 << 20);
    memset(kept, 1, 90 << 20);
    char *stack = (char *)malloc(1 << 20);
    if (clone(waits, stack + (1 << 20), CLONE_VM | SIGCHLD, nullptr) < 0) return 1;
    wait(nullptr);
    printf("%d", kept[1000]);
}
"""


def test_memory_counts_once_while_a_child_has_not_yet_run_its_program() -> None:
    result = outcome(SPAWNING, Limits(6.0, memory_mb=128))
    assert (result.status, result.stdout) == ("ok", "1")


SIBLING = """
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <sched.h>
#include <sys/syscall.h>
int main() { printf("%d", syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM); }
"""


def test_a_program_forks_no_sibling() -> None:
    """Processes that pass their memory on to siblings and end would be gone whenever their memory is measured."""
    assert outcome(SIBLING, Limits(20.0)).stdout == "1"


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        (TIME_BOMB, ["timeout"], ""),
        (MEMORY_BOMB, ["error", "memory"], "memory"),  # the compiler sees it first, or the sandbox does
        (TALK_BOMB, ["error", "output_limit"], "xxx"),
    ],
    ids=["time", "memory", "output"],
)
def test_compiling_is_bounded(source: str, status: list[str], said: str) -> None:
    result = outcome(source, Limits(2.0), compile_seconds=4.0)
    assert result.status in status
    assert said in result.stderr or result.status == said
    assert len(result.stderr) <= 64_000


def test_as_many_compilations_as_foreground_runs_keep_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among endless loops, one that does not would hardly get a processor."""
    monkeypatch.setattr(cpp, "_NORMAL_SECONDS", 8.0)

    def lowered() -> list[bool]:
        found = []
        for process in descendants(os.getpid()):
            with suppress(OSError):
                if Path(f"/proc/{process}/comm").read_text() == "cc1plus\n":
                    found.append(os.getpriority(os.PRIO_PROCESS, process) > os.getpriority(os.PRIO_PROCESS, 0))
        return sorted(found)

    async def run() -> None:
        async with LocalSandbox(workers=1) as sandbox:
            compiler = Compiler(sandbox, 60.0, COMPILE_MB)
            sources = [f"{TIME_BOMB}// {n}" for n in range(3)]
            compiling = [asyncio.create_task(compiler.run(source, None, Limits(2.0))) for source in sources]
            while len(lowered()) < 3:
                await asyncio.sleep(0.02)
            two_lowered = 0  # how often they were seen so, not for how long: a busy machine starts them late
            while not all(now := lowered()):
                two_lowered += now == [False, True, True]
                await asyncio.sleep(0.02)
            assert two_lowered >= 10
            for task in compiling:
                task.cancel()

    asyncio.run(asyncio.wait_for(run(), 100))


def test_a_compiler_that_has_used_up_its_cpu_time_has_timed_out() -> None:
    """Its own clock did not end it: as on a busy machine."""

    async def run() -> Result:
        async with LocalSandbox(workers=2) as sandbox:
            compiler = Compiler(sandbox, 60.0, COMPILE_MB)
            compiler._limits = replace(compiler._limits, cpu_seconds=1)
            return await compiler.run(TIME_BOMB, None, Limits(2.0))

    assert asyncio.run(asyncio.wait_for(run(), 100)).status == "timeout"


class CountingSandbox:
    """Compiles nothing within the time."""

    total, workers = 1 << 40, 1

    def __init__(self) -> None:
        self.compiled = 0

    async def run_driver(self, code: str, stdin: str, file: int, limits: Limits, **_: float) -> Result:
        self.compiled += 1
        await asyncio.sleep(0.05)
        return Result(status="timeout", stdout="", stderr="", error=None, seconds=limits.seconds)


def test_what_takes_too_long_to_compile_is_compiled_once_for_all_who_send_it() -> None:
    async def run() -> None:
        sandbox = CountingSandbox()
        compiler = Compiler(cast(LocalSandbox, sandbox), 1.0, 256)
        found = await asyncio.gather(*(compiler.run("x", None, Limits()) for _ in range(50)))
        found.append(await compiler.run("x", None, Limits()))
        assert {result.status for result in found} == {"timeout"}
        assert sandbox.compiled == 1

    asyncio.run(run())


def test_another_one_compiles_when_the_first_has_gone() -> None:
    async def run() -> None:
        sandbox = CountingSandbox()
        compiler = Compiler(cast(LocalSandbox, sandbox), 1.0, 256)
        first, second = (asyncio.create_task(compiler.run("x", None, Limits())) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        assert (await second).status == "timeout"
        assert sandbox.compiled == 2

    asyncio.run(run())


def test_a_program_that_kills_itself_is_not_late() -> None:
    result = outcome("#include <csignal>\nint main(){raise(SIGKILL);}", Limits(seconds=5))
    assert (result.status, result.signal) == ("error", 9)


def test_what_does_not_compile_holds_no_descriptor() -> None:
    async def run() -> int:
        async with LocalSandbox() as sandbox:
            compiler = Compiler(sandbox, 30.0, 1_024)
            before = len(os.listdir("/proc/self/fd"))
            for number in range(3):
                assert (await compiler.run(f"int main({number}", None, Limits())).status == "error"
            return len(os.listdir("/proc/self/fd")) - before

    assert asyncio.run(run()) <= 1  # its zygote's link


PIPES = """
#include <cstdio>
#include <unistd.h>
int main() {
    for (int n = 0; n < 5; n++) fork();
    int ends[2], count = 0;
    while (count < 60 && !pipe(ends)) count++;
    printf("%d\\n", count);
    fflush(stdout);
    sleep(1);
}
"""
TALKS = """
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
int main() {
    for (int n = 0; n < 200; n++) {
        int ends[2];
        char text[4] = {};
        if (pipe(ends)) return 1;
        if (!fork()) { write(ends[1], "ok", 2); _exit(0); }
        read(ends[0], text, 2);
        wait(nullptr);
        close(ends[0]); close(ends[1]);
        if (n == 199) puts(text);
    }
}
"""
ASKS = "#include <unistd.h>\nint main(){int ends[2];for(;;)if(!pipe(ends)){close(ends[0]);close(ends[1]);}}"


SOCKETS = """
#include <cstdio>
#include <sys/socket.h>
int main() {
    int ends[2], count = 0;
    while (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) count += 2;
    printf("%d", count);
}
"""


def test_each_process_of_a_program_has_few_sockets() -> None:
    """No limit counts the memory in their buffers."""
    assert 16 <= int(outcome(SOCKETS, Limits(20.0, memory_mb=256)).stdout) <= 32


def test_a_program_has_few_pipes() -> None:
    """Their buffers are limited per user, and all programs have one user."""
    result = outcome(PIPES, Limits(20.0, memory_mb=256))
    counts = [int(line) for line in result.stdout.split()]
    assert len(counts) > 8
    assert 8 <= sum(counts) <= 64  # 32, and pipes that were allowed but not open yet when all were counted


THREADS = """
#include <cstdio>
#include <future>
#include <thread>
#include <pthread.h>
int main() {
    int sum = 0;
    for (int n = 0; n < 50; n++) std::thread([&] { sum += n; }).join();
    int seven = std::async(std::launch::async, [] { return 7; }).get();
    printf("%d %d %d\\n", sum, seven, pthread_join(pthread_self(), nullptr) > 0);
}
"""


def test_threads_are_joined() -> None:
    result = outcome(THREADS, Limits(10.0, memory_mb=256))
    assert result.stdout == "1225 7 1\n", result


def test_a_program_may_define_its_own_join() -> None:
    own = 'extern "C" int pthread_join(unsigned long, void **) { return 0; }'
    assert outcome(f"{own}\nint main() {{ return pthread_join(1, nullptr); }}", Limits(10.0, memory_mb=256)).ok


def test_pipes_that_are_closed_do_not_count() -> None:
    assert outcome(TALKS, Limits(10.0, memory_mb=256)).stdout == "ok\n"


def test_a_program_that_asks_for_pipes_all_the_time_is_ended() -> None:
    assert outcome(ASKS, Limits(10.0, memory_mb=256)).status == "killed"


LARGE = '#include <cstdio>\nint big[7000000]={1};\nint main(){printf("%d\\n",42);}'


def test_large_programs_are_whole_on_a_busy_machine() -> None:
    """A signal, such as that which lowers a priority, can cut a copy short."""

    async def run() -> None:
        async with LocalSandbox(workers=2) as sandbox:
            compiler = Compiler(sandbox, 30.0, 1_024)
            found = await asyncio.gather(*(compiler.run(LARGE, None, Limits(10)) for _ in range(12)))
            assert [result.stdout for result in found] == ["42\n"] * 12

    asyncio.run(run())


def test_a_compilation_that_is_done_again_writes_over_what_it_left() -> None:
    async def run() -> None:
        async with LocalSandbox(workers=2) as sandbox:
            file = os.memfd_create("program")
            os.write(file, b"left by an attempt that was cut off" * 10_000)
            assert (await sandbox.run_driver(cpp._COMPILE, "int main(){}", file, Limits(30), processes=4)).ok
            program = os.pread(file, os.fstat(file).st_size, 0)
            os.close(file)
            assert program.startswith(b"\x7fELF")
            assert b"left by" not in program

    asyncio.run(run())


class Programs:
    """A sandbox whose compiler makes programs of `size` bytes, and whose programs run until they are let go."""

    workers, total = 2, 1 << 30

    def __init__(self, size: int) -> None:
        self.size, self.running, self.compiled = size, 0, 0
        self.go_on = asyncio.Event()

    async def run_driver(self, code: str, stdin: str, file: int, limits: Limits, **_: float) -> Result:
        await asyncio.sleep(0)
        if code == cpp._COMPILE:
            self.compiled += 1
            os.ftruncate(file, self.size)
        else:
            self.running += 1
            await self.go_on.wait()
            self.running -= 1
        return Result(status="ok", stdout="", stderr="", error=None, seconds=0.1)


@pytest.mark.parametrize(("size", "at_once"), [(1 << 20, 40), (60 << 20, 4), (400 << 20, 1)])
def test_the_large_programs_of_all_calls_share_a_bounded_memory(size: int, at_once: int) -> None:
    async def run() -> None:
        sandbox = Programs(size)
        compiler = Compiler(cast(LocalSandbox, sandbox), 1.0, 256)
        held = len(os.listdir("/proc/self/fd"))
        calls = [asyncio.create_task(compiler.run(f"{n}", None, Limits())) for n in range(40)]
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert sandbox.running == at_once
        kept = (len(os.listdir("/proc/self/fd")) - held) * size
        assert kept <= 2 * max(256 << 20, size), "those in use and those of the cache"
        calls[-1].cancel()
        sandbox.go_on.set()
        found = await asyncio.gather(*calls[:-1])
        assert {result.status for result in found} == {"ok"}
        assert compiler._in_use.take(256 << 20), "all was given back"

    asyncio.run(run())


FILL = """
import threading
threading.stack_size(1 << 16)
try:
    while True:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
except RuntimeError:
    pass
"""
"""Before a driver's own code: takes all threads and processes that the driver may have."""


@pytest.mark.parametrize("driver", ["_COMPILE", "_RUN"])
def test_a_program_that_cannot_be_started_is_no_fault_of_the_source(
    monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    async def run() -> None:
        async with LocalSandbox(workers=1) as sandbox:
            compiler = Compiler(sandbox, COMPILE_SECONDS, COMPILE_MB)
            with monkeypatch.context() as patch:
                patch.setattr(cpp, driver, FILL + getattr(cpp, driver))
                with pytest.raises(SandboxError, match="other processes"):
                    await compiler.run("int main(){}", None, Limits())
            assert (await compiler.run("int main(){}", None, Limits())).ok

    asyncio.run(run())


class FullSandbox:
    """The compiler tries for fifteen seconds to start its parts, and says this."""

    total, workers = 1 << 40, 1
    said = "g++: fatal error: cannot execute ‘as’: vfork: Resource temporarily unavailable\ncompilation terminated.\n"

    async def run_driver(self, code: str, stdin: str, file: int, limits: Limits, **_: float) -> Result:
        return Result(status="error", stdout="", stderr=self.said, error=None, seconds=15.0, exit_code=cpp._WAITED)


def test_a_compiler_that_cannot_start_its_parts_is_no_fault_of_the_source() -> None:
    compiler = Compiler(cast(LocalSandbox, FullSandbox()), 30.0, 256)
    with pytest.raises(SandboxError, match="other processes"):
        asyncio.run(compiler.run("int main(){}", None, Limits()))


def test_a_source_cannot_pass_for_a_compiler_that_cannot_start_its_parts() -> None:
    said = "g++: fatal error: cannot execute 'as': vfork: Resource temporarily unavailable"
    result = outcome(f'#line 1 "x\\n{said}\\ny"\n#error x', Limits())
    assert result.status == "error"
    assert said in result.stderr.splitlines()


def test_threads_that_the_user_starts_later_leave_programs_theirs() -> None:
    """Without namespaces, the kernel's limit counts all of them."""
    others = (
        f"import os, threading\nif os.geteuid() == 0: os.setuid({NOBODY})\nwait = threading.Event().wait\n"
        "for _ in range(100): threading.Thread(target=wait, daemon=True).start()\n"
        "print(flush=True); wait()"
    )

    async def run() -> None:
        async with LocalSandbox(workers=1, level="no-namespaces") as sandbox:
            compiler = Compiler(sandbox, COMPILE_SECONDS, COMPILE_MB)
            assert (await compiler.run("int main(){}", None, Limits())).ok
            with subprocess.Popen([sys.executable, "-c", others], stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()
                try:
                    result = await compiler.run("int main(){return 0;}", None, Limits())
                finally:
                    process.kill()
            assert result.ok, result

    asyncio.run(run())
