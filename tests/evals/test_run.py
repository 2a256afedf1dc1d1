"""Run folders of `rstar solve`: grading, resume after kill -9, refusal."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rstar.answers import AnswerKey
from rstar.config import Config, MctsConfig
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError, DataError, EngineError, ResumeError
from rstar.evals.run import FinishedRun, solve_run, summarize
from rstar.grading import Verdict
from rstar.jsonl import read_lines
from rstar.models.engine import Completion, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.runs import CONFIG as CONFIG_FILE
from rstar.runs import RESULTS, SUMMARY, TREES
from rstar.search.solver import Solver
from rstar.specs import Fake
from tests.models.tiny_models import write_model
from tests.prompts.test_domains import domain_folder
from tests.search.plain import PlainSandbox

CONFIG = Config(policy="fake:steps", search={"rollouts": 4, "expansions": 4})


def problem_set(n: int = 6) -> ProblemSet:
    problems = [Problem(str(i), f"What is {i} + 1?", {"family": "sums", "level": 1 + i % 2}) for i in range(n)]
    return ProblemSet(problems, {p.id: AnswerKey(str(int(p.id) + 1)) for p in problems[:-1]})


def run(folder: Path, config: Config = CONFIG, n: int = 6, policy: FakeEngine | None = None) -> FinishedRun:
    return solve(folder, problem_set(n), policy, config)


def solve(folder: Path, problems: ProblemSet, policy: FakeEngine | None = None, config: Config = CONFIG) -> FinishedRun:
    solver = Solver(config, policy=policy or FakeEngine(), sandbox=PlainSandbox())
    return asyncio.run(solve_run(config, problems, folder, solver=solver))


def timeless(file: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in ("seconds", "clock")} for row in read_lines(file)]


def test_records(tmp_path: Path) -> None:
    found = run(tmp_path / "run")
    rows = list(read_lines(tmp_path / "run" / RESULTS))
    assert rows == found.results
    assert [row["id"] for row in rows] == [str(i) for i in range(6)]
    fields = "id question answer method rollouts steps tokens_in tokens_out seconds value trajectories"
    for row in rows:
        assert set(fields.split()) <= set(row)
        for trajectory in row["trajectories"]:
            assert {"text", "answer", "value", "votes"} <= set(trajectory)
    graded, ungraded = rows[:-1], rows[-1]
    assert all(row["correct"] == (row["verdict"] == "correct") and row["gold"] for row in graded)
    assert not {"gold", "verdict", "correct"} & set(ungraded)
    assert found.summary["n"] == 6
    assert found.summary["graded"] == 5
    assert found.summary["accuracy"] == pytest.approx(sum(row["correct"] for row in graded) / 5, abs=1e-4)
    assert found.summary["by"]["level"]["1"]["n"] == 3
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == found.summary
    trees = list(read_lines(tmp_path / "run" / TREES))
    assert [tree["id"] for tree in trees] == [row["id"] for row in rows]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["digest"] == CONFIG.digest()
    assert config["versions"]["python"]


def test_summary_counts_the_cpu_time_of_all_sessions(tmp_path: Path) -> None:
    first = run(tmp_path / "run", CONFIG).summary["cpu"]
    assert first["problems"] == 6
    assert first["seconds"] >= 0
    assert run(tmp_path / "run", CONFIG).summary["cpu"] == first, "nothing was left to do"


def test_summary_counts_the_time_of_the_run_once(tmp_path: Path) -> None:
    found = run(tmp_path / "run", policy=FakeEngine(Fake("steps", latency=0.02)))
    assert found.summary["seconds"] < sum(row["seconds"] for row in found.results)
    assert found.summary["seconds"] == max(row["clock"] for row in found.results)
    assert found.summary["tokens"] == {way: sum(row[f"tokens_{way}"] for row in found.results) for way in ("in", "out")}


def test_time_goes_on_where_an_interrupted_run_stopped(tmp_path: Path) -> None:
    class FailsAtFour(FakeEngine):
        async def complete(self, request: Request) -> Sequence[Completion]:
            if "What is 4" in request.context.text:
                raise EngineError("lost")
            return await super().complete(request)

    config = CONFIG.model_copy(update={"search": MctsConfig(rollouts=4, expansions=4, concurrency=1)})
    with pytest.raises(EngineError):
        run(tmp_path / "run", config, policy=FailsAtFour())
    before = [row["clock"] for row in read_lines(tmp_path / "run" / RESULTS)]
    assert before
    found = run(tmp_path / "run", config)
    assert [row["clock"] for row in found.results][:4] == before
    assert all(row["clock"] > max(before) for row in found.results[4:])


def test_labels_of_another_type_are_one_label() -> None:
    rows = [
        {"meta": {"level": level}, "correct": True, "tokens_in": 0, "tokens_out": 0, "clock": 1.0} for level in (1, "1")
    ]
    assert summarize(rows)["by"]["level"]["1"]["n"] == 2


def test_another_grader(tmp_path: Path) -> None:
    def strict(key: AnswerKey, answer: str | None) -> Verdict:
        return Verdict("wrong", "too easy")

    solver = Solver(CONFIG, policy=FakeEngine(), sandbox=PlainSandbox())
    found = asyncio.run(solve_run(CONFIG, problem_set(), tmp_path / "run", solver=solver, grade=strict))
    assert found.summary["accuracy"] == 0
    assert {row.get("reason") for row in found.results} == {"too easy", None}
    with pytest.raises(ResumeError, match=r"grader: .*strict.*verify.*\n.*rstar grade --run"):
        run(tmp_path / "run")


async def _later(key: AnswerKey, answer: str | None) -> Verdict:
    return Verdict("correct", "")


@pytest.mark.parametrize(
    ("grade", "got"),
    [(_later, "coroutine"), (lambda key, answer: True, "bool"), (lambda key, answer: None, "NoneType")],
)
def test_a_grader_that_returns_no_verdict_is_named(tmp_path: Path, grade: Any, got: str) -> None:
    solver = Solver(CONFIG, policy=FakeEngine(), sandbox=PlainSandbox())
    with pytest.raises(ConfigError, match=rf"grader .*{grade.__qualname__}.* returned {got} .*rstar\.grading\.Verdict"):
        asyncio.run(solve_run(CONFIG, problem_set(2), tmp_path / "run", solver=solver, grade=grade))


def test_what_cannot_work_claims_no_folder(tmp_path: Path) -> None:
    config = Config(policy=f"hf:{tmp_path / 'model'}", search=CONFIG.search)
    with pytest.raises(ConfigError, match="not a model folder"):
        asyncio.run(solve_run(config, problem_set(), tmp_path / "run"))
    problems = problem_set()
    problems.keys["0"] = AnswerKey("1", {"kind": "expresion"})
    with pytest.raises(DataError, match="problem '0': unknown kind of check"):
        asyncio.run(solve_run(CONFIG, problems, tmp_path / "run"))
    with pytest.raises(EngineError):
        run(tmp_path / "run", policy=FakeEngine(Fake("fail", rate=1)))
    assert run(tmp_path / "run", CONFIG.model_copy(update={"seed": 0})).summary["n"] == 6


def test_another_check_is_another_run(tmp_path: Path) -> None:
    problems = problem_set()
    for target in (3, 4):
        problems.keys["0"] = AnswerKey("1 + 2", {"kind": "expression", "numbers": [1, 2], "target": target})
        solver = Solver(CONFIG, policy=FakeEngine(), sandbox=PlainSandbox())
        if target == 3:
            asyncio.run(solve_run(CONFIG, problems, tmp_path / "run", solver=solver))
            continue
        with pytest.raises(ResumeError, match=r"gold answers: .*\n.*rstar grade --run"):
            asyncio.run(solve_run(CONFIG, problems, tmp_path / "run", solver=solver))


def test_other_weights_in_the_same_folder_are_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_model(folder)
    config = Config(policy=f"hf:{folder}", search={"method": "greedy", "max_step_tokens": 4, "max_depth": 1})
    asyncio.run(solve_run(config, problem_set(1), tmp_path / "run"))
    write_model(folder, seed=5)
    with pytest.raises(ResumeError, match=r"policy\.weights"):
        asyncio.run(solve_run(config, problem_set(1), tmp_path / "run"))


def test_a_domain_that_was_edited_is_another_run(tmp_path: Path) -> None:
    """The folder may be moved, or named otherwise; a resumed run never mixes two prompts."""
    mine = domain_folder(tmp_path / "mine")

    def solve(folder: Path) -> FinishedRun:
        search = {"method": "mutual", "domain": str(folder), "rollouts": 2, "votes": 2}
        config = Config(policy="fake:steps", search=search)
        return asyncio.run(solve_run(config, problem_set(2), tmp_path / "run"))

    solve(mine)
    solve(mine.rename(tmp_path / "moved"))
    step = tmp_path / "moved" / "step.toml"
    step.write_text(step.read_text().replace("Do step", "Please do step"))
    with pytest.raises(ResumeError, match=r"\n  search\.domain\.prompts: the content has changed$"):
        solve(tmp_path / "moved")


def test_a_refusal_names_models_not_folders(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    search = {"method": "greedy", "max_step_tokens": 4, "max_depth": 1}
    asyncio.run(solve_run(Config(policy=f"hf:{tmp_path}/model", search=search), problem_set(1), tmp_path / "run"))
    with pytest.raises(ResumeError, match=r"policy: 'hf:.*/model' there, 'fake:steps' now"):
        asyncio.run(solve_run(Config(policy="fake:steps", search=search), problem_set(1), tmp_path / "run"))


def test_a_finished_run_is_not_done_again(tmp_path: Path) -> None:
    first = run(tmp_path / "run")
    again = run(tmp_path / "run", policy=FakeEngine(Fake("fail", rate=1)))
    assert again.results == first.results


def test_a_run_goes_on_with_further_problems(tmp_path: Path) -> None:
    problems = problem_set(12)
    first = solve(tmp_path / "run", problems.head(5))
    with pytest.raises(EngineError):
        solve(tmp_path / "run", problems, FakeEngine(Fake("fail", rate=1)))
    assert not (tmp_path / "run" / SUMMARY).exists(), "it is unfinished now"
    longer = solve(tmp_path / "run", problems)
    assert longer.results[:5] == first.results
    assert longer.summary["n"] == 12
    solve(tmp_path / "whole", problems)
    for name in (RESULTS, TREES):
        assert timeless(tmp_path / "run" / name) == timeless(tmp_path / "whole" / name)
    assert (tmp_path / "run" / CONFIG_FILE).read_bytes() == (tmp_path / "whole" / CONFIG_FILE).read_bytes()


def test_further_problems_must_follow_the_same_ones(tmp_path: Path) -> None:
    problems = problem_set(12)
    solve(tmp_path / "run", problems.head(5))
    for other in (problems.subset(problems.problems[1:]), ProblemSet(problems.problems, {})):
        with pytest.raises(ResumeError, match=r"gold answers: '5 answers(.|\n)*another file or another --limit"):
            solve(tmp_path / "run", other)


def test_lost_infrastructure_keeps_what_was_finished(tmp_path: Path) -> None:
    engine = FakeEngine()
    complete, asked = engine.complete, 0

    async def failing(request: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked > 60:
            raise EngineError("server gone")
        return await complete(request)

    engine.complete = failing  # type: ignore[method-assign]
    serial = Config(policy="fake:steps", search={"rollouts": 4, "expansions": 4, "concurrency": 1})
    with pytest.raises(EngineError, match="server gone"):
        run(tmp_path / "run", serial, n=40, policy=engine)
    kept = len(list(read_lines(tmp_path / "run" / RESULTS)))
    assert 0 < kept < 40
    run(tmp_path / "run", serial, n=40)
    run(tmp_path / "whole", serial, n=40)
    assert timeless(tmp_path / "run" / RESULTS) == timeless(tmp_path / "whole" / RESULTS)


@pytest.mark.parametrize(
    ("other", "n", "named"),
    [
        ({"seed": 1}, 6, "seed: 0 there, 1 now"),
        ({"search": MctsConfig(rollouts=5, expansions=4)}, 6, "search.rollouts: 4 there, 5 now"),
        ({}, 5, "problems: '6 problems, "),
    ],
)
def test_another_run_is_refused(tmp_path: Path, other: dict[str, Any], n: int, named: str) -> None:
    run(tmp_path / "run")
    with pytest.raises(ResumeError) as caught:
        run(tmp_path / "run", CONFIG.model_copy(update=other), n)
    assert named in str(caught.value)


def write_problems(file: Path, n: int) -> None:
    rows = ({"id": str(i), "question": f"{i}?", "answer": str(i)} for i in range(n))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def command(problems: Path, out: Path) -> list[str]:
    return [
        sys.executable, "-c", "from rstar.cli.app import main; main()", "solve", "--problems", str(problems),
        "--out", str(out), "--policy", "fake:steps?latency=0.01", "--set", "search.rollouts=3",
        "--set", "search.concurrency=4", "--json",
    ]  # fmt: skip


def test_killed_at_any_moment_ends_like_an_uninterrupted_run(tmp_path: Path) -> None:
    """kill -9 again and again; the finished folder is byte-identical, times aside, to that of a run left alone."""
    write_problems(tmp_path / "p.jsonl", 24)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(tmp_path / "p.jsonl", whole), check=True, stdout=subprocess.DEVNULL)
    seen: set[str] = set()
    for enough in (2, 8, 15):
        process = subprocess.Popen(command(tmp_path / "p.jsonl", killed), stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            lines = list(read_lines(killed / RESULTS)) if (killed / RESULTS).exists() else []
            if len(lines) >= enough:
                break
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        now = {row["id"] for row in read_lines(killed / RESULTS)}
        assert seen <= now, "nothing finished is lost"
        seen = now
    subprocess.run(command(tmp_path / "p.jsonl", killed), check=True, stdout=subprocess.DEVNULL)
    assert timeless(killed / RESULTS) == timeless(whole / RESULTS)
    for name in (TREES, "config.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
