"""Solving a problem file into a run folder: resume, grading, summary.

Each finished problem is graded here, once, by the side that holds the answer keys. The solver receives only problems.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, Self

from rstar.agent.solver import AgentSolver, open_solver
from rstar.answers import AnswerKey
from rstar.config import Config, MutualConfig
from rstar.datasets import ProblemSet, read_problems
from rstar.errors import DataError, ResumeError
from rstar.evals.metrics import wilson
from rstar.grading import Verdict, verify
from rstar.grading.checks import run_check
from rstar.jsonl import Record
from rstar.models.spec import fingerprint, is_local, local_folder, resolved_dtype
from rstar.problems import Problem
from rstar.runs import FOLDER, RESULTS, SUMMARY, TREES, RunFolder, read_config
from rstar.search.checks import invalid_return, name_of
from rstar.search.mutual import domain_of
from rstar.search.solver import Solution
from rstar.search.value import ppm_folder, value_name
from rstar.tiny.source import ProblemSource, ProgressBar, draw_file

Grader = Callable[[AnswerKey, str | None], Verdict]

GRADING = frozenset({"gold answers", "grader"})
"""Identity keys that describe how a run was graded, not how it was solved."""


class SolverLike(Protocol):
    """Makes a solution of each problem: a `Solver` or a stand-in."""

    async def __aenter__(self) -> Self:
        """Open resources."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close them."""
        ...

    def asolve(self, problems: Iterable[Problem]) -> AsyncIterator[Solution]:
        """Yield a solution of each problem, in any order."""
        ...


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run: its folder, all results in problem order, and the summary."""

    folder: Path
    results: list[Record]
    summary: Record


async def solve_run(
    config: Config,
    problems: ProblemSet,
    folder: Path,
    on_result: Callable[[Record], None] = lambda record: None,
    solver: SolverLike | None = None,
    grade: Grader = verify,
    extra_identity: Mapping[str, str] | None = None,
) -> FinishedRun:
    """Solve the problems that `folder` does not hold yet, and finish the run.

    Args:
        config: of the run; what decides its results must equal that of the folder.
        problems: with the known gold answers. A folder that holds the run on the first of them only goes on.
        folder: the run folder, created or resumed.
        on_result: called with each result, stored ones first.
        solver: used instead of one made from `config`.
        grade: compares an answer with a gold answer. An agent's environment with a reward of its own grades instead.
        extra_identity: identity keys that are added or override settings, such as the parts of `solver` that `config`
            does not name.

    Raises:
        ResumeError: the folder belongs to another run, or was graded with other gold answers or another `grade`.
        ConfigError, DataError: a model cannot be opened, or a check is invalid (the folder is not claimed); a grader
            returns no `Verdict`.
        EngineError, SandboxError: infrastructure failed; finished problems are kept.
    """
    refuse_bad_checks(problems)
    solver = solver or open_solver(config)
    identity = config.identity() | _content_identity(config) | dict(extra_identity or {})
    about = {"digest": config.digest(), "config": config.model_dump(mode="json"), "versions": versions()}
    with _open_run(folder, identity, about, problems, grade) as run:
        order, results = [problem.id for problem in problems.problems], run.record_file(RESULTS)
        for record in results:
            on_result(record)
        finished = results.keys
        todo = [problem for problem in problems.problems if problem.id not in finished]
        cpu = _cpu_before(folder)
        if todo:
            cpu_started = _cpu_time()
            before = max((record.get("clock", 0.0) for record in results), default=0.0)
            started = time.perf_counter()
            async with solver:
                run.begin()
                async for solution in solver.asolve(todo):
                    key = problems.keys.get(solution.problem.id)
                    grader = await _reward_grader(solver, solution, key) or grade
                    record = await asyncio.to_thread(grade_solution, solution, key, grader)
                    record["clock"] = round(before + time.perf_counter() - started, 3)
                    run.add(results=record, trees=_tree_line(solution, config.search.record_tokens))
                    on_result(record)
            cpu = {"seconds": cpu["seconds"] + _cpu_time() - cpu_started, "problems": cpu["problems"] + len(todo)}
        stored = {record["id"]: record for record in results}
        ordered = [stored[name] for name in order]
        summary = summarize(ordered)
        if cpu["problems"]:
            summary["cpu"] = {"seconds": round(cpu["seconds"], 2), "problems": cpu["problems"]}
        run.seal(order, summary)
    return FinishedRun(folder, ordered, summary)


def _cpu_time() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _cpu_before(folder: Path) -> dict[str, Any]:
    """CPU seconds of earlier sessions of a finished run, and the number of problems that they solved.

    The time of a session that was killed is not known, so it counts neither with its seconds nor with its problems.
    """
    with suppress(OSError, ValueError, KeyError):
        return dict(json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["cpu"])
    return {"seconds": 0.0, "problems": 0}


async def _reward_grader(solver: SolverLike, solution: Solution, key: AnswerKey | None) -> Grader | None:
    """A grader by the rewards of the agent's environment; None if it only compares answers."""
    if key is None or not isinstance(solver, AgentSolver) or solver.compares_answers:
        return None
    best: dict[str | None, float] = {}
    for trajectory, reward in zip(solution.trajectories, await solver.rewards(key, solution.trajectories), strict=True):
        best[trajectory.answer] = max(reward, best.get(trajectory.answer, reward))

    def grade(key: AnswerKey, answer: str | None) -> Verdict:
        if answer is None:
            return Verdict("unparseable", "no answer found", key.answer)
        reward = best.get(answer, 0.0)
        return Verdict("correct" if reward > 0 else "wrong", f"the environment's reward is {reward:g}", key.answer)

    return grade


