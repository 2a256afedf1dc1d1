"""C++ that takes what it can: compilers and groups of processes are bounded as a whole."""

import asyncio
import os
import time
from typing import cast

import pytest

from rstar.judge.cpp import Compiler
from rstar.judge.load import descendants
from rstar.sandbox import Limits, LocalSandbox, Result

COMPILE_SECONDS, COMPILE_MB = 4.0, 300

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
TIME_BOMB = """
template<int n, unsigned m> struct A { static const unsigned x = A<n - 1, m * 2>::x + A<n - 1, m * 2 + 1>::x; };
template<unsigned m> struct A<0, m> { static const unsigned x = m; };
int main() { return A<26, 1>::x; }
"""
MEMORY_BOMB = (
    "#define A0 1\n" + "".join(f"#define A{n + 1} {','.join([f'A{n}'] * 10)}\n" for n in range(9)) + "int x[]={A9};"
)
TALK_BOMB = "#error " + "x" * 60 + '\n#include "main.cpp"'


def outcome(source: str, limits: Limits) -> tuple[Result, float]:
    """What became of a program, and the seconds that it took. It leaves no process."""

    async def run() -> tuple[Result, float]:
        async with LocalSandbox(workers=2) as sandbox:
            compiler = Compiler(sandbox, COMPILE_SECONDS, COMPILE_MB)
            assert (await compiler.run("int main(){}", None, limits)).ok  # the processes that are to stay
            own = descendants(os.getpid())
            started = time.monotonic()
            result = await compiler.run(source, None, limits)
            seconds = time.monotonic() - started
            while len(descendants(os.getpid())) > len(own):
                await asyncio.sleep(0.05)
            return result, seconds

    return asyncio.run(asyncio.wait_for(run(), 25))


@pytest.mark.parametrize(
    ("source", "status"),
    [(BUSY, "timeout"), (LEFT, "ok"), (GREEDY, "memory"), (TALKING, "output_limit")],
    ids=["busy", "left", "greedy", "talking"],
)
def test_a_group_of_processes_has_the_limits_of_one(source: str, status: str) -> None:
    result, seconds = outcome(source, Limits(2.0, memory_mb=128))
    assert result.status == status
    assert result.seconds < 3.0
    assert seconds < 7.0  # with compiling
    assert len(result.stdout) <= 1_000_000


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
    result, seconds = outcome(source, Limits(2.0))
    assert result.status in status
    assert said in result.stderr or result.status == said
    assert len(result.stderr) <= 64_000
    assert seconds < 2 * COMPILE_SECONDS


class CountingSandbox:
    """Compiles nothing within the time."""

    def __init__(self) -> None:
        self.compiled = 0

    async def drive(self, code: str, stdin: str, file: int, limits: Limits) -> Result:
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
