"""What `rstar compare` found: stored in its folder, printed, and printed again by `rstar view`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from rstar.cli.common import print_result
from rstar.errors import DataError
from rstar.evals.compare import Row, comparison_table
from rstar.evals.compare_rollouts import RolloutRow, rollouts_table
from rstar.jsonl import Record, write_json
from rstar.view.tables import Grid

COMPARISON = "comparison.json"
"""Name of the file in the parent folder of the compared runs."""

ALL = "all problems"
"""Name of the group of all problems."""

_ROLLOUTS = (
    "\nmean@k: share of the k rollouts per problem that are right, with an interval clustered by problem; pass@k: share"
    " of the problems with a right rollout; turns, tokens: per rollout; repaired: share of the right rollouts that had"
    " a failed call; right if a call failed, if none: share of right rollouts among those with and without a failed"
    " call; checked: share of the answers that follow a call that succeeded; unfinished: no answer, for example at a"
    " limit; difference: in mean@k"
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of a comparison.

    Attributes:
        first: the method that the others are compared with.
        rows: by group of problems and limit of tokens.
        cpu: CPU seconds per problem by name of entry, as far as known, by group and limit.
        rollouts: of the agents among the entries, by group.
    """

    first: str
    rows: Mapping[tuple[str, int | None], Sequence[Row]]
    cpu: Mapping[tuple[str, int | None], Mapping[str, float]]
    rollouts: Mapping[str, Sequence[RolloutRow]]

    def write(self, folder: Path) -> None:
        """Store it in `folder`, the parent of the run folders."""
        write_json(folder / COMPARISON, {"first": self.first, "lines": self.lines()})

    @classmethod
    def read(cls, folder: Path) -> Comparison:
        """Inverse of `write`. Raises `DataError` if the file is damaged."""
        file = folder / COMPARISON
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            found = cls._of(content["first"], content["lines"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataError(f"{file}: damaged: {error!r}") from error
        if not found.rows:
            raise DataError(f"{file}: damaged: no lines")
        return found

    @classmethod
    def _of(cls, first: str, lines: Sequence[Record]) -> Comparison:
        rows: dict[tuple[str, int | None], list[Row]] = {}
        cpu: dict[tuple[str, int | None], dict[str, float]] = {}
        rollouts: dict[str, list[RolloutRow]] = {}
        for line in lines:
            plain = dict(line)
            key = plain.pop("group"), plain.pop("budget", None)
            seconds, agent = plain.pop("cpu"), plain.pop("rollouts", None)
            row = Row.from_json(plain)
            rows.setdefault(key, []).append(row)
            cpu.setdefault(key, {}).update({} if seconds is None else {row.name: seconds})
            of_group = rollouts.setdefault(key[0], [])
            if agent is not None and all(known.name != agent["name"] for known in of_group):
                of_group.append(RolloutRow.from_json(agent))
        return cls(first, rows, cpu, rollouts)

    def lines(self) -> list[Record]:
        """The JSON form: a line per group of problems, limit and entry."""
        agents = {(name, row.name): row.to_json() for name, group in self.rollouts.items() for row in group}
        limited = any(budget is not None for _, budget in self.rows)
        return [
            {
                "group": name,
                **({"budget": budget} if limited else {}),
                **row.to_json(),
                "cpu": self.cpu[name, budget].get(row.name),
                **({"rollouts": agents.get((name, row.name))} if agents else {}),
            }
            for (name, budget), group in self.rows.items()
            for row in group
        ]

    def show(self, folder: Path, as_json: bool) -> None:
        """Print it: the tables of methods, then those of rollouts, and what the columns mean."""
        print_result(self.lines(), as_json, *self._tables(), self._legend(folder))

    def _tables(self) -> list[Grid]:
        named = {name for name, _ in self.rows} != {ALL}
        methods = [
            comparison_table(group, _title(*key, group[0].n) if named or key[1] else "", self.cpu[key])
            for key, group in self.rows.items()
        ]
        return methods + [
            rollouts_table(group, _title(f"rollouts, {name}", None, group[0].problems))
            for name, group in self.rollouts.items()
            if group
        ]

    def _legend(self, folder: Path) -> str:
        first = escape(self.first)
        n = max(row.n for rows in self.rows.values() for row in rows)
        legend = (
            f"n = {n}; any correct: at least one of the solutions is correct; difference: percentage points, relative"
            f" to {first}; p: exact paired test against {first}; [bold]{escape(str(folder))}[/] contains one run folder"
            " per method"
        )
        return legend + (_ROLLOUTS if any(self.rollouts.values()) else "")


def _title(group: str, budget: int | None, n: int) -> str:
    return escape(f"{group} (n = {n})" + (f", at most {budget:,} tokens" if budget is not None else ""))
