"""What one request may cost: its size, its values, what is said of its errors, and the patience of the others."""

import asyncio
import http.client
import itertools
import json
import socket
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import HTTPException
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from rstar.judge.queue.jobs import Answer, Job, pack_job
from rstar.judge.queue.quotas import ClientQuotas
from rstar.judge.server.app import create_app
from rstar.judge.server.guard import MAX_BODY, MAX_VALUES, Guard, ValueCount, Width
from rstar.judge.server.turns import Turns
from rstar.judge.settings import JudgeSettings
from rstar.judge.wire import MAX_SUBMISSIONS
from tests.judge.services import Service, serving

JSON = {"content-type": "application/json"}
GOOD = {"type": "python", "solution": "print(1)", "expected_output": "1"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    with serving(tmp_path_factory.mktemp("judge")) as found:
        yield found


def send(url: str, body: bytes | Iterator[bytes], path: str = "/run/batch") -> httpx.Response:
    return httpx.post(f"{url}{path}", content=body, headers=JSON, timeout=60)


def test_a_large_body_is_refused_before_it_comes(service: tuple[str, Service]) -> None:
    link = http.client.HTTPConnection(urlsplit(service[0]).netloc, timeout=60)
    link.putrequest("POST", "/run")
    link.putheader("content-type", "application/json")
    link.putheader("content-length", str(MAX_BODY + 1))
    link.endheaders()
    assert link.getresponse().status == 413


def test_a_large_body_is_refused_whatever_it_says_of_itself(service: tuple[str, Service]) -> None:
    pieces = (b'"' + b"x" * (1 << 20) for _ in range(MAX_BODY // (1 << 20) + 1))  # chunked: without a length
    assert send(service[0], pieces).status_code == 413


def test_a_batch_of_too_many_is_refused_and_a_batch_of_most_is_done(service: tuple[str, Service]) -> None:
    one = {"type": "math", "solution": "1", "expected_output": "1"}
    most = [one] * MAX_SUBMISSIONS
    more = send(service[0], json.dumps({"submissions": [*most, one]}).encode())
    assert (more.status_code, len(more.json()["detail"])) == (422, 1)
    reply = send(service[0], json.dumps({"submissions": most}).encode(), "/judge/long-batch").json()
    assert sum(result["success"] for result in reply["results"]) == MAX_SUBMISSIONS


MANY = {f"x{n}": n for n in range(1_000)}


@pytest.mark.parametrize(
    ("body", "location"),
    [
        ({"options": MANY}, ["body", "options"]),
        ({"limits": MANY}, ["body", "limits", "x0"]),
        ({"limits": {"y" * 10_000: 1}}, ["body", "limits", "y" * 100]),
        ({"limits": {"seconds": 1, "values": 2} | MANY}, ["body", "limits", "x0"]),
    ],
)
def test_a_refusal_names_the_first_of_many_errors(
    service: tuple[str, Service], body: dict[str, Any], location: list[str]
) -> None:
    reply = send(service[0], json.dumps(GOOD | body).encode(), "/run")
    assert (reply.status_code, [error["loc"] for error in reply.json()["detail"]]) == (422, [location])
    assert len(reply.content) < 2_000


def test_a_cell_with_many_unknown_fields_is_refused_by_the_first(service: tuple[str, Service]) -> None:
    session = httpx.post(f"{service[0]}/sessions").json()["session_id"]
    reply = send(service[0], json.dumps({"code": "1"} | MANY).encode(), f"/sessions/{session}/run")
    assert (reply.status_code, [error["loc"] for error in reply.json()["detail"]]) == (422, [["body", "x0"]])


# Bodies of the largest size that ask for nothing: many values are many objects when they are read.
LISTS = b'{"submissions":[' + b"[]," * (MAX_BODY // 3 - 20) + b"0]}"
OBJECTS = b'{"submissions":[' + b'{"":0},' * (MAX_BODY // 7 - 20) + b"0]}"
STRINGS = b'{"submissions":[' + b'"[",' * (MAX_BODY // 4 - 20) + b"0]}"
WRONG = json.dumps(
    {"submissions": [{"type": "python", "solution": 1, "input": "x" * 3_000}] * MAX_SUBMISSIONS}
).encode()
OPTIONS = json.dumps({"submissions": [GOOD | {"options": dict.fromkeys(map(str, range(400)), 1)}] * 1_000}).encode()


def test_invalid_batches_fill_no_memory(service: tuple[str, Service]) -> None:
    url, processes = service
    (api,) = processes.children("server")
    bodies = [(LISTS, 413), (OBJECTS, 413), (STRINGS, 413), (WRONG, 422), (OPTIONS, 422)]
    with ThreadPoolExecutor(3) as pool:
        statuses = list(pool.map(lambda case: send(url, case[0]).status_code, bodies * 3))
    assert statuses == [status for _, status in bodies] * 3
    assert processes.children("server") == [api]
    peak = next(line for line in Path(f"/proc/{api}/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 900 << 10  # three bodies at a time, each as bytes, as text and as values


def test_large_batches_do_not_hold_up_others(service: tuple[str, Service]) -> None:
    """The longest wait for `/ping` while the service reads, refuses or does the largest requests."""
    code = 'import os\nprint("a", [1, 2])\n' * 95
    largest = json.dumps({"submissions": [{"type": "math", "solution": code}] * MAX_SUBMISSIONS}).encode()
    bodies = {"done": largest, "lists": LISTS, "objects": OBJECTS, "wrong": WRONG, "options": OPTIONS}
    assert MAX_BODY * 0.85 < len(largest) < MAX_BODY
    worst: dict[str, float] = {}
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=service[0], timeout=60) as client:
        for name, body in bodies.items():
            sending = pool.submit(send, service[0], body, "/run/long-batch")
            waits = [0.0]
            while not sending.done():
                started = time.monotonic()
                assert client.get("/ping").json() == "pong"
                waits.append(time.monotonic() - started)
                time.sleep(0.01)
            worst[name] = max(waits)
            assert (sending.result().status_code == 200) == (name == "done")
    print(worst)
    assert max(worst.values()) < 5.0, worst


def test_many_large_requests_at_once_leave_the_loop_to_others(service: tuple[str, Service]) -> None:
    """While dozens of them are parsed and refused, calls are answered in between; the API process survives."""
    url, processes = service
    (api,) = processes.children("server")
    body = json.dumps({"submissions": [GOOD] * (MAX_SUBMISSIONS - 1) + [{"type": "other"}]}).encode()
    head = f"POST /run/batch HTTP/1.1\r\nhost: me\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    links = [socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 60) for _ in range(30)]
    for link in links:
        link.sendall(head.encode() + b"\r\n" + body[:-1])
    time.sleep(1)
    for link in links:
        link.sendall(body[-1:])
    order: list[str] = []
    with ThreadPoolExecutor(len(links)) as pool, httpx.Client(base_url=url, timeout=60) as client:
        refused = [pool.submit(link.recv, 65_536) for link in links]
        for future in refused:
            future.add_done_callback(lambda _: order.append("refused"))
        while not all(future.done() for future in refused):
            assert client.get("/ping").json() == "pong"
            order.append("pong")
    assert {future.result()[:12] for future in refused} == {b"HTTP/1.1 422"}
    assert sum(one != other for one, other in itertools.pairwise(order)) > len(links) / 2, order
    assert processes.children("server") == [api]
    for link in links:
        link.close()


def test_other_encodings_are_refused(service: tuple[str, Service]) -> None:
    """Python would read them, and their values could not be counted."""
    assert send(service[0], json.dumps(GOOD).encode("utf-16"), "/run").status_code == 400


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def separators(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return max(len(value), 1) + sum(map(separators, value)) if isinstance(value, list) else 0


@given(VALUES, st.booleans(), st.lists(st.integers(0, 40)))
def test_values_are_counted_however_a_text_is_cut(value: Any, ascii_only: bool, sizes: list[int]) -> None:
    text, count = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass"), ValueCount()
    for size in sizes:
        count.add(text[:size])
        text = text[size:]
    assert count.add(text) == 1 + separators(value)


def test_counting_takes_no_time_that_grows_with_what_was_before() -> None:
    started = time.process_time()
    for piece in (b'"' + b'\\"' * 500_000, b'"\\', b"[" * MAX_VALUES):
        ValueCount().add(piece)
    count = ValueCount()
    for _ in range(16):
        count.add(b'\\"' * 32_000 if count.add(b"") > 1 else b'["')
    assert time.process_time() - started < 2.0


def test_what_is_in_memory_for_a_client_is_bounded() -> None:
    """Bodies that have not ended count, values count; nothing is kept of what has been answered or refused."""
    memory = ClientQuotas(4_000_000)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass

    held = 0

    async def post(client: tuple[str, int], pieces: list[bytes], end: asyncio.Event | None = None) -> int:
        waiting = list(pieces)

        async def receive() -> Message:
            nonlocal held
            if end is not None and len(waiting) == 1:
                held += 1
                await end.wait()
            piece = waiting.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

        async def send(message: Message) -> None: ...

        scope = {"type": "http", "headers": [], "path": "/run", "client": client}
        try:
            await Guard(app, JudgeSettings(), memory, Turns())(scope, receive, send)
        except HTTPException as error:
            return error.status_code
        return 200

    async def work() -> list[int]:
        text = b'"' + b"x" * 90_000
        one, other = ("10.0.0.1", 1), ("10.0.0.2", 1)
        end = asyncio.Event()
        slow = [asyncio.create_task(post(one, [text, b""], end)) for _ in range(9)]
        async with asyncio.timeout(30):
            while held + sum(task.done() for task in slow) < 9:
                await asyncio.sleep(0.01)
        codes = [await post(other, [b"[" + b"1," * count + b"1]"]) for count in (800, 1_200)]
        end.set()
        return [*codes, *await asyncio.gather(*slow)]

    assert asyncio.run(work()) == [200, 503, *[200] * 5, *[503] * 4]
    assert memory.fits("x", 4_000_000)


WIDE = st.lists(st.sampled_from(["a", "\n", "\\", "u", "d8", "é", "中", "\U0001f600"])).map("".join)


@given(WIDE, st.booleans(), st.lists(st.integers(0, 9)))
def test_a_text_counts_as_wide_as_python_stores_it(value: str, ascii_only: bool, sizes: list[int]) -> None:
    """However it is written, and wherever it is cut; and what is plain counts as plain."""
    text, width, found = json.dumps(value, ensure_ascii=ascii_only).encode(), Width(), 1
    for size in [*sizes, len(text)]:
        found = width.add(text[:size])
        text = text[size:]
    widest = max(map(ord, value), default=0)
    assert found >= (4 if widest > 0xFFFF else 2 if widest > 0xFF else 1)
    assert found <= (4 if widest > 0xFFFF or "ud8" in value else 2 if widest > 0x7F or "\\u" in value else 1)


@pytest.mark.parametrize(("character", "ascii_only"), [("a", True), ("中", True), ("\U0001f600", False)])
def test_a_waiting_call_is_charged_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, character: str, ascii_only: bool
) -> None:
    """Measured: what the API holds of a request while its call waits."""
    waiting: list[tuple[Job, bytes, asyncio.Future[Answer]]] = []

    class Queue:
        def submit(self, job: Job, prefer: str = "") -> asyncio.Future[Answer]:
            waiting.append((job, pack_job(job), asyncio.get_running_loop().create_future()))  # on its way to a worker
            return waiting[0][2]

    app = create_app(Queue(), JudgeSettings(), "me", 0)  # type: ignore[arg-type]
    call = {"type": "python", "solution": "1", "input": character + "a" * 500_000}
    body = json.dumps(call, ensure_ascii=ascii_only).encode()

    async def work() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://judge") as http:
            tracemalloc.start()
            call = asyncio.create_task(http.post("/run", content=body, headers=JSON))
            while not waiting:
                await asyncio.sleep(0.01)
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert held < app.memory.held("127.0.0.1:123") < 12 * len(body)
            waiting[0][2].set_result(Answer("1"))
            assert (await call).status_code == 200

    asyncio.run(work())


def test_a_request_that_can_never_fit_is_refused_for_good() -> None:
    app = create_app(None, JudgeSettings(), "me", 0)  # type: ignore[arg-type]
    app.memory.total = 100_000

    async def send(size: int) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://judge") as http:
            return (await http.post("/run", content=b'"' + b"x" * size + b'"', headers=JSON)).status_code

    app.memory.add("another", 80_000)
    assert [asyncio.run(send(size)) for size in (1_000, 8_000, 40_000)] == [422, 503, 413]
