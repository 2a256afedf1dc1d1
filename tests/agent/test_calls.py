"""Tool calls in text: what is written is read back, and whatever else a model writes never raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.agent.calls import CLOSE, OPEN, BadCall, Call, parse_calls, parse_python_calls

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@given(st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3), st.text())
def test_a_written_call_is_read_back(name: str, arguments: dict[str, Any], before: str) -> None:
    if OPEN in before:
        return
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    assert list(parse_calls(f"{before}{OPEN}\n{written}\n{CLOSE}")) == [Call(name, arguments)]


@given(st.lists(st.sampled_from([OPEN, CLOSE, "{", "}", '"name"', ":", '"a"', "\n", "[", "1e999", "\\u"]), max_size=40))
def test_no_text_raises_and_each_opening_is_one_call(parts: list[str]) -> None:
    text = "".join(parts)
    assert len(list(parse_calls(text))) == text.count(OPEN)


def test_tags_in_strings_are_text() -> None:
    code = f"print('{OPEN}{CLOSE}')"
    written = json.dumps({"name": "jupyter_code", "arguments": {"code": code}})
    calls = list(parse_calls(f"{OPEN}{written}{CLOSE} and {OPEN}{written}\n{CLOSE}"))
    assert calls == [Call("jupyter_code", {"code": code})] * 2


def test_a_deeply_nested_call_is_a_bad_one() -> None:
    (call,) = parse_calls(f"{OPEN}{'[' * 100_000}{CLOSE}")
    assert isinstance(call, BadCall)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "not valid JSON"),
        ("[1]", "expected a JSON object"),
        ('{"arguments": {}}', 'no "name"'),
        ('{"name": 5, "arguments": {}}', 'no "name"'),
        ('{"name": "f", "arguments": [1]}', "not a JSON object"),
        ('{"name": "f", "arguments": "no JSON"}', "not valid JSON"),
        (f'{{"name": "f", "arguments": {{"a": {"[" * 60}{"]" * 60}}}}}', "more than 50 levels"),
    ],
)
def test_a_bad_call_names_its_reason(body: str, reason: str) -> None:
    (call,) = parse_calls(f"{OPEN}{body}{CLOSE}")
    assert isinstance(call, BadCall)
    assert reason in call.reason


def test_what_models_write_is_read() -> None:
    two_lines = '{"name": "jupyter_code", "arguments": {"code": "x = 1\nx"}}'
    twice = '{"name": "f", "arguments": "{\\"a\\": 1}"}'
    assert list(parse_calls(f"Let me see.\n{OPEN}\n{two_lines}\n{CLOSE}\n{OPEN}{twice}{CLOSE}")) == [
        Call("jupyter_code", {"code": "x = 1\nx"}),
        Call("f", {"a": 1}),
    ]


def test_an_unclosed_call_does_not_swallow_the_next_one() -> None:
    calls = list(parse_calls(f'{OPEN}{{"name": "f"\n{OPEN}{{"name": "g"}}{CLOSE}'))
    assert isinstance(calls[0], BadCall)
    assert calls[1] == Call("g", {})


PARAMETERS = {"ask": ["topic"], "f": ["a", "b"]}


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_calls_as_python_writes_them_are_read_back(texts: list[str]) -> None:
    code = "\n".join(f"ask({text!r})" for text in texts)
    if texts:
        assert list(parse_python_calls(code, PARAMETERS)) == [Call("ask", {"topic": text}) for text in texts]


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ('f("x", b=2)', Call("f", {"a": "x", "b": 2})),
        ("f(b=None, a=1.5)", Call("f", {"a": 1.5, "b": None})),
        ('other(x="y")', Call("other", {})),
        ("other(1)", Call("other", {})),
        ("ask('a', 'b')", BadCall("ask: 2 arguments, expected 1")),
        ("ask(topic)", BadCall("ask: the argument 'topic' is not a text or number")),
        ("ask(*'a')", BadCall("ask: the argument 'topic' is not a text or number")),
        ("x = ask('a')", BadCall('expected calls such as NAME("text"), one a line')),
        ("a.ask('b')", BadCall('expected calls such as NAME("text"), one a line')),
        ("", BadCall("the cell is empty")),
        ('f("x", a="y")', BadCall("f: the argument 'a' is given twice")),
    ],
)
def test_other_cells_are_bad_calls(code: str, call: Call | BadCall) -> None:
    assert list(parse_python_calls(code, PARAMETERS)) == [call]


def test_a_number_too_long_to_write_is_a_bad_call() -> None:
    (call,) = parse_python_calls(f"f(0x{'f' * 4000})", PARAMETERS)
    assert isinstance(call, BadCall)
    assert "Exceeds the limit" in call.reason


def test_an_error_is_placed_within_its_call() -> None:
    (call,) = parse_calls("text\n" * 40 + '<tool_call>\n{"name": "f",\n "arguments": }\n</tool_call>')
    assert isinstance(call, BadCall)
    assert "line 2 column 15" in call.reason


@given(st.text())
def test_no_cell_raises(code: str) -> None:
    assert list(parse_python_calls(code, PARAMETERS))
    (call,) = parse_python_calls(code + "((", PARAMETERS)
    assert isinstance(call, BadCall)
