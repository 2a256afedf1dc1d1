"""Choosing again among the solutions of a finished run: same samples, another value or choice rule.

This compares choosers on equal samples. Nothing is sampled and no code runs: solutions come from the stored trees, the
value scores them like the ends of a search, and one is chosen as in a search. Log-probabilities are as stored: rounded
to five decimals. Masses are as stored, to six digits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from rstar.config import Config
from rstar.datasets import ProblemSet
from rstar.errors import DataError
from rstar.evals.compare import Entry
from rstar.evals.run import FinishedRun, solve_run
from rstar.grading import is_equivalent
from rstar.jsonl import Record, read_lines
from rstar.problems import Problem
from rstar.runs import RESULTS, TREES
from rstar.search.choose import Votes, choose_as_set
from rstar.search.solver import Solution
from rstar.search.value import open_value, value_name
from rstar.trajectories import Trajectory
from rstar.trees import Tree


async def solve_entry(
    entry: Entry,
    problems: ProblemSet,
    out: Path,
    on_result: Callable[[Record], None] = lambda record: None,
    extra_identity: Mapping[str, str] | None = None,
) -> FinishedRun:
    """Run an entry of a comparison in the folder of its name below `out`; see `solve_run`.

    Raises:
        What `solve_run` raises, and `DataError` if the source's samples are missing.
    """
    if entry.samples_of is None:
        return await solve_run(entry.config, problems, out / entry.name, on_result, extra_identity=extra_identity)
    samples = StoredSamples(entry.config, out / entry.samples_of)
    identity = dict(extra_identity or {}) | {"samples_of": entry.samples_of}
    return await solve_run(entry.config, problems, out / entry.name, on_result, samples, extra_identity=identity)


class StoredSamples:
    """A solver that returns the solutions of a finished run, at the cost of that run.

    Args:
        config: names the value and the choice rule.
        source: folder of the run, with ``search.record_tokens``.

    Raises:
        ConfigError: a PPM is missing.
    """

    def __init__(self, config: Config, source: Path) -> None:
        self._config, self._source = config, source
        self._value = open_value(value_name(config), config.engine.device)

    async def __aenter__(self) -> Self:
        """Nothing to open."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to close."""

    async def asolve(self, problems: Iterable[Problem]) -> AsyncIterator[Solution]:
        """Yield the solutions of `problems`, in the order of the source.

        Raises:
            DataError: the source lacks a problem's result or tree, or is damaged.
            EngineError: the value reads log-probabilities, and the stored solutions have none.
        """
        wanted = {problem.id: problem for problem in problems}
        for name in (RESULTS, TREES):
            if not (self._source / name).is_file():
                raise DataError(f"{self._source}: {name} is missing")
        found = {row["id"]: row for row in read_lines(self._source / RESULTS) if row["id"] in wanted}
        for line in read_lines(self._source / TREES):
            if (problem := wanted.get(line["id"])) is not None and line["id"] in found:
                del wanted[line["id"]]
                row = found[line["id"]]
                yield await self._choose(problem, self._solutions(line, row), _cost(row))
        if wanted:
            raise DataError(f"{self._source}: contains no samples of problem {next(iter(wanted))!r}")

    def _solutions(self, line: Record, row: Record) -> list[Trajectory]:
        """The solutions of a tree, with the masses that they had when the search ended."""
        try:
            ends = [trajectory for _, trajectory in Tree.from_json(line).ends()]
            masses = [float(one["mass"]) for one in row["trajectories"]]
            return [replace(end, mass=mass) for end, mass in zip(ends, masses, strict=True)]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise DataError(f"{self._source / TREES}: damaged tree of problem {line['id']!r}: {error!r}") from error

    async def _choose(self, problem: Problem, ends: Sequence[Trajectory], cost: Mapping[str, Any]) -> Solution:
        votes = Votes(is_equivalent)
        await votes.count((end.answer or "", end.votes, end.mass) for end in ends)
        values = await self._value.score(problem, ends, votes)
        scored = tuple(replace(end, value=value) for end, value in zip(ends, values, strict=True))
        chosen = await choose_as_set(scored, self._config.search, self._value.name, is_equivalent)
        return Solution(
            problem=problem,
            answer=chosen.answer if chosen else None,
            value=chosen.value if chosen else None,
            expansions=0,
            trajectories=scored,
            tree=None,
            **cost,
        )


def _cost(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a stored result that describe its search."""
    names = ("method", "rollouts", "steps", "tokens_in", "tokens_out", "seconds", "failures")
    return {name: row[name] for name in names} | {"notices": tuple(row.get("notices", ()))}
