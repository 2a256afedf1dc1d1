"""Inference servers that nobody here wrote, as processes on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx


@contextmanager
def transformers_serve(folder: Path) -> Iterator[str]:
    """The base URL of ``transformers serve``, which keeps its log in `folder`. Models are named by their paths."""
    port = _free_port()
    command = [
        str(Path(sys.executable).with_name("transformers")), "serve", "--host", "127.0.0.1", "--port", str(port),
        "--device", "cpu", "--dtype", "float32",
    ]  # fmt: skip
    with _process(command, folder / "serve.log", f"http://127.0.0.1:{port}/health"):
        yield f"http://127.0.0.1:{port}/v1"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _process(command: Sequence[str], log: Path, health: str) -> Iterator[None]:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process:
        try:
            deadline = time.monotonic() + 120
            while not _healthy(health):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield
        finally:
            process.terminate()


def _healthy(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).is_success
    except httpx.TransportError:
        return False
