"""Regrading of a finished run, with another grader or corrected gold answers.

The run's own files are only read. Changed verdicts are reported pair by pair; `write_regraded` writes a new run folder.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

from rstar.answers import AnswerKey
from rstar.datasets import ProblemSet
from rstar.errors import DataError
from rstar.evals.metrics import sign_test
from rstar.evals.run import Grader, grading_identity, refuse_bad_checks, summarize, verdict_fields, versions
from rstar.grading import verify
from rstar.jsonl import Record, read_lines
from rstar.problems import Problem
from rstar.runs import CONFIG, RESULTS, SUMMARY, TREES, RunFolder, read_config


@dataclass(frozen=True, slots=True)
class Regraded:
    """A run with new verdicts.

    Attributes:
        problems: of the run, with the gold answers used now.
        before, after: its results in order; they differ only in the fields of grading.
    """

    problems: ProblemSet
    before: list[Record]
    after: list[Record]

    @property
    def changed(self) -> list[tuple[Record, Record]]:
        """The pairs whose verdict differs; a missing verdict counts as one."""
        pairs = zip(self.before, self.after, strict=True)
        return [(old, new) for old, new in pairs if old.get("correct") != new.get("correct")]

    @property
    def p(self) -> float:
        """Paired exact test, two-sided, over the problems graded both times."""
        pairs = zip(self.before, self.after, strict=True)
        both = [(old, new) for old, new in pairs if "correct" in old and "correct" in new]
        return sign_test([(old["correct"], new["correct"]) for old, new in both])


def regrade(run: Path, problems: ProblemSet | None = None, grade: Grader = verify) -> Regraded:
    """Grade the results of a finished run again; the run is not modified.

    Args:
        run: its folder.
        problems: with the gold answers to use, matched by id; default: those that the run was graded with.
        grade: compares an answer with a gold answer.

    Raises:
        DataError: the run is not finished, a problem is missing from the file or has another question there, or there
            are no gold answers.
        ConfigError: a grader returns no `Verdict`.
    """
    if not (run / SUMMARY).is_file() or not (run / CONFIG).is_file():
        raise DataError(f"{run} is not the folder of a finished run: it contains no {SUMMARY}")
    before = list(read_lines(run / RESULTS))
    given = _own_problems(before) if problems is None else problems.subset(_matching(before, problems))
    if not given.keys:
        raise DataError(f"{run}: the run has no gold answers; give a problem file that contains them")
    refuse_bad_checks(given)
    after = []
    for row in before:
        new = {key: value for key, value in copy.deepcopy(row).items() if key not in _VERDICT}
        for trajectory in new["trajectories"]:
            trajectory.pop("correct", None)
        after.append(new | verdict_fields(given.keys.get(row["id"]), row["answer"], new["trajectories"], grade))
    return Regraded(given, before, after)


_VERDICT = ("gold", "check", "verdict", "reason", "correct")


def _own_problems(results: list[Record]) -> ProblemSet:
    keys = {row["id"]: AnswerKey(row["gold"], row.get("check")) for row in results if "gold" in row}
    return ProblemSet([Problem(row["id"], row["question"]) for row in results], keys)


def _matching(results: list[Record], problems: ProblemSet) -> list[Problem]:
    """The problems of the results, in their order."""
    by_id = {problem.id: problem for problem in problems.problems}
    for row in results:
        if row["id"] not in by_id:
            raise DataError(f"problem {row['id']!r} is in the run but not in the problem file")
        if by_id[row["id"]].question != row["question"]:
            raise DataError(f"problem {row['id']!r} has different questions in the run and in the problem file")
    return [by_id[row["id"]] for row in results]


def write_regraded(run: Path, found: Regraded, out: Path, grade: Grader = verify) -> Record:
    """Write a new run folder with the run's solutions and trees and the new verdicts. Returns its summary.

    Raises:
        ResumeError: `out` holds something else, or the run's configuration cannot be read.
    """
    config = read_config(run)
    if config is None:
        raise DataError(f"{run} is not the folder of a run: it contains no {CONFIG}")
    identity = config["identity"] | grading_identity(found.problems, grade)
    about = {key: value for key, value in config.items() if key != "identity"} | {"versions": versions()}
    trees = {tree["id"]: tree for tree in read_lines(run / TREES)} if (run / TREES).is_file() else {}
    with RunFolder.open(out, identity, about, (RESULTS, TREES)) as target:
        for row in found.after:
            if row["id"] not in target.record_file(RESULTS).keys:
                target.add(results=row, trees=trees.get(row["id"]))
        summary = summarize(found.after)
        target.seal([row["id"] for row in found.after], summary)
    return summary
