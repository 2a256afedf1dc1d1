"""`rstar bench judge`: that it counts what is there, and does not believe what a service says."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import SandboxError
from rstar.judge.bench import LoadResult, mixed, run_load, usage
from rstar.sandbox.bench import PROGRAMS
from tests.judge.services import free_port, serving


@contextmanager
def answering(report: dict[str, Any]) -> Iterator[str]:
    """The URL of a service that has the same answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({"queue": 7, "num_workers": 1})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            batch = body.get("submissions")
            self._reply(report if batch is None else {"results": [report] * len(batch)})

        def _reply(self, what: Any) -> None:
            text = json.dumps(what).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("report", "programs", "wrong"),
    [
        ({"success": False, "reason": "", "stdout": "3"}, ["print"] * 3, {"printed '3'": 3}),
        ({"success": False, "reason": "queue_timeout", "stdout": ""}, ["print", "numpy"], {"queue_timeout": 2}),
        ({"success": True, "reason": "", "stdout": ""}, ["print", "loop"], {"ended": 1}),
        ({"success": False, "reason": "worker_timeout", "stdout": ""}, ["loop"], {}),
    ],
)
@pytest.mark.parametrize("batch", [1, 2])
def test_wrong_answers_are_counted(
    report: dict[str, Any], programs: list[str], wrong: dict[str, int], batch: int
) -> None:
    with answering(report) as url:
        load = asyncio.run(run_load(url, programs, batch=batch))
    assert load.wrong == wrong
    assert len(load.latencies) == sum(name != "loop" for name in programs)
    assert load.queue[0][1] == 7
    assert (load.cpu_ms, load.memory_mb) == (None, None)


def test_a_service_that_is_not_there() -> None:
    with pytest.raises(SandboxError, match="ConnectError"):
        asyncio.run(run_load(f"http://127.0.0.1:{free_port()}", ["print"]))


@pytest.mark.soak
def test_loops_come_on_top_of_the_other_calls(tmp_path: Path) -> None:
    with serving(tmp_path, "--seconds", "8") as (url, service):
        programs = ["loop", "loop", "loop", *["print"] * 20]
        load = asyncio.run(run_load(url, programs, concurrency=1, pid=service.process.pid))
    assert (load.wrong, len(load.latencies)) == ({}, 20)
    assert load.seconds < 8  # all were answered before the first loop was ended
    assert load.cpu_ms is None
    assert load.memory_mb is not None


def test_mixed() -> None:
    assert set(mixed(100)) == set(PROGRAMS)
    assert Counter(mixed(1_000, loops=0.02))["loop"] == 20
    assert usage(0) is None


def test_percentiles_of_few_calls() -> None:
    assert LoadResult().percentile(95) == 0
    assert LoadResult(latencies=[0.5]).percentile(95) == 0.5
    assert LoadResult(latencies=[0.0, 1.0]).percentile(50) == 0.5


def test_bench_starts_a_service_and_writes_a_report(tmp_path: Path) -> None:
    report = tmp_path / "judge.html"
    arguments = ["bench", "judge", "--calls", "12", "--burst", "64", "--report", str(report), "--json"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    figures = json.loads(done.stdout)
    assert list(figures)[-1] == "64 at once"
    assert all(not load["wrong"] and load["p50_ms"] > 0 for load in figures.values())
    assert figures["64 at once"]["cpu_ms"] > 0
    page = report.read_text()
    assert "waiting calls" in page
    assert "<svg" in page
