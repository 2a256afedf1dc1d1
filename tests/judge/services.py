"""Starting real services and a real Redis for the tests."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(what: Callable[[], bool], seconds: float = 100.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "did not come about in time"
        time.sleep(0.05)


def children(process: int) -> list[int]:
    """The processes right below one."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{process}/task"):
            found += map(int, Path(f"/proc/{process}/task/{task}/children").read_text().split())
    return found


class Service:
    """``rstar judge …`` in a process of its own.

    With `disk`, its temporary folder is a small disk of its own, there. `setup` is Python that runs before.
    """

    def __init__(
        self, *arguments: str, log: Path, disk: Path | None = None, temp: Path | None = None, setup: str = ""
    ) -> None:
        self.log = log
        command = [sys.executable, "-c", f"{setup}\nfrom rstar.cli.app import main; main()", "judge", *arguments]
        environment = dict(os.environ)
        if temp is not None:
            environment["TMPDIR"] = str(temp)
        if disk is not None:
            root = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
            mount = 'mount -t tmpfs -o size=4m,mode=1777 none "$TMPDIR" && exec "$@"'
            command = ["unshare", *root, "--mount", "sh", "-c", mount, "sh", *command]
            environment["TMPDIR"] = str(disk)
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)

    def children(self, role: str) -> list[int]:
        """Process numbers of its ``api`` or ``worker`` processes."""
        found = []
        for child in children(self.process.pid):
            with contextlib.suppress(OSError):
                if f"rstar.judge.{role}.main".encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)
        return found

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(100)


@contextlib.contextmanager
def serving(
    folder: Path,
    *arguments: str,
    workers: int = 2,
    headers: dict[str, str] | None = None,
    disk: Path | None = None,
    temp: Path | None = None,
    setup: str = "",
    port: int | None = None,
) -> Iterator[tuple[str, Service]]:
    """A service and its URL, once its workers are there. See `Service`."""
    port = port or free_port()
    command = ("serve", "--port", str(port), "--workers", str(workers), *arguments)
    service = Service(*command, log=folder / "judge.log", disk=disk, temp=temp, setup=setup)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert service.process.poll() is None, service.log.read_text()
        with contextlib.suppress(httpx.HTTPError):
            return bool(httpx.get(f"{url}/status", headers=headers, timeout=30).json().get("num_workers") == workers)
        return False

    try:
        wait_for(ready)
        yield url, service
    finally:
        service.stop()


class Redis:
    """A Redis server that keeps what it is told, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.fail("the tests need redis-server; `make test` installs it")
        self._command = [program, "--dir", str(folder), "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._log = folder / "redis.log"

    def start(self) -> None:
        with self._log.open("ab") as out:
            self._process = subprocess.Popen([*self._command, "--port", str(self.port)], stdout=out, stderr=out)
        wait_for(self._answers)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as link:
            link.sendall(b"PING\r\n")
            return link.recv(16).startswith(b"+PONG")
        return False

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
