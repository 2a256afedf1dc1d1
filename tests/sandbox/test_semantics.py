"""Code runs as in a notebook: values shown, errors located, names kept."""

from __future__ import annotations

import pytest

from rstar.sandbox import LocalSandbox, Sandbox, State

from .conftest import Box


def test_is_a_sandbox(box: Box) -> None:
    assert isinstance(box.sandbox, Sandbox)
    assert isinstance(box.sandbox.start(), State)


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("1 + 1", "2\n"),
        ("x = 3\nx * 2", "6\n"),
        ("None", ""),
        ("x = 5", ""),
        ("print('a')\n'b'", "a\n'b'\n"),
        ("'é∀'", "'é∀'\n"),
        ("if True:\n    5", ""),
        ("1; 2", "2\n"),
        ("# nothing", ""),
        ("", ""),
        ("def f():\n    return 1\nf()  # comment", "1\n"),
        ("print('x', end='')", "x"),
        ("if __name__ == '__main__':\n    print('main')", "main\n"),
        ("from __future__ import annotations\ndef f(x: nope): pass\nprint(f.__annotations__)", "{'x': 'nope'}\n"),
        ("import sys\nprint(sys.argv)", "['']\n"),
        ("print('@@E <output> ``` [DONE]')", "@@E <output> ``` [DONE]\n"),
        ("import sys\nsys.stdout.write('a')\nsys.stdout.flush()\nNone", "a"),
        ("import os\nos.write(1, b'raw')\nNone", "raw"),
        ("import asyncio\nasync def f(): return 7\nasyncio.run(f())", "7\n"),
        ("import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))).__name__", "'A'\n"),
        ("import atexit\natexit.register(print, 'bye')\nNone", "bye\n"),
        ("import shutil\nprint('x', file=open('a', 'w'))\nshutil.copy('a', 'b')\nprint(open('b').read())", "x\n\n"),
        ("import threading\nthreading.Timer(0.05, print, ['late']).start()", "late\n"),
        ("import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n    print(f.write('abc'))", "3\n"),
        ("import subprocess", ""),
    ],
)
def test_output(box: Box, code: str, stdout: str) -> None:
    result = box.run(code)
    assert (result.status, result.stdout, result.stderr, result.error) == ("ok", stdout, "", None)
    assert result.ok
    assert result.seconds > 0


@pytest.mark.parametrize(
    ("code", "kind", "message", "line"),
    [
        ("x = 1\nraise ValueError('oops')", "ValueError", "oops", 2),
        ("1 / 0", "ZeroDivisionError", "division by zero", 1),
        ("def f():\n    1 / 0\n\nf()", "ZeroDivisionError", "division by zero", 2),
        ("x = 1\ny = (2", "SyntaxError", "'(' was never closed", 2),
        ("if True:\nx", "IndentationError", "expected an indented block after 'if' statement on line 1", 2),
        ("import json\n\njson.loads('{')", "JSONDecodeError", None, 3),
        ("undefined", "NameError", "name 'undefined' is not defined", 1),
        ("x = 1\nassert x == 2, 'no'", "AssertionError", "no", 2),
        ("class Odd(Exception): pass\nraise Odd", "Odd", "", 2),
        ("import sys\nsys.exit(3)", "SystemExit", "3", 2),
        ("await x", "SyntaxError", "'await' outside function", 1),
        ("raise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", "g (1 sub-exception)", 1),
    ],
)
def test_error(box: Box, code: str, kind: str, message: str | None, line: int) -> None:
    result = box.run(code)
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.kind, result.error.line) == (kind, line)
    assert message is None or result.error.message == message


def test_traceback_has_the_snippets_frames_only(box: Box) -> None:
    result = box.run("def f():\n    import json\n    json.loads('{')\nf()")
    assert result.stderr.splitlines() == [
        "Traceback (most recent call last):",
        '  File "<program>", line 4, in <module>',
        "    f()",
        '  File "<program>", line 3, in f',
        "    json.loads('{')",
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ]


def test_chained_exceptions(box: Box) -> None:
    result = box.run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
    assert "ZeroDivisionError" in result.stderr
    assert "direct cause" in result.stderr
    assert result.error is not None
    assert result.error.line == 4


@pytest.mark.parametrize(
    ("argument", "status", "code"),
    [("", "ok", 0), ("0", "ok", 0), ("2", "error", 2), ("'bye'", "error", 1), ("None", "ok", 0), ("True", "error", 1)],
)
def test_sys_exit(box: Box, argument: str, status: str, code: int) -> None:
    result = box.run(f"import sys\nprint('before')\nsys.exit({argument})\nprint('after')")
    assert (result.status, result.exit_code, result.stdout) == (status, code, "before\n")
    assert result.stderr == ("bye\n" if "bye" in argument else "")


def test_stdin(box: Box) -> None:
    total = "import sys\nprint(sum(map(int, sys.stdin.read().split())))"
    assert box.run(total, stdin="1 2\n3").stdout == "6\n"
    assert box.run(total, stdin="").stdout == "0\n"
    assert box.run(total).stdout == "0\n"
    assert box.run("print(input(), input())", stdin="a\nß\n").stdout == "a ß\n"
    assert box.run("input()").error.kind == "EOFError"  # type: ignore[union-attr]
    assert box.run("print(len(input()))", stdin="x" * 1_000_000).stdout == "1000000\n"


