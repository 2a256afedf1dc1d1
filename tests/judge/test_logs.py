"""What clients can write into the log: few lines, short ones, and nothing that commands a terminal."""

import logging
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from rstar.judge import logs
from tests.judge.services import serving


def test_junk_of_strangers_leaves_few_lines(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    junk = [
        b"\x16\x03\x01\x02\x1b[2J\r\n\r\n",
        b"GET /\x1b[2J HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        b"GET /run HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \x1b[2J\r\n\r\n",
        b"POST /run HTTP/1.1\r\nhost: x\r\ncontent-length: \x1b\r\n\r\n",
    ]
    header = {"Authorization": "Bearer secret"}
    with serving(tmp_path, "--token-file", str(token), workers=1, headers=header) as (url, service):
        before = len(service.log.read_text())
        for number in range(200):
            with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), 10) as link:
                link.sendall(junk[number % len(junk)])
                link.recv(1_000)
        assert httpx.get(f"{url}/ping").json() == "pong"
        text = service.log.read_text()[before:]
    assert "Invalid HTTP request" in text
    assert text.count("\n") <= 4 * logs.MAX_LINES
    assert "\x1b" not in text


def test_a_record_is_bounded_and_plain() -> None:
    try:
        raise ValueError("\x1b[2J\n2026-01-01 forged WARNING line\u202e\r" + "x" * 100_000)
    except ValueError:
        failure = sys.exc_info()
    record = logging.LogRecord("rstar", logging.ERROR, "file", 1, "failed on %s", ("a\nb\ud800",), failure)
    text = logs.PlainFormatter("%(levelname)s %(message)s").format(record)
    first, *others = text.split("\n")
    assert first == "ERROR failed on a"
    assert all(line.startswith("    ") for line in others)
    assert len(text) < 2 * logs.MAX_LENGTH
    assert "characters ...]" in text
    text.encode()
    assert all(character.isprintable() for character in text.replace("\n", ""))


def test_records_of_one_place_are_limited_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limit = logs.RateLimit()

    def record(line: int) -> logging.LogRecord:
        return logging.LogRecord("x", logging.WARNING, "file.py", line, "call %s", ("a",), None)

    assert sum(limit.filter(record(1)) for _ in range(50)) == logs.MAX_LINES
    assert limit.filter(record(2))
    now = logs.WINDOW_SECONDS
    later = record(1)
    assert limit.filter(later)
    assert later.getMessage() == "call a (40 more such records were left out)"
    assert sum(limit.filter(record(1)) for _ in range(50)) == logs.MAX_LINES - 1
