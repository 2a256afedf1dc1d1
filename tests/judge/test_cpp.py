"""C++ that takes what it can: compilers and groups of processes are bounded as a whole."""

import asyncio
import os
import time

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
