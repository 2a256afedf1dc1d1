"""Programs as answers: found in the model's text, run on test cases, and counted as correct in a run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rstar.agent.calls import Call
from rstar.agent.environment import Programs
from rstar.agent.programs import last_block, passes
from rstar.agent.solver import AgentSolver
from rstar.answers import AnswerKey
from rstar.config import Config
from rstar.datasets import ProblemSet
from rstar.errors import DataError
from rstar.evals.run import solve_run
from rstar.grading.checks import run_check
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox import Limits, LocalSandbox

CHECK = {"kind": "programs", "inputs": ["3\n", "10\n"], "outputs": ["9\n", "100"]}
SQUARE = "print(int(input()) ** 2)"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nprint(1)\n```", "print(1)"),
        ("Try:\n```py\nprint(1)\n```\nBetter:\n  ```\nx = 2\nprint(x)\n  ```\nDone.", "x = 2\nprint(x)"),
        ("```python\nprint('```')\n```", "print('```')"),
        ("```text\n3\n```\nSo:\n```python title=a\nprint(1)\n```</answer>", "print(1)"),
        ("```python\nprint(1)\n```\nIt prints:\n```text\n1\n```", "print(1)"),
        ("````python\nprint('''\n```\n''')\n````", "print('''\n```\n''')"),
        ("```python\nprint('''\n```text\n''')\n```", "print('''\n```text\n''')"),
        ("```Python3\r\nprint(1)\n```".replace("\r", ""), "print(1)"),
        ("```cpp\nint main() {}\n```", None),
        ("```python\nprint(1)", None),
        ("```python\n\n```", None),
        ("print(1)", None),
    ],
)
def test_the_answer_is_the_last_block(text: str, code: str | None) -> None:
    assert last_block(text) == code
    assert Programs().answer(text) == code


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, bool]]:
    programs = {
        "right": SQUARE,
        "blanks": "n = int(input())\nprint(f'{n * n}  \\n')",
        "one case": "print(9)",
        "other beginning": "n = int(input())\nprint(f' {n * n}')",
        "an empty line first": "n = int(input())\nprint(f'\\n{n * n}')",
        "other lines": "print(int(input()) ** 2)\nprint('done')",
        "fails": "print(9)\nraise SystemExit(1)",
        "endless": "while True: pass",
    }

    async def run() -> dict[str, bool]:
        async with LocalSandbox(workers=1) as sandbox:
            cases = list(zip(CHECK["inputs"], CHECK["outputs"], strict=True))
            return {name: await passes(code, cases, sandbox, Limits(seconds=3)) for name, code in programs.items()}

    return asyncio.run(run())


@pytest.mark.parametrize("name", ["right", "blanks"])
def test_programs_that_pass(outcomes: dict[str, bool], name: str) -> None:
    assert outcomes[name]


@pytest.mark.parametrize(
    "name", ["one case", "other lines", "other beginning", "an empty line first", "fails", "endless"]
)
def test_programs_that_do_not(outcomes: dict[str, bool], name: str) -> None:
    assert not outcomes[name]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": []}, "needs 'inputs', a list of texts"),
        ({"outputs": [9, 100]}, "needs 'outputs', a list of texts"),
        ({"outputs": ["9"]}, "an output for each input, got 2 and 1"),
    ],
)
def test_malformed_test_cases_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        run_check(CHECK | changes, None)


def test_there_is_no_notebook() -> None:
    async def run() -> None:
        async with LocalSandbox(workers=1) as sandbox:
            session = Programs().start(Problem("a", "q"), sandbox, Limits(seconds=3))
            _, refused = await session.call(Call("jupyter_code", {"code": "1"}))
            _, made = await session.call(Call("python_code_with_standard_io", {"code": SQUARE, "input": "3"}))
            session.release()
        assert refused.error == "there is no tool 'jupyter_code'; the tools are python_code_with_standard_io"
        assert (made.status, made.text) == ("ok", "9")

    asyncio.run(run())


def test_a_grader_runs_no_program() -> None:
    verdict = run_check(CHECK, SQUARE)
    assert (verdict.outcome, verdict.correct) == ("error", False)
    assert "environment 'programs'" in verdict.reason


def test_a_run_is_graded_by_the_test_cases(tmp_path: Path) -> None:
    def script(request: Request, sample: int) -> str:
        power = 2 if "square" in request.context.text else 3
        return f"```python\nprint(int(input()) ** {power})\n```<end_of_answer>"

    config = Config(search={"method": "agent", "turns": "code", "environment": "programs"}, sandbox={"level": "limits"})
    problems = [Problem("a", "Print the square."), Problem("b", "Print the number times itself.")]
    keys = {problem.id: AnswerKey(SQUARE, CHECK) for problem in problems}
    solver = AgentSolver(config, policy=FakeEngine(script=script))
    finished = asyncio.run(solve_run(config, ProblemSet(problems, keys), tmp_path / "run", solver=solver))
    assert [(row["correct"], row["verdict"]) for row in finished.results] == [(True, "correct"), (False, "wrong")]
    assert [row["trajectories"][0]["correct"] for row in finished.results] == [True, False]
