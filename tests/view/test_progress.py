"""Progress bars."""

import io
import re
import sys

import pytest

from rstar.view import progress as module
from rstar.view.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    with progress(1, "steps [a]") as advance:
        advance(3, "loss \x1b[2J1.5", total=7)
        advance(1)
    return stderr.getvalue()


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "steps [a]" in text
    assert "\x1b[2J" not in text


def test_a_file_gets_a_line_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    monkeypatch.setattr(module, "_LINE_SECONDS", 0)
    first, second = shown(monkeypatch, io.StringIO()).splitlines()
    assert re.fullmatch(r"steps \[a\]: 3 of 7 after 0:00:0\d(, about 0:00:0\d left)?; loss \ufffd\[2J1.5", first)
    assert re.fullmatch(r"steps \[a\]: 4 of 7 after 0:00:0\d(, about 0:00:0\d left)?", second)


def test_an_error_inside_passes() -> None:
    with pytest.raises(KeyError), progress(1, "steps"):
        raise KeyError