def _tree_line(solution: Solution, tokens: bool) -> Record | None:
    return None if solution.tree is None else {"id": solution.problem.id, **solution.tree.to_json(tokens)}


def _open_run(
    folder: Path, identity: Mapping[str, Any], about: Mapping[str, Any], problems: ProblemSet, grade: Grader
) -> RunFolder:
    """Open the folder of a run. It may hold the same run on the first of the problems only."""

    def on(some: ProblemSet) -> dict[str, Any]:
        return {**identity, **grading_identity(some, grade)}

    try:
        solved = _number_of_problems(folder)
        shorter = on(problems.head(solved)) if 0 < solved < len(problems) else None
        return RunFolder.open(
            folder, on(problems), {**about, "problems": len(problems)}, (RESULTS, TREES), goes_on_from=shorter
        )
    except ResumeError as error:
        if error.keys and error.keys <= GRADING:
            hint = "only the grading differs: to grade a finished run again, use `rstar grade --run`"
        elif "problems" in error.keys:
            hint = "other problems: another file or another --limit? A run can go on with more problems, not with fewer"
        else:
            raise
        raise ResumeError(f"{error}\n{hint}", error.keys) from error


def _number_of_problems(folder: Path) -> int:
    """Of the run in a folder; 0 if it does not say so."""
    config = read_config(folder) or {}
    number = config.get("problems")
    return number if isinstance(number, int) else 0


def grade_solution(solution: Solution, key: AnswerKey | None, grade: Grader = verify) -> Record:
    """A line of ``results.jsonl``; without a key, it has no gold, verdict and correct."""
    problem = solution.problem
    record: Record = {"id": problem.id, "question": problem.question, "answer": solution.answer}
    trajectories = [trajectory.record() for trajectory in solution.trajectories]
    record |= verdict_fields(key, solution.answer, trajectories, grade)
    return record | {
        "method": solution.method,
        "rollouts": solution.rollouts,
        "steps": solution.steps,
        **({"agent": solution.agent} if solution.agent else {}),
        "tokens_in": solution.tokens_in,
        "tokens_out": solution.tokens_out,
        **({"peer_tokens": solution.peer_tokens} if solution.peer_tokens else {}),
        **({"selections": solution.selections, "choices": solution.choices} if solution.selections else {}),
        "seconds": round(solution.seconds, 3),
        "value": None if solution.value is None else round(solution.value, 6),
        "failures": solution.failures,
        "notices": list(solution.notices),
        "trajectories": trajectories,
        "meta": problem.meta,
    }


def verdict_fields(key: AnswerKey | None, answer: str | None, trajectories: list[Record], grade: Grader) -> Record:
    """The fields that grading adds to a line of ``results.jsonl``; also sets `correct` of the `trajectories`.

    Raises:
        ConfigError: the grader returned something other than a `Verdict`.
    """
    if key is None:
        return {}
    verdicts: dict[str | None, Verdict] = {}
    for candidate in {answer, *(row["answer"] for row in trajectories)}:
        verdicts[candidate] = grade(key, candidate)
        if not isinstance(verdicts[candidate], Verdict):
            raise invalid_return("grader", grade, verdicts[candidate], "a rstar.grading.Verdict from a plain function")
    for row in trajectories:
        row["correct"] = verdicts[row["answer"]].correct
    verdict = verdicts[answer]
    check = {} if key.check is None else {"check": key.check}
    fields = {"verdict": verdict.outcome, "reason": verdict.reason, "correct": verdict.correct}
    return {"gold": key.answer} | check | fields


