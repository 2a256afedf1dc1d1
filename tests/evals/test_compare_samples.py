"""Choosing again among stored samples."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from rstar.answers import AnswerKey
from rstar.datasets import ProblemSet
from rstar.errors import DataError, ResumeError
from rstar.evals.compare import Entry, entries_of
from rstar.evals.compare_samples import solve_entry
from rstar.evals.run import FinishedRun, solve_run
from rstar.jsonl import read_lines
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.runs import RESULTS, TREES
from rstar.search.solver import Solver
from tests.search.plain import PlainSandbox

PROBLEMS = ProblemSet(
    [Problem(str(i), f"What is {i} + 1?") for i in range(5)], {str(i): AnswerKey(str(i + 1)) for i in range(5)}
)
SAMPLES = {"name": "samples", "search": {"method": "sample", "samples": 12, "record_tokens": True}}


def entry(**own: object) -> Entry:
    """An entry that chooses among `SAMPLES`."""
    table = {"name": "again", "samples_of": "samples", **own}
    return entries_of([SAMPLES, table], {"policy": "fake:steps"}, {}, "r.toml")[1]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with the run ``samples``."""
    (source,) = entries_of([SAMPLES], {"policy": "fake:steps"}, {}, "r.toml")
    solver = Solver(source.config, policy=FakeEngine(), sandbox=PlainSandbox())
    asyncio.run(solve_run(source.config, PROBLEMS, tmp_path / "samples", solver=solver))
    return tmp_path


def choose_again(out: Path, of: Entry) -> FinishedRun:
    return asyncio.run(solve_entry(of, PROBLEMS, out))


def test_the_same_choice_among_the_same_samples_gives_the_same_results(out: Path) -> None:
    found = choose_again(out, entry())
    source = list(read_lines(out / "samples" / RESULTS))
    for row in (*found.results, *source):
        del row["clock"]
        for one in row["trajectories"]:
            one["logprob"] = round(one["logprob"], 2)  # a sum of rounded terms
    assert len({one["text"] for row in source for one in row["trajectories"]}) > 5  # there is something to choose from
    assert found.results == source
    assert not (out / "again" / TREES).exists()


def test_samples_of_a_version_without_notices_are_taken(out: Path) -> None:
    file = out / "samples" / RESULTS
    rows = [{key: value for key, value in row.items() if key != "notices"} for row in read_lines(file)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(choose_again(out, entry()).results) == len(PROBLEMS.problems)


def test_another_value_chooses_otherwise_at_the_same_cost(out: Path) -> None:
    found = choose_again(out, entry(value="logprob", search={"choose": "best"}))
    for row, source in zip(found.results, read_lines(out / "samples" / RESULTS), strict=True):
        best = max(row["trajectories"], key=lambda one: one["logprob"])
        assert row["answer"] == best["answer"]
        assert row["value"] == pytest.approx(1 / (1 - best["logprob"]), abs=1e-4)
        assert row["tokens_out"] == source["tokens_out"]
        assert [one["text"] for one in row["trajectories"]] == [one["text"] for one in source["trajectories"]]


def test_a_choice_goes_on_and_is_not_taken_for_another(out: Path) -> None:
    found = choose_again(out, entry())
    file = out / "again" / RESULTS
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    assert [row["answer"] for row in choose_again(out, entry()).results] == [row["answer"] for row in found.results]
    with pytest.raises(ResumeError, match="samples_of"):
        choose_again(out, replace(entry(), samples_of=None))


def test_missing_and_damaged_samples_are_named(out: Path) -> None:
    trees = out / "samples" / TREES
    lines = trees.read_text().splitlines(keepends=True)
    trees.write_text("".join(lines[:-1]))
    with pytest.raises(DataError, match="no samples of problem '4'"):
        choose_again(out, entry())
    first = json.loads(lines[0])
    first["nodes"][1]["parent"] = 9
    trees.write_text(json.dumps(first) + "\n")
    with pytest.raises(DataError, match=r"trees\.jsonl: damaged tree of problem '0'"):
        choose_again(out, replace(entry(), name="other"))
    trees.unlink()
    with pytest.raises(DataError, match=r"trees\.jsonl is missing"):
        choose_again(out, replace(entry(), name="other"))


def test_solutions_of_a_tree_weigh_what_they_weighed_in_the_search(tmp_path: Path) -> None:
    """Two programs with the same answer are one node, whose probability is that of both."""
    programs = [("print(7)", 0.26), ("print(3 + 4)", 0.26), ("print(8)", 0.4)]

    def script(request: Request, sample: int) -> tuple[str, float]:
        text = request.context.text
        if text.endswith("<answer>"):
            return f"\\boxed{{{text.rpartition('<output>')[2].partition('<end')[0]}}}<end_of_answer>", 0.0
        written = [(f"{code}\n<end_of_code>", math.log(p)) for code, p in programs]
        known = {completion.text for completion in request.known}
        return next((one for one in written if one[0] not in known), written[0])

    tables = [
        {"name": "tree", "search": {"method": "mcts", "rollouts": 6, "record_tokens": True}},
        {"name": "again", "samples_of": "tree"},
    ]
    source, again = entries_of(tables, {"policy": "fake:steps", "value": "agreement"}, {}, "r.toml")
    solver = Solver(source.config, policy=FakeEngine(script=script), sandbox=PlainSandbox())
    problem = ProblemSet(PROBLEMS.problems[:1], {"0": AnswerKey("7")})
    searched = asyncio.run(solve_run(source.config, problem, tmp_path / "tree", solver=solver))
    chosen = asyncio.run(solve_entry(again, problem, tmp_path))
    assert searched.results[0]["answer"] == "7"
    assert chosen.results[0]["answer"] == "7"
    masses = [one["mass"] for one in searched.results[0]["trajectories"]]
    assert masses == pytest.approx([0.52, 0.4], abs=1e-3)
    assert [one["mass"] for one in chosen.results[0]["trajectories"]] == masses