def test_bytes_that_are_not_utf8(box: Box) -> None:
    result = box.run("import os\nos.write(1, bytes([65, 255, 66]))\nNone")
    assert result.stdout == "A\N{REPLACEMENT CHARACTER}B"


def test_long_code(box: Box) -> None:
    assert box.run(f"x = '{'y' * 3_000_000}'\nlen(x)").stdout == "3000000\n"


def test_without_echo() -> None:
    import asyncio

    async def run() -> str:
        async with LocalSandbox() as sandbox:
            return (await sandbox.run("print('x')\n1 + 1", echo=False)).stdout

    assert asyncio.run(run()) == "x\n"


def test_programs_share_nothing(box: Box) -> None:
    box.run("import builtins, os\nbuiltins.leak = 1\nopen('file', 'w').close()")
    assert box.run("import os\nprint(os.listdir('.'))\nleak").error.kind == "NameError"  # type: ignore[union-attr]


def test_equal_programs_give_equal_results(box: Box) -> None:
    code = "import random\nprint(random.random(), {'a', 'b', 'c'}, hash('x'))"
    assert box.run(code).stdout == box.run(code).stdout


def test_steps_keep_names(box: Box) -> None:
    first, second, third, fourth = box.steps(
        "import math\ndef f(x):\n    return math.sqrt(x)\nclass A:\n    n = 1",
        "y = f(16)",
        "y + A.n",
        "f(-1)",
    )
    assert (first.status, second.status, third.stdout) == ("ok", "ok", "5.0\n")
    assert fourth.error is not None
    assert fourth.error.line == 1
    assert '"<step 4>", line 1' in fourth.stderr
    assert '"<step 1>", line 3' in fourth.stderr
    assert "return math.sqrt(x)" in fourth.stderr


def test_a_failed_step_leaves_a_state(box: Box) -> None:
    failed, after = box.steps("x = 1\nx = 2\n1 / 0", "x")
    assert (failed.status, after.stdout) == ("error", "2\n")


def test_futures_last(box: Box) -> None:
    assert box.steps("from __future__ import annotations", "def f(x: nope): pass")[1].ok


def test_exit_leaves_a_state(box: Box) -> None:
    assert box.steps("x = 1\nraise SystemExit", "x")[1].stdout == "1\n"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_descriptors_that_were_closed_are_opened_anew(box: Box, closed: tuple[int, ...]) -> None:
    code = f"import os, sys\nfor fd in {closed}:\n    os.close(fd)"
    later = "print('out')\nprint('error', file=sys.stderr)\nsys.stdin.read()"
    _, *results = box.steps(code, later, later)
    assert [(result.status, result.stdout, result.stderr) for result in results] == [("ok", "out\n''\n", "error\n")] * 2


def test_a_stream_that_was_closed_is_opened_anew(box: Box) -> None:
    assert box.steps("import sys\nsys.stdout.close()", "print('x')")[1].stdout == "x\n"


def test_threads_do_not_disturb(box: Box) -> None:
    start = (
        "import threading, time\n"
        "def work():\n    while True:\n        time.sleep(0.001)\n"
        "threading.Thread(target=work, daemon=True).start()\nimport random\nrandom.seed(7)"
    )
    _, one, two = box.steps(start, "x = 5\nrandom.random()", "x")
    assert (one.stdout, two.stdout) == ("0.32383276483316237\n", "5\n")


FORGED = {
    "line": "raise SyntaxError('m', ('<program>', object(), 1, 'x'))",
    "line of a step": "raise SyntaxError('m', ('<step 1>', object(), 1, 'x'))",
    "huge line": "raise SyntaxError('m', ('<program>', 10**5000, 1, 'x'))",
    "file": "class F:\n    def __eq__(self, other): 1 / 0\ne = SyntaxError('m')\ne.filename = F()\nraise e",
    "arguments": "e = SyntaxError('m')\ne.msg = e.lineno = e.filename = object()\nraise e",
    "kind": "class M(type):\n    __name__ = object()\nclass E(Exception, metaclass=M): pass\nraise E('m')",
    "NUL": "class M(type):\n    __name__ = 'a\\0b'\nclass E(Exception, metaclass=M): pass\nraise E('m')",
    "text": (
        "class S(str):\n    __getitem__ = lambda self, key: object()\n"
        "class E(Exception):\n    __str__ = lambda self: S('m')\nraise E"
    ),
}
"""Exceptions whose parts are not what they should be."""


@pytest.mark.parametrize("name", FORGED)
def test_forged_errors_are_errors(box: Box, name: str) -> None:
    code = FORGED[name].replace("<program>", "<step 1>") if name == "line of a step" else FORGED[name]
    (step,) = box.steps(code)
    for result in (box.run(code), step):
        assert result.status == "error", result
        assert result.error is not None
        assert result.error.kind in ("SyntaxError", "E")
    later = box.steps(code, "6 * 7")[1]
    assert later.stdout == "42\n"
