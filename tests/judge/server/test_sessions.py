"""What travels with the cells of a session: no history, unless a worker misses it; and no more than there is room."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from rstar.judge.queue.broker import BusyError, QueueStatus
from rstar.judge.queue.jobs import Answer, Job
from rstar.judge.queue.quotas import ClientQuotas
from rstar.judge.server import app as api
from rstar.judge.server import calls, session_routes
from rstar.judge.server.guard import NoRoomError
from rstar.judge.server.sessions import Session, Sessions
from rstar.judge.settings import JudgeSettings


class Forgetful:
    """A queue whose worker knows the states that it has made, until it forgets them."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, int, str]] = []
        self.states: set[str] = set()
        self.given_up: list[str] = []

    def submit(self, job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        self.jobs.append((job.code, len(job.history), prefer))
        known = not job.state or job.state in self.states or job.history
        if known:
            self.states.add(job.id)
        future = asyncio.get_running_loop().create_future()
        future.set_result(Answer(job.id, "done" if known else "lost", "worker", lives=True))
        return future

    def forget(self, states: list[str], worker: str) -> None:
        self.given_up += states

    async def load(self) -> QueueStatus:
        return QueueStatus(0, 0, 1)

    async def __aenter__(self) -> "Forgetful":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.fixture
def broker() -> Forgetful:
    return Forgetful()


@pytest.fixture
def client(broker: Forgetful) -> Iterator[TestClient]:
    heartbeat_fd = os.open(os.devnull, os.O_WRONLY)
    with TestClient(api.create_app(broker, JudgeSettings(), "me", heartbeat_fd)) as client:
        yield client
    os.close(heartbeat_fd)


def begin(client: TestClient) -> str:
    return str(client.post("/sessions").json()["session_id"])


def run(client: TestClient, session: str, code: str) -> int:
    return client.post(f"/sessions/{session}/run", json={"code": code}).status_code


def test_history_travels_only_where_it_is_missing(client: TestClient, broker: Forgetful) -> None:
    session = begin(client)
    assert [run(client, session, code) for code in "abc"] == [200] * 3
    assert broker.jobs == [("a", 0, ""), ("b", 0, "worker"), ("c", 0, "worker")]
    broker.states.clear()
    assert run(client, session, "d") == 200
    assert broker.jobs[3:] == [("d", 0, "worker"), ("d", 3, "")]  # anybody can do it now
    assert run(client, session, "e") == 200
    assert broker.jobs[5:] == [("e", 0, "worker")]
    assert len(broker.given_up) == 4


def test_a_session_has_room_for_so_many_bytes_as_they_are_sent(
    client: TestClient, broker: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_routes, "MAX_BODY", 1_000)
    first, second = begin(client), begin(client)
    assert run(client, first, "中" * 300) == 413  # each is sent as three bytes
    assert [run(client, first, "x" * 300) for _ in range(4)] == [200, 200, 413, 413]
    assert client.get(f"/sessions/{first}").json()["cells"] == 2
    copy = client.post(f"/sessions/{first}/fork").json()["session_id"]
    assert run(client, copy, "x" * 300) == 413
    assert run(client, second, "x" * 300) == 200
    assert len(broker.jobs) == 3


def test_a_state_is_given_up_with_its_last_session() -> None:
    sessions = Sessions(ClientQuotas(9), ClientQuotas(9), idle=0.0)
    one = sessions.add(Session("s1", "w"))
    two = sessions.add(Session("s1", "w"))
    assert sessions.put(one, Session("s2", "w")) == []
    assert sessions.drop(two) == [("w", "s1")]
    with sessions.in_use(one):
        assert sessions.expire() == []
    assert sessions.expire() == [("w", "s2")]
    assert len(sessions) == 0


def test_no_host_has_all_sessions() -> None:
    sessions = Sessions(ClientQuotas(8), ClientQuotas(1_000), idle=9.0)

    def begin(host: str, size: int) -> bool:
        try:
            with sessions.reserve(host, 1, size):
                sessions.add(Session(host=host, memory=size))
        except NoRoomError:
            return False
        return True

    assert sum(begin("greedy", 10) for _ in range(20)) == 4
    assert sum(begin("modest", 10) for _ in range(20)) == 2
    for name in [name for name, session in sessions._sessions.items() if session.host == "greedy"]:
        sessions.drop(name)
    assert [begin("greedy", size) for size in (900, 491, 490, 1)] == [False, False, True, False]
    sessions.idle = -1.0
    sessions.expire()
    assert sessions.quota.fits("x", 8)
    assert sessions.memory.fits("x", 1_000)


def test_cells_take_room(client: TestClient, broker: Forgetful, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only sessions: a host may not fill the memory with one after the other."""
    monkeypatch.setattr(calls, "memory_for_programs", lambda: 6 * 40_000)
    with TestClient(api.create_app(broker, JudgeSettings(), "me", os.open(os.devnull, os.O_WRONLY))) as client:
        one, other = begin(client), begin(client)
        codes = [run(client, session, "x" * 1_000) for session in [one, other] * 8]
    done = codes.count(200)
    assert codes == [200] * done + [503] * (16 - done)
    assert 6 <= done <= 9


def test_looking_at_a_session_does_not_keep_it() -> None:
    sessions = Sessions(ClientQuotas(8), ClientQuotas(1_000), idle=0.2)
    name = sessions.add(Session())
    for _ in range(6):
        time.sleep(0.05)
        sessions.get(name, use=False)
    sessions.expire()
    assert len(sessions) == 0


@pytest.mark.parametrize("fork", [False, True])
def test_cells_that_run_at_once_share_the_room(broker: Forgetful, monkeypatch: pytest.MonkeyPatch, fork: bool) -> None:
    """The room is taken before the cell runs, and given back if the cell leaves nothing."""
    waiting: list[tuple[Job, asyncio.Future[Answer]]] = []

    def submit(job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        waiting.append((job, asyncio.get_running_loop().create_future()))
        return waiting[-1][1]

    monkeypatch.setattr(calls, "memory_for_programs", lambda: 6 * 1_000_000)
    monkeypatch.setattr(broker, "submit", submit)
    app = api.create_app(broker, JudgeSettings(max_sessions=60), "me", 0)

    async def work(lives: bool) -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://judge") as http:

            async def run(session: str) -> int:
                body = {"code": "x" * 30_000, "fork": fork}
                return (await http.post(f"/sessions/{session}/run", json=body)).status_code

            sessions = [(await http.post("/sessions")).json()["session_id"] for _ in range(20)]
            before = app.memory.held("127.0.0.1")
            running = [asyncio.create_task(run(name)) for name in sessions * 2]
            while sum(task.done() for task in running) + len(waiting) < len(running):
                await asyncio.sleep(0.01)
            while waiting:
                job, future = waiting.pop()
                future.set_result(Answer(job.id, "done", "worker", lives=lives))
            codes = await asyncio.gather(*running)
            taken = app.memory.held("127.0.0.1") - before
            assert taken <= 500_000
            assert (taken > 0) == lives
            for name in sessions:
                await http.delete(f"/sessions/{name}")
            return codes

    assert {200, 503} <= set(asyncio.run(work(lives=False)))
    assert {200, 503} <= set(asyncio.run(work(lives=True)))


def test_a_refused_request_does_not_keep_a_session(
    client: TestClient, broker: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        raise BusyError("full")

    def send(path: str, **body: Any) -> int:
        return client.post(f"/sessions/{name}/{path}", json=body).status_code

    name, used = begin(client), []
    assert run(client, name, "1") == 200
    monkeypatch.setattr(Sessions, "_touch", lambda _, name: used.append(name))
    memory: ClientQuotas = client.app.memory  # type: ignore[attr-defined]
    memory.add("testclient", memory.total // 2)
    assert [send("run", code="1", fork=fork) for fork in (False, True)] == [503] * 2
    assert send("fork") == 503
    memory.add("testclient", -(memory.total // 2))
    with monkeypatch.context() as patch:
        patch.setattr(broker, "submit", full)
        assert [send("run", code="1", fork=fork) for fork in (False, True)] == [503] * 2
    assert used == []
    assert send("run", code="1") == 200
    assert used


def test_a_history_that_is_sent_counts(broker: Forgetful, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a copy of the cells, which are charged to the host, and lives as long as the call."""
    monkeypatch.setattr(calls, "memory_for_programs", lambda: 6 * 300_000)
    app = api.create_app(broker, JudgeSettings(), "me", os.open(os.devnull, os.O_WRONLY))
    held: list[int] = []
    submit = broker.submit

    def watched(job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        held.append(app.memory.held("testclient:50000"))
        return submit(job, prefer)

    monkeypatch.setattr(broker, "submit", watched)
    with TestClient(app) as client:
        session = begin(client)
        assert [run(client, session, "x" * 10_000) for _ in range(2)] == [200] * 2
        broker.states.clear()
        held.clear()
        assert run(client, session, "1") == 200
        assert held[1] - held[0] > 60_000  # as it is sent, as the worker reads it
        assert app.memory.held("testclient:50000") == 0
        broker.states.clear()
        app.memory.add("another", 160_000)
        assert run(client, session, "1") == 503
        app.memory.add("another", -160_000)
        assert run(client, session, "1") == 200


def test_answers_count_until_all_is_sent(broker: Forgetful, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that waits for the rest of its batch is in memory; a client may not have more of it than its share."""
    monkeypatch.setattr(calls, "memory_for_programs", lambda: 6 * 1_000_000)
    app = api.create_app(broker, JudgeSettings(), "me", os.open(os.devnull, os.O_WRONLY))
    waiting: list[asyncio.Future[Answer]] = []

    def submit(job: Job, prefer: str = "") -> asyncio.Future[Answer]:
        future = asyncio.get_running_loop().create_future()
        if job.code == "wait":
            waiting.append(future)
            asyncio.get_running_loop().call_later(0.3, future.set_result, Answer(job.id))
            asyncio.get_running_loop().call_later(0.2, lambda: held.append(app.memory.held("testclient:50000")))
        else:
            future.set_result(Answer(job.id, stdout="x" * int(job.code)))
        return future

    held: list[int] = []
    monkeypatch.setattr(broker, "submit", submit)
    with TestClient(app) as client:

        def send(*codes: str, lines: bool = False) -> list[str]:
            body = {"submissions": [{"type": "python", "solution": code, "limits": {"shown": 10**6}} for code in codes]}
            headers = {"accept": api.LINES} if lines else {}
            reply = client.post("/run/batch", json=body, headers=headers)
            if lines:
                return sorted(json.loads(line)["reason"] for line in reply.text.splitlines())
            return sorted(one["reason"] for one in reply.json()["results"])

        assert send("100000", "1000", "wait") == ["", "", ""]
        assert 100_000 < held[-1] < 140_000
        for lines in (False, True):
            reasons = send(*["150000"] * 6, "wait", lines=lines)
            assert reasons == [""] * 4 + ["internal_error"] * 3
            assert 400_000 < held[-1] < 500_000
        assert app.memory.held("testclient:50000") == 0
