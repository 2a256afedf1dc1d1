"""Runs share nothing that they can write: no memory, no open files, no locks, no place in a count of the kernel."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from rstar.sandbox import LocalSandbox, Result, State
from rstar.sandbox.levels import Level

from .conftest import QUICK, Box, descendants, settles

STRONG: tuple[Level, ...] = ("full", "no-namespaces")


def siblings(box: Box, first: str, *codes: str) -> list[Result]:
    """Run `first`, and each of `codes` from the state that it leaves, one after the other."""

    async def branch() -> list[Result]:
        start = box.sandbox.start()
        state, result = await start.run(first)
        assert state is not None, result
        found = [result]
        for code in codes:
            after, result = await state.run(code)
            found.append(result)
            if after is not None:
                after.release()
        state.release()
        return found

    return box.do(branch())


def test_no_writable_memory_is_shared(box: Box) -> None:
    """Of all processes of a sandbox: those that wait, and those that run model-written code."""
    shared: list[str] = []

    async def look() -> None:
        sleeps = "import time\ntime.sleep(3)"
        state, _ = await box.sandbox.start().run("x = 1")
        assert state is not None
        runs = [asyncio.create_task(run) for run in (box.sandbox.run(sleeps), state.run(sleeps))]
        await asyncio.sleep(0.5)
        for process in descendants(os.getpid()):
            with suppress(FileNotFoundError):  # it has just ended
                maps = Path(f"/proc/{process}/maps").read_text().splitlines()
                shared.extend(line for line in maps if line.split()[1][1] == "w" and line.split()[1][3] == "s")
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    box.do(look())
    assert shared == []


def test_memory_of_a_state_cannot_be_shared(box: Box) -> None:
    made, *_ = siblings(box, "import mmap\ntry:\n    mmap.mmap(-1, 4096)\nexcept OSError:\n    print('refused')")
    assert made.stdout == "refused\n"
    private = "import mmap\nm = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)"
    _, *seen = siblings(box, private, *["print(m[0])\nm[0] = 7"] * 3)
    assert [result.stdout for result in seen] == ["0\n"] * 3


# What a step leaves open, and what each later step must find however often others have run from the same state.
OPEN = {
    "file position": (
        "open('f', 'w').write('abcdef')\nf = open('f')\nf.read(1)",
        "print(f.read(2))",
        "bc\n",
    ),
    "file being written": (
        "import os\nf = open('f', 'w+')\nf.write('a')\nf.flush()",
        "f.write('b')\nf.flush()\nprint(open('f').read())",
        "ab\n",
    ),
    "file of the library": (
        "import os\nf = open(os.__file__)\nf.seek(10)",
        "print(f.tell())\n_ = f.seek(500)",
        "10\n",
    ),
    "socket pair": (
        "import socket\na, b = socket.socketpair()\n_ = a.send(b'x')",
        "print(b.recv(9))\n_ = a.send(b'yy')",
        "b'x'\n",
    ),
    "thread": (
        "import threading, queue\nq = queue.Queue()\nout = queue.Queue()\n"
        "def work():\n    while True:\n        out.put(q.get() + 1)\n"
        "threading.Thread(target=work, daemon=True).start()",
        "q.put(4)\nprint(out.get(timeout=15))",
        "5\n",
    ),
    "pool of threads": (
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\n"
        "_ = pool.submit(pow, 2, 3).result()",
        "print(pool.submit(pow, 2, 5).result(timeout=15))",
        "32\n",
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_each_run_has_its_own(box: Box, name: str) -> None:
    first, code, expected = OPEN[name]
    _, *seen = siblings(box, first, *[code] * 3)
    assert [(result.status, result.stdout) for result in seen] == [("ok", expected)] * 3


def test_a_chain_of_states_that_cannot_be_copied_goes_on_in_one_process(box: Box) -> None:
    results = box.steps("import os\nf = open('f', 'w')\nprint(os.times().user)", *["print(id(f))"] * 30)
    assert len({result.stdout for result in results[1:]}) == 1


def test_at_the_same_time(box: Box) -> None:
    async def race() -> list[str]:
        state, _ = await box.sandbox.start().run("import socket\na, b = socket.socketpair()\nn = 0")
        assert state is not None
        found = await asyncio.gather(*(state.run(f"_ = a.send(b'{k}')\nprint(b.recv(9))") for k in range(6)))
        state.release()
        return [result.stdout for _, result in found]

    assert box.do(race()) == [f"b'{k}'\n" for k in range(6)]


HACKS_FORKS = """
import os, socket, sys
frame = sys._getframe()
while frame.f_code.co_name != 'serve':
    frame = frame.f_back
