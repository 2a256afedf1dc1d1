"""The processes of a service: stopped ones are replaced, and folders of dead services are cleaned up."""

import asyncio
import math
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from rstar.judge.bench import descendants
from rstar.judge.client import JudgeClient
from rstar.judge.wire import CallLimits, Submission
from tests.judge.services import Service, children, serving, wait_for

IMPATIENT = "import rstar.judge.service as s; s._SILENCE_SECONDS = 3.0"
"""The parent replaces processes after three seconds; the sandboxes' own watchdogs have the deadlines of every day."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    with serving(tmp_path_factory.mktemp("judge"), workers=5, setup=IMPATIENT) as found:  # two worker processes
        yield found


def workers(service: Service) -> list[int]:
    return service.children("worker")


def keepers(service: Service) -> list[int]:
    """The zygotes of one worker."""
    return children(workers(service)[0])


def templates(service: Service) -> list[int]:
    """What programs are forked from, in all workers: the first child of each zygote."""
    zygotes = [zygote for worker in workers(service) for zygote in children(worker)]
    return [min(found, key=_started) for found in map(children, zygotes) if found]


def _started(process: int) -> float:
    """When a process began, in clock ticks; its number does not tell, because numbers are used again.

    Infinite for one that has ended since it was listed.
    """
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return math.inf


def api(service: Service) -> list[int]:
    return service.children("server")


@pytest.mark.parametrize("victims", [workers, keepers, templates, api])
def test_what_does_not_answer_is_replaced_and_its_calls_are_done(
    service: tuple[str, Service], victims: Callable[[Service], list[int]]
) -> None:
    url, processes = service
    stopped: list[int] = []

    async def run() -> None:
        async with JudgeClient(url) as client:

            async def call(number: int) -> str | None:
                code = f"import time; time.sleep(0.2)\nprint({number})"
                limits = CallLimits(seconds=30)  # its own time is not to end it
                return (await client.run(Submission(type="python", solution=code, limits=limits))).stdout

            under_way = asyncio.gather(*(call(number) for number in range(60)))
            await asyncio.sleep(0.3)
            stopped.extend(victims(processes))
            assert stopped
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            assert await under_way == [f"{number}\n" for number in range(60)]
            assert await call(60) == "60\n"

    asyncio.run(asyncio.wait_for(run(), 90))
    wait_for(lambda: not any(map(is_stopped, stopped)))
    wait_for(lambda: httpx.get(f"{url}/status", timeout=60).json()["num_workers"] == 5)


def is_stopped(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def folders(temp: Path) -> set[str]:
    return {folder.name for folder in temp.iterdir()}


def runs(url: str) -> bool:
    reply = httpx.post(f"{url}/run", json={"type": "python", "solution": "print(1)"}, timeout=60).json()
    return bool(reply["stdout"] == "1\n")


def test_the_next_service_cleans_up_after_a_killed_one_and_lets_the_living_be(tmp_path: Path) -> None:
    temp = tmp_path / "t"
    temp.mkdir()
    with serving(tmp_path, "--level", "limits", workers=1, temp=temp) as (url, killed):
        assert runs(url)
        left, below = folders(temp), descendants(killed.process.pid)
        assert {name.rsplit("-", 1)[0] for name in left} == {"rstar-judge", "rstar-sandbox"}
        killed.process.kill()
        killed.process.wait()
        wait_for(lambda: not any(Path(f"/proc/{process}").exists() for process in below))
        assert folders(temp) == left
        with serving(tmp_path, "--level", "limits", workers=1, temp=temp) as (first, _):
            living = folders(temp)
            assert not left & living
            with serving(tmp_path, "--level", "limits", workers=1, temp=temp) as (second, _):
                assert living < folders(temp)
                assert runs(first)
                assert runs(second)
            assert folders(temp) == living
            assert runs(first)
        assert not folders(temp)


@pytest.mark.parametrize("level", ["full", "no-namespaces"])
def test_the_mask_of_the_caller_keeps_no_worker_from_working(tmp_path: Path, level: str) -> None:
    setup = "import os; os.umask(0o077)"
    with serving(tmp_path, "--level", level, workers=1, setup=setup) as (url, _):
        main = '#include <fstream>\nint main() { std::ofstream("x") << 1; return !std::ifstream("x").good(); }'
        programs = [("python", "open('x', 'w').write('1')\nassert open('x').read() == '1'"), ("cpp", main)]
        for kind, code in programs:
            report = httpx.post(f"{url}/run", json={"type": kind, "solution": code}, timeout=60).json()
            assert report["run_success"], report
        session = httpx.post(f"{url}/sessions").json()["session_id"]
        for code in ("open('x', 'w').write('1')", "assert open('x').read() == '1'"):
            cell = httpx.post(f"{url}/sessions/{session}/run", json={"code": code}, timeout=60).json()
            assert cell["status"] == "ok", cell
