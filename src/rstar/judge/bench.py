"""Load test for a judge service with programs typical of agents.

Uses only the reference service's interface, so it can test either service. Every answer is checked.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx

from rstar.errors import SandboxError
from rstar.sandbox.bench import PROGRAMS

_PRINTED = {"print": "2", "numpy": "45", "sympy": "[2, 3]"}
MIX = ("print", "print", "numpy", "print", "numpy", "print", "sympy", "print")
LOOP = "while True: pass"
LOOP_SECONDS = 1.0
"""Wall-time limit of the loops that `run_loops` sends."""

_SAMPLE_SECONDS = 0.5
_WARM_CALLS = 160
_TIMEOUT = httpx.Timeout(7_200.0, connect=30.0)


@dataclass(slots=True)
class LoadResult:
    """Result of one load test; times exclude endless loops.

    Attributes:
        calls: number of calls.
        started: start time (`time.perf_counter`).
        seconds: from the start to the last answer.
        latencies: seconds from sending to answer, per call.
        wrong: number of wrong answers by what they were.
        queue: samples of (seconds since the start, waiting calls).
        cpu_seconds: CPU time of the service; None if unknown or spent in endless loops.
        memory_mb: peak growth of the service's memory in MiB; None if unknown.
    """

    calls: int = 0
    started: float = 0.0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)
    queue: list[tuple[float, int]] = field(default_factory=list)
    cpu_seconds: float | None = None
    memory_mb: float | None = None

    @property
    def per_second(self) -> float:
        """Calls answered per second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    @property
    def cpu_ms(self) -> float | None:
        """CPU time of the service per call, in milliseconds."""
        return None if self.cpu_seconds is None or not self.calls else 1e3 * self.cpu_seconds / self.calls

    def percentile(self, percent: int) -> float:
        """Latency percentile in seconds."""
        if len(self.latencies) < 2:
            return self.latencies[0] if self.latencies else 0.0
        return quantiles(self.latencies, n=100, method="inclusive")[percent - 1]

    def to_json(self) -> dict[str, Any]:
        """The figures as a dict."""
        return {
            "per_second": round(self.per_second, 1),
            **{f"p{percent}_ms": round(1e3 * self.percentile(percent), 1) for percent in (50, 95, 99)},
            "max_ms": round(1e3 * max(self.latencies, default=0.0), 1),
            "cpu_ms": None if self.cpu_ms is None else round(self.cpu_ms, 2),
            "memory_mb": None if self.memory_mb is None else round(self.memory_mb, 1),
            "wrong": dict(self.wrong),
        }


async def run_load(
    url: str, programs: Sequence[str], *, batch: int = 1, concurrency: int = 8, token: str | None = None, pid: int = 0
) -> LoadResult:
    """Send `programs` (names in `PROGRAMS`, or ``loop``) and check the answers.

    Args:
        url: the service's URL.
        programs: names in sending order.
        batch: calls per request; 1 uses ``/run``, more ``/run/long-batch``.
        concurrency: concurrent requests; single ``loop`` calls are not counted.
        token: bearer token.
        pid: local root process of the service, to measure its CPU time and memory; 0 for none.

    Raises:
        SandboxError: the service refuses or is unreachable.
    """
    load = LoadResult(len(programs))
    endless = sum(name == "loop" for name in programs) if batch == 1 else 0
    chunks = [programs[start : start + batch] for start in range(0, len(programs), batch)]
    async with _connect(url, token, concurrency + endless + 1) as http:
        slots = asyncio.Semaphore(concurrency)
        before, load.started = usage(pid), time.perf_counter()
        sampling = asyncio.create_task(_sample(http, load, pid))
        try:
            await asyncio.gather(*(_send(http, chunk, batch > 1, slots, load) for chunk in chunks))
        finally:
            sampling.cancel()
        after = usage(pid)
        await _sample_queue(http, load)  # a short test ends before the first sample
    if before is not None and after is not None:
        load.cpu_seconds = None if endless else after[0] - before[0]
        load.memory_mb = max(load.memory_mb or 0.0, after[1]) - before[1]
    return load


async def run_loops(url: str, count: int, token: str | None = None) -> LoadResult:
    """Send `count` endless loops at once, limited to `LOOP_SECONDS`. The latencies are their run times.

    Raises:
        SandboxError: the service refuses or is unreachable.
    """
    load = LoadResult(count, time.perf_counter())
    loop = _submission("loop") | {"limits": {"seconds": LOOP_SECONDS}}
    async with _connect(url, token, 1) as http:
        response = await http.post("/run/long-batch", json={"type": "batch", "submissions": [loop] * count})
        response.raise_for_status()
    load.seconds = time.perf_counter() - load.started
    for reply in response.json()["results"]:
        load.latencies.append(reply["cost"])
        _check(load, "loop", reply)
    return load


@asynccontextmanager
async def _connect(url: str, token: str | None, connections: int) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service. Its errors become `SandboxError`."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=_TIMEOUT, verify=False) as http:
        try:
            yield http
        except httpx.HTTPError as error:
            raise SandboxError(f"{url}: {type(error).__name__}: {error}") from error


