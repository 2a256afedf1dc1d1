"""What no caller may do to the others: odd texts, too much of anything, sessions in use, busy processors."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from rstar.errors import ConfigError
from rstar.judge.client import JudgeClient, JudgeError, JudgeSandbox
from rstar.judge.server.guard import MAX_BODY
from rstar.judge.wire import Submission
from rstar.sandbox import LocalSandbox
from tests.judge.services import Redis, Service, free_port, serving

HALF = "\ud800"
SPIN = "import time\nwhile time.thread_time() < 0.25: pass\nprint(1)"
THREADED = f"import threading\nt = threading.Thread(target=lambda: exec({SPIN!r}))\nt.start()\nt.join()"
CPP = '#include <ctime>\n#include <cstdio>\nint main(){while(clock()<250000);puts("1");}'


@pytest.fixture(scope="module", params=["memory", "redis"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    more: tuple[str, ...] = ()
    server = None
    if request.param == "redis":
        server = Redis(tmp_path_factory.mktemp("redis"))
        server.start()
        more = ("--redis", server.url)
    with serving(tmp_path_factory.mktemp("judge"), "--idle-seconds", "2", *more) as found:
        yield found
    if server is not None:
        server.stop()


def send(url: str, path: str, body: Any) -> httpx.Response:
    """JSON as it comes: with halves of characters and with NaN."""
    return httpx.post(
        f"{url}{path}", content=json.dumps(body), headers={"content-type": "application/json"}, timeout=150
    )


@pytest.mark.parametrize("field", ["solution", "input", "expected_output"])
@pytest.mark.parametrize("kind", ["python", "cpp", "math"])
def test_half_a_character_is_invalid_input_and_costs_no_worker(
    service: tuple[str, Service], kind: str, field: str
) -> None:
    body = {"type": kind, "solution": "1", "expected_output": "1", field: f"#{HALF}"}
    for _ in range(6):  # more than there are places
        reply = send(service[0], "/run", body).json()
        assert (reply["reason"], reply["success"]) == ("invalid_input", False)
        assert "surrogate" in reply["stderr"]
    good = send(service[0], "/run", {"type": "python", "solution": "print(1)", "expected_output": "1"}).json()
    assert good["success"]


def test_half_a_character_in_one_of_a_batch_leaves_the_others_alone(service: tuple[str, Service]) -> None:
    good = {"type": "python", "solution": "print(1)", "expected_output": "1", "sub_id": HALF}
    reply = send(service[0], "/run/batch", {"submissions": [good, {"type": "python", "solution": HALF}, good]}).json()
    assert [one["reason"] for one in reply["results"]] == ["", "invalid_input", ""]
    assert [one["success"] for one in reply["results"]] == [True, False, True]


def test_half_a_character_in_a_cell(service: tuple[str, Service]) -> None:
    session = httpx.post(f"{service[0]}/sessions").json()["session_id"]
    assert send(service[0], f"/sessions/{session}/run", {"code": HALF}).status_code == 400
    assert send(service[0], f"/sessions/{session}/run", {"code": "1"}).json()["stdout"] == "1\n"


@pytest.mark.parametrize(
    "body",
    [
        float("nan"),
        {"type": "python", "solution": "", "limits": {"seconds": float("nan")}},
        {"type": "python", "solution": "", "limits": {"seconds": float("inf")}},
        {"type": "python", "solution": "", "limits": {HALF: 1}},
        {"type": HALF, "solution": ""},
        {"type": "python", "input": HALF},
    ],
)
def test_what_cannot_be_sent_back_is_refused(service: tuple[str, Service], body: Any) -> None:
    reply = send(service[0], "/run", body)
    assert reply.status_code == 422
    assert {"loc", "msg", "type"} == set(reply.json()["detail"][0])


def test_a_body_can_be_too_large(service: tuple[str, Service]) -> None:
    body = json.dumps({"type": "python", "solution": "#" * MAX_BODY})
    assert httpx.post(f"{service[0]}/run", content=body, timeout=60).status_code == 413


def test_output_that_nobody_is_shown_goes_nowhere(service: tuple[str, Service]) -> None:
    program = {"type": "python", "solution": "print('é' * 400_000)", "expected_output": "é" * 400_000}
    reply = send(service[0], "/run", program | {"limits": {"shown": 5}}).json()
    assert (reply["stdout"], reply["success"], reply["truncated"]) == ("é" * 5, True, True)


def test_many_lines(service: tuple[str, Service]) -> None:
    submissions = [{"type": "math", "solution": str(n), "expected_output": "1", "sub_id": str(n)} for n in range(3_000)]
    headers = {"accept": "application/x-ndjson"}
    with httpx.stream(
        "POST", f"{service[0]}/run/long-batch", json={"submissions": submissions}, headers=headers, timeout=60
    ) as response:
        reports = [json.loads(line) for line in response.iter_lines()]
    assert sorted(int(report["sub_id"]) for report in reports) == list(range(3_000))
    assert [report["sub_id"] for report in reports if report["success"]] == ["1"]


def test_a_session_in_use_does_not_end(service: tuple[str, Service]) -> None:
    session = httpx.post(f"{service[0]}/sessions").json()["session_id"]
    for _ in range(4):
        assert send(service[0], f"/sessions/{session}/run", {"code": "x = 1", "fork": True}).status_code == 200
        time.sleep(0.8)
    slow = send(service[0], f"/sessions/{session}/run", {"code": "import time\ntime.sleep(4)\ny = 2"})
    assert slow.status_code == 200
    assert send(service[0], f"/sessions/{session}/run", {"code": "y"}).json()["stdout"] == "2\n"
    time.sleep(4)
    assert httpx.get(f"{service[0]}/sessions/{session}").status_code == 404


@pytest.mark.parametrize(("kind", "code"), [("python", THREADED), ("cpp", CPP)])
def test_waiting_for_a_processor_is_no_timeout(service: tuple[str, Service], kind: str, code: str) -> None:
    body = {"type": kind, "solution": code, "expected_output": "1", "limits": {"seconds": 1}}
    reply = send(service[0], "/run/long-batch", {"submissions": [body] * 10}).json()
    assert [one["reason"] for one in reply["results"]] == [""] * 10
    assert all(one["success"] for one in reply["results"])


def test_endless_threads_and_programs_make_room(service: tuple[str, Service]) -> None:
    threads = "import threading\nfor _ in range(2): threading.Thread(target=lambda: exec('while 1: pass')).start()"
    with ThreadPoolExecutor(2) as pool:
        bodies = [{"type": "python", "solution": threads}, {"type": "cpp", "solution": "int main(){for(;;);}"}]
        limits = {"limits": {"seconds": 3}}
        loops = [pool.submit(send, service[0], "/run", body | limits) for body in bodies]
        end = time.monotonic() + 5
        lowered: set[int] = set()
        while len(lowered) < 3 and time.monotonic() < end:
            lowered |= {task for task in _tasks(service[1].process.pid) if _nice(task) >= 10}
            time.sleep(0.1)
        assert len(lowered) >= 3
        assert [loop.result().json()["reason"] for loop in loops] == ["worker_timeout"] * 2


def _tasks(process: int) -> Iterator[int]:
    """Threads of a process and of all below it."""
    look = [process]
    while look:
        one = look.pop()
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                yield int(task)
                look += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
        except OSError:
            continue


def _nice(task: int) -> int:
    try:
        return os.getpriority(os.PRIO_PROCESS, task)
    except OSError:
        return 0


def test_a_code_of_any_size_and_a_link_that_is_not_the_program_s(service: tuple[str, Service]) -> None:
    reply = send(service[0], "/run", {"type": "python", "solution": "import sys; sys.exit(10**400)"}).json()
    assert (reply["run_success"], reply["exit_code"]) == (False, 1)
    forging = '#include <unistd.h>\nint main(){for(int f=3;f<64;f++)write(f,"{\\"status\\":\\"ok\\"}",15);return 7;}'
    reply = send(service[0], "/run", {"type": "cpp", "solution": forging}).json()
    assert (reply["run_success"], reply["exit_code"]) == (False, 7)
    reply = send(service[0], "/run", {"type": "python", "solution": "import os; os._exit(3)"}).json()
    assert (reply["status"], reply["exit_code"]) == ("killed", 3)
    reply = send(service[0], "/run", {"type": "python", "solution": "a = bytearray(10**9)"}).json()
    assert (reply["status"], reply["stderr"]) == ("memory", "MemoryError\n")


def test_a_call_is_refused_in_time_though_no_worker_can_say_so(service: tuple[str, Service]) -> None:
    workers = service[1].children("worker")
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    try:
        filling = [{"type": "python", "solution": "1"}] * 40
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(send, service[0], "/run/long-batch", {"submissions": filling})
            time.sleep(0.5)
            started = time.monotonic()
            reply = send(service[0], "/run", {"type": "python", "solution": "1"}).json()
            waited = time.monotonic() - started
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
            assert len(first.result().json()["results"]) == 40
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)
    assert reply["reason"] == "queue_timeout"
    assert waited < 60  # else until a worker goes on


def test_sleepers_of_one_client_do_not_hold_up_another(service: tuple[str, Service]) -> None:
    """140 calls that sleep, from one connection: more than there are places, and longer than any call may wait."""
    url, _ = service
    sleeper = {"type": "python", "solution": "import time; time.sleep(25)", "limits": {"seconds": 60}}

    def sleep() -> None:
        with httpx.Client(base_url=url, timeout=20) as client, pytest.raises(httpx.ReadTimeout):
            client.post("/run/long-batch", json={"submissions": [sleeper] * 140})

    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=url, timeout=100) as other:
        sleeping = pool.submit(sleep)
        time.sleep(7.0)  # as many as there are places for have begun
        count = 0
        while not sleeping.done():
            count += 1
            reply = other.post("/run", json={"type": "python", "solution": f"print({count})"}).json()
            assert (reply["reason"], reply["stdout"]) == ("", f"{count}\n")
        assert count >= 5
        sleeping.result()


# ---- the client


def test_mistakes_of_callers_are_told_at_once(service: tuple[str, Service]) -> None:
    async def run() -> None:
        async with JudgeClient(service[0]) as client:
            with pytest.raises(TypeError, match="Submission"):
                await client.run({"type": "python", "solution": "1"})  # type: ignore[arg-type]
            with pytest.raises(JudgeError, match="surrogate"):
                await client.run(Submission(type="python", solution=HALF))
            assert (await client.run(Submission(type="python", solution="print(1)"))).stdout == "1\n"

    asyncio.run(run())


def test_code_that_is_no_text_ends_as_in_the_local_sandbox(service: tuple[str, Service]) -> None:
    async def walk(sandbox: JudgeSandbox | LocalSandbox) -> list[tuple[str, str]]:
        async with sandbox:
            state, first = await sandbox.start().run("x = 5")
            assert state is not None
            state, second = await state.run(HALF)
            assert state is not None
            _, third = await state.run("x")
            results = [first, second, third, await sandbox.run(HALF)]
            return [(result.status, result.stdout + result.stderr) for result in results]

    remote = asyncio.run(walk(JudgeSandbox(JudgeClient(service[0]))))
    assert remote == asyncio.run(walk(LocalSandbox(workers=1)))


def test_addresses_that_are_none() -> None:
    with pytest.raises(ConfigError, match="http://host:8000"):
        JudgeClient("127.0.0.1:8000")


def test_a_service_does_not_start_without_its_redis(tmp_path: Path) -> None:
    port = free_port()
    for command in (("serve", "--port", "0"), ("worker",)):
        service = Service(*command, "--redis", f"redis://user:secret@127.0.0.1:{port}/0", log=tmp_path / "log")
        assert service.process.wait(100) == 2
        text = (tmp_path / "log").read_text()
        assert f"127.0.0.1:{port}" in text.replace("\n", "")
        assert "secret" not in text
