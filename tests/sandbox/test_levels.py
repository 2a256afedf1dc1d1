"""Isolation levels: probed by trying, refused when impossible, and what each one holds back."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rstar
from rstar.errors import IsolationError
from rstar.sandbox import LEVELS, Capabilities, Level, LocalSandbox, Result, probe
from rstar.sandbox.levels import Mechanism
from rstar.sandbox.parent.pool import isolation_error

from .conftest import QUICK

NOBODY = 65533
SOURCES = str(Path(rstar.__file__).parent.parent)


def run_at(level: Level, *codes: str) -> list[Result]:
    async def run() -> list[Result]:
        async with LocalSandbox(level, limits=QUICK) as sandbox:
            return [await sandbox.run(code) for code in codes]

    return asyncio.run(run())


def test_probe_agrees_with_what_starts() -> None:
    report = probe()
    assert [mechanism.name for mechanism in report.mechanisms] == ["namespaces", "landlock", "seccomp", "rlimits"]
    for level in LEVELS:
        if report.missing(level):
            with pytest.raises(IsolationError):
                run_at(level, "1")
        else:
            assert run_at(level, "6 * 7")[0].stdout == "42\n"


def test_report_names_what_is_missing() -> None:
    refused = Mechanism("namespaces", False, "PermissionError: no")
    report = Capabilities((refused, *(Mechanism(name, True) for name in LEVELS["no-namespaces"])))
    assert report.missing("full") == (refused,)
    assert report.levels == ("no-namespaces", "limits")
    assert report.strongest == "no-namespaces"
    assert Capabilities(tuple(Mechanism(name, False) for name in LEVELS["full"])).strongest is None


@pytest.mark.parametrize("level", [level for level in LEVELS if not probe().missing(level)])
def test_what_a_level_holds_back(level: Level) -> None:
    filtered, alone = level != "limits", level == "full"
    code = f"""
import os, socket
def refused(action):
    try:
        action()
    except OSError:
        return True
    return False
print(refused(lambda: open('/etc/hostname').read()) >= {filtered})
print(refused(lambda: socket.socket()) >= {filtered})
print(not {filtered} or refused(lambda: os.execv("/bin/true", ["true"])))
print((os.getpid() == 1) == {alone})
print(refused(lambda: os.stat('/proc/1')) == {alone})
print(refused(lambda: os.kill({os.getpid()}, 0)))
print(os.getuid() != 0)
open('file', 'w').write('x')
print(os.listdir('.'), len(os.environ) < 10)
"""
    result = run_at(level, code)[0]
    assert result.stdout.splitlines() == ["True"] * 7 + ["['file'] True"], result


@pytest.mark.parametrize("level", [level for level in LEVELS if not probe().missing(level)])
def test_forks_at_a_level(level: Level) -> None:
    """Where forks are possible at all, what was forked does not outlive the run."""
    marker = "rstar-orphan-of-a-test"
    code = (
        "import ctypes, os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    ctypes.CDLL(None).prctl(15, b'{marker[:15]}')\n"
        "    if os.fork() == 0: time.sleep(60)\n"
        "    os._exit(0)\n"
        "time.sleep(0.2)\n"
    )

    async def run() -> str:
        async with LocalSandbox(level, limits=QUICK) as sandbox:
            result = await sandbox.run(code)
            for _ in range(20):  # without namespaces, the kernel counts the processes of other tests, too
                if level != "limits" or result.error is None or result.error.kind != "BlockingIOError":
                    break
                await asyncio.sleep(0.5)
                result = await sandbox.run(code)
            await sandbox.run("1")
            async with asyncio.timeout(10):
                while _named(marker[:15]):
                    await asyncio.sleep(0.05)
            return result.status

    assert asyncio.run(run()) == ("ok" if level == "limits" else "error")


def _named(name: str) -> list[str]:
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{process}/comm").read_text(errors="replace").strip() == name:
                found.append(process)
        except OSError:
            continue
    return found


def test_scratch_in_total_is_watched_without_namespaces() -> None:
    code = "import time\nfor i in range(1000):\n    open(str(i), 'wb').write(bytes(1 << 20))\n    time.sleep(0.01)\n"
    result = run_at("no-namespaces", code)[0]
    assert result.status == "killed"


WRITES_FILES = """
import os, time
time.sleep({before})
block = bytes(1 << 20)
for number in range(1_000):
    with open(str(number), "wb") as file:
        file.write(block)
    os.write(1, b"x")
"""


@pytest.mark.parametrize("before", [0, 5], ids=["at once", "after a while"])
def test_little_is_written_between_two_looks(before: float) -> None:
    """However long the run has been going on."""
    result = run_at("no-namespaces", WRITES_FILES.format(before=before))[0]
    assert result.status == "killed"
    assert len(result.stdout) < 150, "MB"


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "limits" and not probe().missing(level)])
def test_space_is_not_allocated_unseen(level: Level) -> None:
    """Beyond a file's end no scan would see it. The C library's own substitute works everywhere."""
    code = """
