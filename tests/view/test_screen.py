"""What could command a terminal is marked in text and escaped in JSON; all else stays."""

import io
import json

from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from rstar.view.screen import Screen, visible, visible_json

HOSTILE = "\x1b[2J\x9b1m\r\x00\x7f\u2028\u202e\u2069\ud800"
HARMLESS = "é 数 👩\u200d🚀 a\u00a0b\tc\n½ ⇒ ✗"


def test_only_commands_are_marked() -> None:
    assert visible(HOSTILE) == "�[2J�1m�������"
    assert visible(HARMLESS) == HARMLESS


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_is_the_same_value_and_commands_nothing(value: object) -> None:
    text = visible_json(value)
    assert json.loads(text) == value
    assert visible(text) == text


def test_strings_texts_and_cells_are_marked() -> None:
    out = io.StringIO()
    screen = Screen(file=out, width=80, color_system=None)
    table = Table("\x1bhead", title="\x9btitle")
    table.add_row("\x1b[2Jcell")
    for what in (table, Text("\x1btext", style="bold"), "\x1bplain", Text.assemble(("\x1bred", "red"))):
        screen.print(what)
    assert visible(out.getvalue()) == out.getvalue()
    for word in ("head", "title", "[2Jcell", "text", "plain", "red"):
        assert f"�{word}" in out.getvalue()
