"""Fenced blocks in the texts of models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.search.blocks import Block, bare_code, fenced_blocks, looks_like_code, python_code, without_prompts


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("no block", []),
        ("```python\na\n```\n~~~ JSON x=1\nb\n~~~\n", [Block("python", "a", True), Block("json", "b", True)]),
        ("  ```\n  a\n    b\n  ```", [Block("", "a\n  b", True)]),
        ("```\na", [Block("", "a", False)]),
        ("````\n```\na\n```\n````", [Block("", "```\na\n```", True)]),
        ("```\nprose\n```py\na\n```", [Block("py", "a", True)]),
        ("```py\n```text\n```", [Block("py", "```text", True)]),
        ("say ```a``` here\n```not `a` fence\n", []),
    ],
)
def test_blocks_by_hand(text: str, blocks: list[Block]) -> None:
    assert list(fenced_blocks(text)) == blocks


@given(st.lists(st.sampled_from(["```", "```py", "~~~", "````", "a", "  ```", ""]), max_size=12))
def test_only_the_last_block_is_open(lines: list[str]) -> None:
    text = "\n".join(lines)
    blocks = list(fenced_blocks(text))
    assert all(block.closed for block in blocks[:-1])
    assert list(fenced_blocks(text.replace("\n", "\r\n"))) == blocks
    if blocks and not blocks[-1].closed:
        closed = [list(fenced_blocks(f"{text}\n{mark}"))[-1].closed for mark in ("`````", "~~~~~")]
        assert sorted(closed) == [False, True], "one of the marks ends it"


def test_what_runs() -> None:
    named, output = Block("python", "x = 1", True), Block("", "print(2)", True)
    assert python_code([Block("", "1 apple", True), named, output]) == "x = 1"
    assert python_code([Block("", "x = 1", True), Block("", "1", True)]) == "x = 1"
    assert python_code([Block("json", '{"x": 1}', True), Block("", "42", True), Block("python", " ", True)]) is None


@pytest.mark.parametrize("text", ["x = 1", "print(1)", "import a", "1 + f(2)"])
def test_code_does_something(text: str) -> None:
    assert looks_like_code(text)


@pytest.mark.parametrize("text", ["", "42", "yes", "a == b", "42 rolls", "1. Add", "[1, 2]", "\0", "# nothing"])
def test_other_texts_do_nothing(text: str) -> None:
    assert not looks_like_code(text)


@given(
    st.lists(st.sampled_from(["x = 1", "if x:", "    print(x)", ""]), min_size=1).filter(lambda lines: lines[0] != "")
)
def test_the_input_of_a_session_is_its_code(lines: list[str]) -> None:
    marks = [">>> ", *["... "] * (len(lines) - 1)]
    session = "\n".join(part for mark, line in zip(marks, lines, strict=True) for part in (mark + line, "7"))
    assert without_prompts(session) == "\n".join(lines)
    assert without_prompts("\n".join(lines)) == "\n".join(lines)


def test_code_without_a_fence_prints_something() -> None:
    assert bare_code("x = 7\nprint(x)\n") == "x = 7\nprint(x)"
    assert bare_code(">>> print(7)\n7") == "print(7)"
    assert bare_code("eggs = 6 * 24\nleft = eggs - 100") == "eggs = 6 * 24\nleft = eggs - 100"
    assert bare_code("<code>\nx = 3 * 4\n</code>") == "x = 3 * 4"
    assert bare_code("<|python_tag|>print(7)") == "print(7)"
    assert bare_code("<|python_tag|>print(7)<|eom_id|>") == "print(7)"
    assert bare_code("<tool_code>\nprint(7)\n</tool_code>") == "print(7)"
    assert bare_code('{"name": "python", "parameters": {"code": "print(7)"}}') == "print(7)"
    assert bare_code('<tool_call>\n{"name": "python", "arguments": {"code": "print(7)"}}\n</tool_call>') == "print(7)"
    for text in ('{"a": 7}', '{"arguments": {"code": "7"}}', "{7}", '{"arguments": {"a": "print(7)", "b": "f()"}}'):
        assert bare_code(text) is None
    for text in ("x = 7", "x = 3 / 4", "x = 2\ny = 3", "7", "f(7)", "I print(7)", "def f(:\n    print(7)"):
        assert bare_code(text) is None


def test_a_fence_may_close_the_line_of_the_code() -> None:
    assert list(fenced_blocks("```python\nx = 7\nprint(x)```\nSo 7.")) == [
        Block("python", "x = 7\nprint(x)", closed=True)
    ]