space = frame.f_globals
fork = space['_fork']
"""
KEEPS = {
    "one that it has just opened": """
def forks(*arguments):
    global a, b
    a, b = socket.socketpair()
    return fork(*arguments)
space['_fork'] = forks
""",
    "one on the number of a stream": """
a, b = socket.socketpair()
os.dup2(a.fileno(), 0), os.dup2(b.fileno(), 2)
a.close(), b.close()
sys.stdin = sys.stderr = None
dup2 = os.dup2
os.dup2 = lambda fd, target, *rest: target if target in (0, 2) else dup2(fd, target, *rest)
os.closerange = lambda first, last: None
""",
    "the link of the state instead of its own": """
def forks(link, fork, fd):
    if fork() == 0:
        os.closerange(0, 3)
        os.write(fd, b'hello')
    os.close(fd)
    return link
space['_fork'] = forks
""",
}


@pytest.mark.parametrize("level", STRONG)
@pytest.mark.parametrize("name", KEEPS)
def test_a_hacked_fork_that_keeps_a_descriptor_is_refused(level: Level, name: str) -> None:
    """The interpreter in a run is the run's own: it may do anything when it forks."""

    async def work() -> list[Result]:
        async with LocalSandbox(level, workers=2, limits=QUICK) as sandbox:
            state, result = await sandbox.start().run(HACKS_FORKS + KEEPS[name])
            assert state is not None, result
            return [(await state.run("print(1)"))[1] for _ in range(2)]

    assert [result.status for result in asyncio.run(work())] == ["killed"] * 2


@pytest.mark.parametrize("code", ["fcntl.flock(f, fcntl.LOCK_EX)", "fcntl.lockf(f, fcntl.LOCK_SH)"])
def test_locks_of_library_files_reach_nobody(box: Box, code: str) -> None:
    async def hold() -> None:
        holds = f"import fcntl, os, time\nf = open(os.__file__)\n{code}\nprint('held', flush=True)\ntime.sleep(2)"
        holder = asyncio.create_task(box.sandbox.run(holds))
        await asyncio.sleep(0.5)
        path = os.__file__
        with open(path) as file:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            probe = bytes(fcntl.fcntl(file, fcntl.F_GETLK, b"\1\0\0\0" + bytes(28)))
            assert int.from_bytes(probe[:2], "little") == fcntl.F_UNLCK
        assert (await holder).stdout == "held\n"

    box.do(hold())


def test_database_in_the_scratch_folder(box: Box) -> None:
    """Locks are there for those who ask for them."""
    makes = "import sqlite3\nd = sqlite3.connect('d')\nd.execute('create table t (x)')"
    code = f"{makes}\nd.execute('insert into t values (3)')"
    assert box.run(f"{code}\nd.commit()\nprint(d.execute('select x from t').fetchall())").stdout == "[(3,)]\n"


def test_flags_of_standard_input_are_a_runs_own(box: Box) -> None:
    sets = "import fcntl\nfcntl.fcntl(0, fcntl.F_SETFL, 0o4000)"
    tells = "import fcntl\nprint(fcntl.fcntl(0, fcntl.F_GETFL) & 0o4000)"
    assert box.run(f"{sets}\n{tells}").stdout == "2048\n"
    assert box.run(tells).stdout == "0\n"
    _, *seen = siblings(box, "x = 1", sets, tells)
    assert seen[1].stdout == "0\n"


def test_standard_input_cannot_be_written(box: Box) -> None:
    code = "import os\ntry:\n    os.write(0, b'x')\nexcept OSError:\n    print('refused', input())"
    assert box.run(code, stdin="line").stdout == "refused line\n"


FUTEX = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
library = os.open(os.__file__, os.O_RDONLY)
page = libc.mmap(None, 4096, 1, 2, library, 0)
number = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
seconds = (ctypes.c_long * 2)(2, 0)
def futex(operation, value, timeout=None):
    return libc.syscall(number, ctypes.c_void_p(page), operation, ctypes.c_uint32(value), timeout, None, -1)
