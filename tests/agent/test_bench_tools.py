"""The benchmark of tool calls makes the same rollouts with and without them."""

import asyncio
import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from rstar.agent.bench_tools import ReplaySandbox, bench_tools
from rstar.cli.app import app
from rstar.config import Config
from rstar.errors import EngineError
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox.api import Result, State
from tests.search.plain import PlainSandbox

CONFIG = Config(search={"method": "agent", "turns": "code", "environment": "puzzles", "samples": 3})


def script(request: Request, sample: int) -> str:
    """Sets up, fails, succeeds with what holds, and answers with what was printed; samples differ in their numbers."""
    text = request.context.text
    cells = ("total = 1", "assert total == 2", f"total += {sample}", "print(total)")
    made = text.count("<output>")
    if made < len(cells):
        return f"<code>\n{cells[made]}\n<end_of_code>"
    return f"<answer>\\boxed{{{text.rpartition('<output>')[2].partition('<')[0].strip()}}}<end_of_answer>"


def test_rounds_without_the_sandbox_make_the_same_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: Counter[bool] = Counter()
    start = ReplaySandbox.start

    def counted(self: ReplaySandbox) -> State:
        runs[self.replays] += 1
        return start(self)

    monkeypatch.setattr(ReplaySandbox, "start", counted)
    problems, done = [Problem("a", "?"), Problem("b", "?")], list[int]()
    figures = asyncio.run(bench_tools(CONFIG, problems, policy=FakeEngine(script=script), rounds=1, done=done.append))
    assert sum(done) == 6
    assert runs[False] == 2 * runs[True] > 0, "the first round records, and the second one replays"
    # per problem, two shared cells, and two for each rollout
    assert (figures.rollouts, figures.calls) == (6, 16)
    assert figures.tokens > 0
    assert figures.share == pytest.approx(figures.with_tools / figures.alone)


def test_results_and_lost_states_are_replayed() -> None:
    async def both() -> list[list[tuple[bool, Result]]]:
        sandbox, found = ReplaySandbox(PlainSandbox()), []
        for sandbox.replays in (False, True):
            start = sandbox.start()
            state, first = await start.run("x = 20")
            assert state is not None
            after, second = await state.run("print(x + 1)")
            failed, third = await state.run("1 / 0")
            found.append([(state is not None, first), (after is not None, second), (failed is not None, third)])
            for one in (start, state, after, failed):
                if one is not None:
                    one.release()
        with pytest.raises(EngineError, match="other cells"):
            await sandbox.start().run("x = 21")
        return found

    recorded, replayed = asyncio.run(both())
    assert recorded == replayed
    assert [result.stdout for _, result in recorded][:2] == ["", "21\n"]
    assert recorded[2][1].status == "error"


def test_the_command() -> None:
    arguments = ["bench", "tools", "--policy", "fake:steps", "--n", "2", "--samples", "2"]
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert found["rollouts"] == 4
    assert found["share"] == pytest.approx(found["with_tools"] / found["alone"])
    assert "of the engine's throughput" in CliRunner().invoke(app, arguments).stdout