import ctypes, os
handle = os.open("f", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(handle, 0, 100_000)
print(os.fstat(handle).st_size)
libc = ctypes.CDLL(None)
for _ in range(20):
    unseen = os.open(str(_), os.O_RDWR | os.O_CREAT)
    libc.fallocate(unseen, 1, ctypes.c_long(0), ctypes.c_long(4 << 20))
print(sum(os.stat(name).st_blocks for name in os.listdir()) * 512 <= 5 << 20)
"""
    assert run_at(level, code)[0].stdout == "100000\nTrue\n"


@pytest.mark.parametrize(
    ("mechanism", "advice"),
    [("namespaces", "no-namespaces"), ("landlock", "limits"), ("seccomp", "limits"), ("identity", "ordinary user")],
)
def test_a_refusal_says_what_to_do(mechanism: str, advice: str) -> None:
    text = str(isolation_error("full", mechanism, "PermissionError: [Errno 1]"))
    assert "'full'" in text
    assert mechanism in text
    assert "Errno 1" in text
    assert advice in text


def test_refuses_to_run_weaker_than_asked() -> None:
    """In a place without user namespaces and without privileges."""
    script = (
        "import asyncio\nfrom rstar.sandbox import LocalSandbox, probe\nfrom rstar.errors import IsolationError\n"
        "async def main():\n"
        "    try:\n        await LocalSandbox('full').__aenter__()\n"
        "    except IsolationError as error:\n        print('refused:', error)\n"
        "    async with LocalSandbox('no-namespaces') as s:\n        print((await s.run('6 * 7')).stdout)\n"
        "    print(probe().levels)\n"
        "asyncio.run(main())\n"
    )
    if os.geteuid() != 0:
        pytest.skip("needs root to set the scene")
    settings = Path("/proc/sys/user/max_user_namespaces")
    done = as_user(
        script, wrap=["unshare", "--user", "--map-root-user", "sh", "-c", f'echo 0 > {settings} && exec "$@"', "sh"]
    )
    assert "refused: isolation level 'full' is not possible here: namespaces refused" in done, done
    assert "42" in done
    assert "('no-namespaces', 'limits')" in done


def as_user(script: str, wrap: list[str] | None = None) -> str:
    """What a script prints when an ordinary user runs it, with an interpreter that they may read."""
    candidates = [sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")]
    for python in filter(None, candidates):
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            done = subprocess.run(
                [*(wrap or []), python, "-c", script], capture_output=True, text=True, timeout=100, cwd="/",
                env={"PYTHONPATH": SOURCES, "PATH": "/usr/bin:/bin"}, check=False, **user,
            )  # fmt: skip
        except PermissionError:
            continue
        if "No such file" in done.stderr or "cannot exec" in done.stderr or "Permission denied" in done.stderr:
            continue
        return done.stdout + done.stderr
    pytest.skip("no interpreter that an ordinary user may run")


def test_as_an_ordinary_user() -> None:
    script = (
        "import asyncio, os\nfrom rstar.sandbox import LEVELS, Limits, LocalSandbox\n"
        "async def main():\n"
        "    assert os.getuid() != 0\n"
        "    for level in LEVELS:\n"
        "        async with LocalSandbox(level) as s:\n"
        "            one = await s.run('print(6 * 7)')\n"
        "            slow = await s.run('while True: pass', limits=Limits(seconds=0.3))\n"
        "            fat = await s.run('x = bytearray(1 << 30)')\n"
        '            files = await s.run(\'open("f", "w").write("x")\\nprint(open("f").read())\')\n'
        "            state, _ = await s.start().run('x = 20')\n"
        "            _, two = await state.run('x + 1')\n"
        "            print(level, one.stdout, slow.status, fat.status, files.stdout, two.stdout)\n"
        "asyncio.run(main())\n"
    )
    words = as_user(script).split()
    expected = [[level, "42", "timeout", "memory", "x", "21"] for level in LEVELS if not probe().missing(level)]
    assert words == [word for line in expected for word in line]


WRITES_TO_PIPES = """
import os
for process in range(max(1, os.getpid() - 2_000), os.getpid() + 50):
    for number in range(6):
        for flags in (os.O_WRONLY, os.O_RDONLY | os.O_NONBLOCK, os.O_RDWR):
            path = f"/proc/{process}/fd/{number}"
            try:
                handle = os.open(path, flags)
            except OSError:
                continue
            if os.path.samestat(os.fstat(handle), os.stat("/dev/null")) or process == os.getpid() and number == 0:
                continue
            print("opened", path)
            if flags != os.O_RDONLY | os.O_NONBLOCK:
                os.write(handle, b"LEAK")
"""


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "limits" and not probe().missing(level)])
def test_an_ordinary_user_s_steps_cannot_open_each_other_s_streams(level: Level) -> None:
    script = (
        "import asyncio, os\nfrom rstar.sandbox import Limits, LocalSandbox\n"
        "async def main():\n"
        f"    async with LocalSandbox({level!r}, limits=Limits(seconds=30)) as s:\n"
        "        start, _ = await s.start().run('x = 20')\n"
        "        sleeper = asyncio.create_task(start.run('import time; time.sleep(2)'))\n"
        "        program = asyncio.create_task(s.run('import time; time.sleep(2)'))\n"
        "        await asyncio.sleep(0.5)\n"
        f"        _, hostile = await start.run({WRITES_TO_PIPES!r})\n"
        "        print([hostile.status, hostile.stdout, (await sleeper)[1].stdout, (await program).stdout])\n"
        "asyncio.run(main())\n"
    )
    assert as_user(script) == "['ok', '', '', '']\n"
