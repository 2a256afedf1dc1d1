"""The hostile snippets through the service, and what only a service has to lose."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rstar.judge.client import JudgeClient
from rstar.judge.wire import CallLimits, Submission
from tests.judge.services import serving
from tests.sandbox.hostile import CASES, expand

TOKEN = "a-token-that-must-not-leak"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("judge")
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    header = {"Authorization": f"Bearer {TOKEN}"}
    with serving(folder, "--token-file", str(folder / "token"), headers=header) as (found, _):
        yield found


def test_contained(url: str) -> None:
    """All at once, each with a harmless one beside it."""

    async def run() -> None:
        async with JudgeClient(url, TOKEN) as client:

            async def attack(code: str) -> str:
                limits = CallLimits(seconds=0.5, shown=100_000)
                attacking = client.run(Submission(type="python", solution=code, limits=limits))
                harmless = client.run(Submission(type="python", solution="print(6 * 7)", expected_output="42"))
                report, other = await asyncio.gather(attacking, harmless)
                assert other.success, (code, other)
                return report.stdout or ""

            codes = [case.code for case in CASES if "\x00" not in case.code]
            for code, stdout in zip(codes, await asyncio.gather(*map(attack, codes)), strict=True):
                assert "LEAK" not in stdout, code

    asyncio.run(run())


PORT = "import socket\ns = socket.create_connection(('127.0.0.1', {port}), 2)\nprint('LEAK')"


ENVIRONMENT = f"""
import os
seen = str(os.environ)
try:
    seen += open('/proc/self/environ').read() + open('/proc/1/environ').read()
except OSError:
    pass
print('LEAK' if {TOKEN!r} in seen else 'clean')
"""
SOCKET = "import glob\nprint('LEAK' if glob.glob('/tmp/rstar-judge-*') else 'clean')"
FILES_CPP = """
#include <fstream>
#include <iostream>
int main() { std::ifstream file("/etc/passwd"); std::cout << (file.good() ? "LEAK" : "clean"); }
"""
OTHERS_CPP = """
#include <csignal>
#include <iostream>
#include <unistd.h>
int main() {
    int found = 0;
    for (int other = 2; other < 40000; other++) if (other != getpid() && !kill(other, 0)) found++;
    std::cout << (found ? "LEAK" : "clean");
}
"""


def test_the_service_itself_is_out_of_reach(url: str) -> None:
    reach = PORT.format(port=url.rpartition(":")[2])
    programs = [("python", code) for code in (reach, ENVIRONMENT, SOCKET)] + [("cpp", FILES_CPP), ("cpp", OTHERS_CPP)]

    async def run() -> None:
        async with JudgeClient(url, TOKEN) as client:
            for kind, code in programs:
                report = await client.run(Submission.model_validate({"type": kind, "solution": code}))
                assert "LEAK" not in (report.stdout or ""), report
                assert report.status in (("error",) if code is reach else ("ok",)), report

    asyncio.run(run())


def test_jobs_see_nothing_of_each_other(url: str, tmp_path: Path) -> None:
    leave = "open('left', 'w').write('x')\nimport builtins, time\nbuiltins.left = 1\ntime.sleep(0.5)"
    find = "import builtins, os\nprint('LEAK' if os.listdir('.') or hasattr(builtins, 'left') else 'clean')"
    native = '#include <fstream>\n#include <unistd.h>\nint main(){std::ofstream("left")<<1;if(!fork())sleep(100);}'

    async def run() -> None:
        async with JudgeClient(url, TOKEN) as client:
            both = [*[leave, find] * 10]
            reports = await asyncio.gather(*(client.run(Submission(type="python", solution=code)) for code in both))
            assert {report.stdout for report in reports[1::2]} == {"clean\n"}
            report = await client.run(Submission(type="cpp", solution=native))
            assert report.run_success
            assert (await client.run(Submission(type="python", solution=find))).stdout == "clean\n"

    asyncio.run(run())


def test_short_forms_are_written_out() -> None:
    assert "refused" in expand("refused: open('/etc/shadow')")