async def _send(
    http: httpx.AsyncClient, names: Sequence[str], batched: bool, slots: asyncio.Semaphore, load: LoadResult
) -> None:
    submissions = [_submission(name) for name in names]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(slots)
        if names == ["loop"]:  # sent in order, but does not occupy a slot
            await stack.aclose()
        started = time.perf_counter()
        if batched:
            body: dict[str, Any] = {"type": "batch", "submissions": submissions}
            response = await http.post("/run/long-batch", json=body)
        else:
            response = await http.post("/run", json=submissions[0])
        seconds = time.perf_counter() - started
    response.raise_for_status()
    replies = response.json()["results"] if batched else [response.json()]
    for name, reply in zip(names, replies, strict=True):
        if name != "loop":
            load.latencies.append(seconds)
            load.seconds = time.perf_counter() - load.started
        _check(load, name, reply)


def _check(load: LoadResult, name: str, reply: dict[str, Any]) -> None:
    right = reply["reason"] == "worker_timeout" if name == "loop" else reply["success"]
    if not right:
        load.wrong[reply["reason"] or ("ended" if name == "loop" else f"printed {reply['stdout']!r}")] += 1


def _submission(name: str) -> dict[str, Any]:
    if name == "loop":
        return {"type": "python", "solution": LOOP}
    return {"type": "python", "solution": PROGRAMS[name], "expected_output": _PRINTED[name]}


async def _sample(http: httpx.AsyncClient, load: LoadResult, pid: int) -> None:
    while True:
        await _sample_queue(http, load)
        used = usage(pid)
        if used is not None:
            load.memory_mb = max(load.memory_mb or 0.0, used[1])
        await asyncio.sleep(_SAMPLE_SECONDS)


async def _sample_queue(http: httpx.AsyncClient, load: LoadResult) -> None:
    with suppress(httpx.HTTPError, KeyError, ValueError):
        status = (await http.get("/status")).json()
        load.queue.append((time.perf_counter() - load.started, int(status["queue"])))


def usage(pid: int) -> tuple[float, float] | None:
    """CPU seconds (reaped children included) and PSS in MiB of a process and its descendants; None for pid 0."""
    if not pid:
        return None
    cpu, memory = 0.0, 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for process in descendants(pid):
        with suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            cpu += sum(map(int, fields[11:15])) / tick
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            memory += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1024
    return cpu, memory


def descendants(pid: int) -> list[int]:
    """A process and all its descendants."""
    found, look = [], [pid]
    while look:
        process = look.pop()
        found.append(process)
        with suppress(OSError):
            for task in os.listdir(f"/proc/{process}/task"):
                look += map(int, Path(f"/proc/{process}/task/{task}/children").read_text().split())
    return found


def mixed(calls: int, programs: Sequence[str] = MIX, loops: float = 0.0) -> list[str]:
    """`calls` program names in a fixed order, a share `loops` of them endless loops, evenly spread."""
    names = [programs[service % len(programs)] for service in range(calls)]
    if loops:
        step = max(1, round(1 / loops))
        for service in range(step // 2, calls, step):
            names[service] = "loop"
    return names


async def bench_judge(
    url: str | None,
    calls: int,
    burst: int,
    loops: Sequence[int] = (),
    *,
    redis: str | None,
    pid: int,
    token: str | None,
    advance: Callable[..., object],
) -> dict[str, LoadResult]:
    """Run several load tests, by name. Without a URL, start a service with one worker per processor."""
    async with AsyncExitStack() as stack:
        service, pid = (url, pid) if url is not None else await stack.enter_async_context(bench_service(redis))
        await run_load(service, mixed(_WARM_CALLS), token=token)
        kinds = [(f"{name}, one at a time", [name] * (calls // 4), 1, 1) for name in PROGRAMS]
        kinds += [(f"{name}, batches of 32", [name] * calls, 32, 8) for name in PROGRAMS]
        kinds += [("mix", mixed(calls), 1, 16), ("mix with 2% endless loops", mixed(calls, loops=0.02), 1, 16)]
        if burst:
            kinds.append((f"{burst:,} at once", mixed(burst), 32, burst))
        load = partial(run_load, service, token=token, pid=pid)
        tests = {name: partial(load, names, batch=batch, concurrency=most) for name, names, batch, most in kinds}
        for count in loops:
            name = f"{count:,} endless loops with a limit of {LOOP_SECONDS:g} s"
            tests[name] = partial(run_loops, service, count, token)
        loads: dict[str, LoadResult] = {}
        for name, test in tests.items():
            advance(0, name, total=len(tests))
            loads[name] = await test()
            advance()
        return loads


@asynccontextmanager
async def bench_service(redis: str | None) -> AsyncIterator[tuple[str, int]]:
    """Start a service with one worker per processor; yields its URL and its process id.

    Raises `SandboxError` if it does not start.
    """
    command = [sys.executable, "-c", "from rstar.cli.app import main; main()", "judge", "serve", "--port", "0"]
    command += ["--redis", redis] if redis else []
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise SandboxError("the service did not start")
        workers = len(os.sched_getaffinity(0))
        async with httpx.AsyncClient(base_url=found[0], verify=False) as http:
            for _ in range(600):
                with suppress(httpx.HTTPError):
                    if (await http.get("/status")).json().get("num_workers", 0) >= workers:
                        break
                await asyncio.sleep(0.1)
        yield found[0], process.pid
    finally:
        process.terminate()
        await process.wait()