def summarize(results: Iterable[Record]) -> Record:
    """``summary.json``: n, accuracy with its 95% interval (of the graded), cost, verdicts, notices; accuracy by label.

    Seconds exclude interruptions: the latest `clock` of the results. A tree search also has the number of its
    selections, and of those among several open children (`choices`).
    """
    rows = list(results)
    counts = {name: sum(row.get(name, 0) for row in rows) for name in ("selections", "choices")}
    labels = sorted({name for row in rows for name in row["meta"]})
    return _accuracy(rows) | {
        "tokens": {"in": sum(row["tokens_in"] for row in rows), "out": sum(row["tokens_out"] for row in rows)},
        **(counts if counts["selections"] else {}),
        "seconds": max((row.get("clock", 0.0) for row in rows), default=0.0),
        "verdicts": dict(sorted(Counter(row["verdict"] for row in rows if "verdict" in row).items())),
        "notices": dict(sorted(Counter(notice for row in rows for notice in row.get("notices", ())).items())),
        "by": {
            label: {
                value: _accuracy([row for row in rows if label in row["meta"] and str(row["meta"][label]) == value])
                for value in sorted({str(row["meta"][label]) for row in rows if label in row["meta"]})
            }
            for label in labels
        },
    }


def _accuracy(rows: list[Record]) -> Record:
    graded = [row for row in rows if "correct" in row]
    right = sum(row["correct"] for row in graded)
    return {
        "n": len(rows),
        "graded": len(graded),
        "accuracy": round(right / len(graded), 4) if graded else None,
        "ci95": [round(bound, 4) for bound in wilson(right, len(graded))] if graded else None,
    }


def versions() -> dict[str, str]:
    """Versions that decide results: Python, this package, and the installed libraries."""
    found = {"python": platform.python_version()}
    for name in ("rstar", "torch", "transformers", "tokenizers", "numpy", "llvmlite", "sympy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def refuse_bad_checks(problems: ProblemSet) -> None:
    """Raise `DataError` for a problem with an invalid check."""
    for name, key in problems.keys.items():
        if key.check is not None:
            try:
                run_check(key.check, None)
            except DataError as error:
                raise DataError(f"problem {name!r}: {error}") from error


def read_source(source: ProblemSource, file: Path, bar: ProgressBar, *, gold: bool = True) -> ProblemSet:
    """The problems of a recipe's source; drawn ones are stored in `file`.

    Raises:
        DataError: a problem has an invalid check, or, with `gold`, no gold answer.
    """
    found = read_problems(path := source.file or draw_file(source, file, bar))
    if gold:
        found.require_gold("training", path)
    refuse_bad_checks(found)
    return found


def weights_identity(what: str, folder: Path) -> dict[str, str]:
    """Identity keys of a model folder: its content, not its path, so that it may be moved."""
    return {what: FOLDER, f"{what}.weights": fingerprint(folder)}


def _content_identity(config: Config) -> dict[str, str]:
    """Identity keys of the files that decide results: of the models that run here, and of the domain."""
    identity: dict[str, str] = {}
    if is_local(config.policy):
        identity |= weights_identity("policy", local_folder(config.policy))
        identity["engine.dtype"] = resolved_dtype(config.engine)
    if isinstance(config.search, MutualConfig):
        if (peer := config.search.peer) is not None and is_local(peer):
            identity |= weights_identity("search.peer", local_folder(peer))
        domain = domain_of(config)
        identity |= {"search.domain.prompts": domain.digest()} | ({"search.domain": FOLDER} if domain.own else {})
    if (ppm := ppm_folder(value_name(config))) is not None:
        identity |= weights_identity("value", ppm)
        identity["value.dtype"] = resolved_dtype(config.engine.model_copy(update={"dtype": "auto"}))
    return identity


def grading_identity(problems: ProblemSet, grade: Grader) -> dict[str, str]:
    """Identity keys of the problems, their gold answers, and the grader."""
    keys = (problems.keys.get(problem.id) for problem in problems.problems)
    return {
        "problems": _digest([_content(problem) for problem in problems.problems], "problems"),
        "gold answers": _digest([key and (key.answer, key.check) for key in keys], "answers"),
        "grader": name_of(grade),
    }


def _content(problem: Problem) -> tuple[Any, ...]:
    """What a solver is given."""
    return (problem.id, problem.question, *([problem.record] if problem.record else []))


def _digest(rows: list[Any], what: str) -> str:
    return f"{len(rows)} {what}, {hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]}"
