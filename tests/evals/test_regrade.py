"""Grading a finished run anew."""

import asyncio
from pathlib import Path

import pytest

from rstar.answers import AnswerKey
from rstar.config import Config
from rstar.datasets import ProblemSet
from rstar.errors import DataError, ResumeError
from rstar.evals.regrade import regrade, write_regraded
from rstar.evals.run import solve_run
from rstar.grading.verdict import Verdict
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.runs import CONFIG, RESULTS, SUMMARY, TREES
from rstar.search.solver import Solver
from tests.search.plain import PlainSandbox

SETTINGS = Config(policy="fake:steps", search={"rollouts": 4, "expansions": 4})


def finished(folder: Path, n: int = 5) -> ProblemSet:
    """A run in which every answer was compared with a gold answer that nobody gives."""
    problems = [Problem(str(i), f"What is {i} + 1?") for i in range(n)]
    given = ProblemSet(problems, {problem.id: AnswerKey("none of them") for problem in problems})
    solver = Solver(SETTINGS, policy=FakeEngine(), sandbox=PlainSandbox())
    asyncio.run(solve_run(SETTINGS, given, folder, solver=solver))
    return given


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_corrected_golds_change_verdicts_and_not_the_run(tmp_path: Path) -> None:
    given = finished(tmp_path / "run")
    before = contents(tmp_path / "run")
    answers = {row["id"]: row["answer"] for row in regrade(tmp_path / "run").before}
    right = ProblemSet(given.problems[::-1], given.keys | {"1": AnswerKey(answers["1"]), "3": AnswerKey(answers["3"])})
    found = regrade(tmp_path / "run", right)
    assert [new["id"] for _, new in found.changed] == ["1", "3"]
    assert [row["id"] for row in found.after] == [row["id"] for row in found.before]
    assert all(not old["correct"] and new["correct"] for old, new in found.changed)
    assert found.p == 0.5
    chosen = found.changed[0][1]
    assert any(t["correct"] for t in chosen["trajectories"])
    summary = write_regraded(tmp_path / "run", found, tmp_path / "new")
    assert summary["accuracy"] == 0.4
    assert set(contents(tmp_path / "new")) == {CONFIG, RESULTS, SUMMARY, TREES}
    assert (tmp_path / "new" / TREES).read_bytes() == (tmp_path / "run" / TREES).read_bytes()
    assert contents(tmp_path / "run") == before
    assert not regrade(tmp_path / "new").changed


def test_without_problems_the_golds_of_the_run_are_used(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    assert not regrade(tmp_path / "run").changed

    def lenient(key: AnswerKey, answer: str | None) -> Verdict:
        return Verdict("correct", key.answer)

    assert {new["reason"] for _, new in regrade(tmp_path / "run", grade=lenient).changed} == {"none of them"}


def test_a_check_is_kept_for_the_next_grading(tmp_path: Path) -> None:
    problems = [Problem("a", "Make 3 of 1 and 2.")]
    given = ProblemSet(problems, {"a": AnswerKey("1 + 2", {"kind": "expression", "numbers": [1, 2], "target": 3})})
    solver = Solver(SETTINGS, policy=FakeEngine(), sandbox=PlainSandbox())
    asyncio.run(solve_run(SETTINGS, given, tmp_path / "run", solver=solver))
    assert regrade(tmp_path / "run").problems.keys["a"].check == given.keys["a"].check


def test_mismatched_problems_are_named(tmp_path: Path) -> None:
    given = finished(tmp_path / "run")
    with pytest.raises(DataError, match="problem '4' is in the run but not in the problem file"):
        regrade(tmp_path / "run", given.head(4))
    other = ProblemSet([Problem(p.id, p.question + "?") for p in given.problems], given.keys)
    with pytest.raises(DataError, match="problem '0' has different questions"):
        regrade(tmp_path / "run", other)
    with pytest.raises(DataError, match="no gold answers"):
        regrade(tmp_path / "run", ProblemSet(given.problems, {}))
    with pytest.raises(ResumeError):
        write_regraded(
            tmp_path / "run", regrade(tmp_path / "run", grade=lambda key, answer: Verdict("wrong", "")), tmp_path
        )
    (tmp_path / "run" / SUMMARY).unlink()
    with pytest.raises(DataError, match="not the folder of a finished run"):
        regrade(tmp_path / "run")