"""
WAITS = """
word = ctypes.c_uint32.from_address(page).value
print(futex({}, word, ctypes.byref(seconds)), ctypes.get_errno())
"""
WAKES = """
import time
end = time.monotonic() + 1
while time.monotonic() < end and futex({0}, 9) <= 0: pass
print(futex({0}, 9))
"""


@pytest.mark.parametrize("level", STRONG)
@pytest.mark.parametrize(("wait", "wake"), [(0, 1), (9, 10)], ids=["plain", "bitset"])
def test_nobody_waits_for_another_on_a_page_of_a_library(level: Level, wait: int, wake: int) -> None:
    async def work() -> tuple[str, ...]:
        async with LocalSandbox(level, workers=2, limits=QUICK) as sandbox:
            waits, wakes = FUTEX + WAITS.format(wait), FUTEX + WAKES.format(wake)
            programs = await asyncio.gather(sandbox.run(waits), sandbox.run(wakes))
            states = await asyncio.gather(sandbox.start().run(waits), sandbox.start().run(wakes))
            return tuple(result.stdout for result in (*programs, *(result for _, result in states)))

    assert asyncio.run(work()) == (f"-1 {errno.EAGAIN}\n", "-1\n") * 2


def test_descriptors_under_way_count_for_nobody_else(box: Box) -> None:
    """The kernel counts them by user, and then refuses every process of that user to send one."""
    sends = (
        "import array, socket, time\na, b = socket.socketpair()\n"
        "fds = array.array('i', [a.fileno()] * 100)\n"
        "try:\n    for _ in range(9):\n        a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])\n"
        "except OSError as error:\n    print('refused', error.errno)\nprint('sent', flush=True)\ntime.sleep(1)"
    )

    async def work() -> None:
        hostile = asyncio.create_task(box.sandbox.run(sends))
        in_state = asyncio.create_task(box.sandbox.start().run(sends))
        await asyncio.sleep(0.4)
        _, result = await box.sandbox.start().run("print(1)")
        assert result.stdout == "1\n"
        assert (await hostile).stdout == (await in_state)[1].stdout == "refused 1\nsent\n"

    box.do(work())


def test_a_state_is_born_while_many_descriptors_are_under_way(box: Box) -> None:
    """As on a busy machine: those of all states count together, as they belong to one user."""
    queues = (
        "import array, os, socket\nif os.getuid() == 0:\n    os.setresuid(65534, 65534, 65534)\n"
        "a, b = socket.socketpair()\nfds = array.array('i', [a.fileno()] * 200)\n"
        "a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])\nprint('queued', flush=True)\ninput()"
    )
    with subprocess.Popen((sys.executable, "-c", queues), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"queued\n"
        _, result = box.do(box.sandbox.start().run("print(1)"))
        other.communicate(b"\n")
    assert result.stdout == "1\n"


@pytest.mark.parametrize("level", STRONG)
def test_sockets_of_the_host_are_out_of_reach(level: Level, tmp_path: Path) -> None:
    """Also those that are reached without a connection."""
    tmp_path.chmod(0o755)
    place = tmp_path / "host"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(str(place))
        place.chmod(0o777)
        host.setblocking(False)
        code = (
            "import socket\nfor kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n"
            f"    try:\n        socket.socketpair(type=kind)[0].sendto(b'LEAK', {str(place)!r})\n"
            "    except OSError:\n        print('refused')"
        )

        async def work() -> Result:
            async with LocalSandbox(level, limits=QUICK) as sandbox:
                return await sandbox.run(code)

        assert asyncio.run(work()).stdout == "refused\n" * 3
        with pytest.raises(BlockingIOError):
            host.recv(9)


def test_forks_that_nobody_greets_die(box: Box) -> None:
    """A step that reports its own end, and forks by itself whenever the keeper lets it fork."""
    stray = (
        "import ctypes, sys, socket, time\nframe = sys._getframe()\n"
        "while frame.f_code.co_name != 'serve':\n    frame = frame.f_back\n"
        "link, fork = frame.f_locals['link'], frame.f_locals['fork']\n"
        'link.send(b\'{"status": "ok"}\')\n'
        "while True:\n"
        "    try:\n        if fork() == 0:\n            time.sleep(60)\n"
        "    except OSError:\n        time.sleep(0.01)"
    )
    before = descendants(os.getpid())

    async def work() -> None:
        state: State | None
        state, result = await box.sandbox.start().run(stray)
        assert (state is not None, result.status) == (True, "ok")
        assert state is not None
        limits = QUICK.__class__(seconds=0.3, memory_mb=128, scratch_mb=4)
        await asyncio.gather(*(state.run("x = 1", limits) for _ in range(4)))
        state.release()

    box.do(work())
    assert settles(lambda: len(descendants(os.getpid()) - before) <= 1), "more is left than the keeper of the tree"


BREAKS_ITS_FOLDER = {
    "takes the names of others": "for n in range(200):\n    open(f'../{n}', 'w')",
    "makes folders with the names of others": "for n in range(200):\n    os.mkdir(f'../{n}')",
    "takes the folder above away": "os.chmod('..', 0)",
    "takes its own folder away": "os.chmod('.', 0)",
    "moves its own folder": "os.rename(os.getcwd(), '../away')",
    "uses all numbers of files": "n = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'w')",
    "uses all room": "open('f', 'wb').write(bytes(1 << 30))",
    "goes deep": "while True:\n    os.mkdir('d')\n    os.chdir('d')",
    "leaves nothing readable": "os.mkdir('d')\nopen('d/f', 'w')\nos.chmod('d', 0)",
}


@pytest.mark.parametrize("level", STRONG)
@pytest.mark.parametrize("name", BREAKS_ITS_FOLDER)
def test_what_a_run_does_to_its_folder_is_its_own_affair(level: Level, name: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    attack = f"import os\ntry:\n{textwrap.indent(BREAKS_ITS_FOLDER[name], '    ')}\nexcept OSError:\n    pass"

    async def work() -> None:
        async with LocalSandbox(level, workers=4, limits=QUICK, folder=tmp_path) as sandbox:
            start = sandbox.start()
            state, _ = await start.run("open('kept', 'w').write('kept')")
            assert state is not None
            for _ in range(2):
                runs = await asyncio.gather(
                    state.run(attack),
                    *(state.run("print(open('kept').read())") for _ in range(3)),
                    start.run("print(1)"),
                )
                assert [result.stdout for _, result in runs[1:]] == ["kept\n"] * 3 + ["1\n"]
                broken = runs[0][0]
                if broken is not None:  # what runs from here may end in any way, as a result
                    await asyncio.gather(*(broken.run("print(open('kept').read())") for _ in range(2)))
            assert (await sandbox.run("print(2)")).stdout == "2\n"

    asyncio.run(work())


@pytest.mark.parametrize("level", STRONG)
@pytest.mark.parametrize("name", ["NSpid: x", "NSpid:", "NSpid: 1", "\\xff\\xfe", "a\\nNSpid:\\t7"])
def test_the_name_of_a_thread_tells_the_keeper_nothing(level: Level, name: str) -> None:
    named = f"import ctypes, time\nctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)\ntime.sleep(0.6)\nprint(1)"

    async def run() -> list[Result]:
        async with LocalSandbox(level, workers=2, limits=QUICK) as sandbox:
            others = [sandbox.run(f"import time\ntime.sleep(0.2)\nprint({n})") for n in range(4)]
            return await asyncio.gather(sandbox.run(named), *others)

    assert {result.status for result in asyncio.run(run())} == {"ok"}


@pytest.mark.parametrize("level", STRONG)
def test_no_memory_is_beyond_the_limit(level: Level) -> None:
    """Shared maps of /dev/zero count for no process, and what is left of huge pages is not seen."""
    huge = """
        import ctypes, mmap, resource
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        space = mmap.mmap(-1, 80 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        space.madvise(14)
        for place in range(0, 80 << 20, 2 << 20):
            space[place] = 1
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """

    async def run() -> tuple[Result, Result]:
        async with LocalSandbox(level, workers=2, limits=QUICK) as sandbox:
            return await sandbox.run("open('/dev/zero', 'rb')"), await sandbox.run(textwrap.dedent(huge))

    zero, grown = asyncio.run(run())
    assert zero.error is not None
    assert zero.error.kind in ("FileNotFoundError", "PermissionError")
    assert int(grown.stdout) < 20_000  # KB
