"""Progress bars."""

import io
import sys

import pytest

from rstar.view.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[type[io.StringIO], str] = {}
    for kind in (Terminal, io.StringIO):
        monkeypatch.setattr(sys, "stderr", kind())
        with progress(1, "steps") as advance:
            advance(3, "loss \x1b[2J1.5", total=7)
            advance(1)
        shown[kind] = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert shown[io.StringIO] == ""
    assert "steps" in shown[Terminal]
    assert "\x1b[2J" not in shown[Terminal]


def test_an_error_inside_passes() -> None:
    with pytest.raises(KeyError), progress(1, "steps"):
        raise KeyError
