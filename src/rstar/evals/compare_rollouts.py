"""Comparison of agents by their rollouts: mean@k, pass@k and how the rollouts went.

The main table (`rstar.evals.compare`) is about the answer that most rollouts of a problem give. A trained agent is
judged by its single rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.markup import escape

from rstar.evals.metrics import clustered_wilson, mean_difference
from rstar.jsonl import Record
from rstar.view.tables import Grid, figures_table


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The rollouts of an agent for one graded problem.

    Attributes:
        n: rollouts.
        right: of these, with a right answer.
        repaired: of the right ones, with a failed call before.
        given_up: that gave up.
        unfinished: without an answer for another reason, such as a limit.
        turns, tokens: of all rollouts.
        meta: the problem's labels.
    """

    n: int
    right: int
    repaired: int
    given_up: int
    unfinished: int
    turns: int
    tokens: int
    meta: Record

    @classmethod
    def of(cls, result: Record) -> Rollouts:
        """From a graded line of ``results.jsonl``."""
        ended = [(one["votes"], one["correct"], one["error"] is not None) for one in result["trajectories"]]
        failures: Mapping[str, int] = result["failures"]
        given_up = failures.get("gave_up", 0)
        return cls(
            n=result["rollouts"],
            right=sum(votes for votes, correct, _ in ended if correct),
            repaired=sum(votes for votes, correct, failed in ended if correct and failed),
            given_up=given_up,
            unfinished=sum(failures.values()) - given_up,
            turns=result.get("turns", 0),
            tokens=result["tokens_out"],
            meta=result["meta"],
        )


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """The rollouts of an agent over all problems.

    Attributes:
        name: of the entry.
        k: rollouts per problem.
        problems: graded ones.
        mean: mean@k, the share of right rollouts; `low` and `high` are its 95% interval, clustered by problem.
        pass_k: pass@k, the share of problems with a right rollout.
        repaired: share of right rollouts with a failed call before; 0 if none is right.
        given_up, unfinished: shares of the rollouts.
        turns, tokens: per rollout.
        difference: in mean@k, from the first agent on the same problems, with the bounds of its 95% interval; None for
            the first.
    """

    name: str
    k: int
    problems: int
    mean: float
    low: float
    high: float
    pass_k: float
    repaired: float
    given_up: float
    unfinished: float
    turns: float
    tokens: float
    difference: tuple[float, float, float] | None

    def to_json(self) -> Record:
        """JSON form."""
        return asdict(self)


def rollouts_by_problem(results: Iterable[Record]) -> dict[str, Rollouts]:
    """Problem id → rollouts, of the graded lines of a ``results.jsonl``."""
    return {row["id"]: Rollouts.of(row) for row in results if "correct" in row}


def compare_rollouts(
    agents: Mapping[str, Mapping[str, Rollouts]], among: Callable[[Record], bool] = lambda meta: True
) -> list[RolloutRow]:
    """One row per agent, over the problems whose labels `among` accepts; none if there is no such problem."""
    rows: list[RolloutRow] = []
    first: dict[str, Rollouts] = {}
    for name, by_problem in agents.items():
        chosen = {key: one for key, one in by_problem.items() if among(one.meta)}
        if not chosen:
            continue
        shares = [(first[key].right / first[key].n, one.right / one.n) for key, one in chosen.items() if key in first]
        rows.append(_row(name, list(chosen.values()), mean_difference(shares) if first else None))
        first = first or chosen
    return rows


def _row(name: str, found: Sequence[Rollouts], difference: tuple[float, float, float] | None) -> RolloutRow:
    n, right = sum(one.n for one in found), sum(one.right for one in found)
    low, high = clustered_wilson([(one.right, one.n) for one in found])
    return RolloutRow(
        name=name,
        k=max(one.n for one in found),
        problems=len(found),
        mean=right / n,
        low=low,
        high=high,
        pass_k=sum(one.right > 0 for one in found) / len(found),
        repaired=sum(one.repaired for one in found) / max(right, 1),
        given_up=sum(one.given_up for one in found) / n,
        unfinished=sum(one.unfinished for one in found) / n,
        turns=sum(one.turns for one in found) / n,
        tokens=sum(one.tokens for one in found) / n,
        difference=difference,
    )


def rollouts_table(rows: Sequence[RolloutRow], title: str = "") -> Grid:
    """The rows as a table."""
    k = rows[0].k
    ranks = {f"mean@{k} [95%]": 0, f"pass@{k}": 1, "turns": 4, "tokens": 3}
    ranks |= {"right after an error": 5, "gave up": 5, "unfinished": 5, "difference [95%]": 0}
    table = figures_table("agent", ranks, title)
    for row in rows:
        table.add(
            escape(row.name),
            escape(f"{100 * row.mean:.1f}% [{100 * row.low:.1f}, {100 * row.high:.1f}]"),
            f"{100 * row.pass_k:.1f}%",
            f"{row.turns:.1f}",
            f"{row.tokens:,.0f}",
            *(f"{100 * share:.1f}%" for share in (row.repaired, row.given_up, row.unfinished)),
            "" if row.difference is None else escape("{:+.1f} [{:+.1f}, {:+.1f}]".format(*_points(row.difference))),
        )
    return table


def _points(difference: tuple[float, float, float]) -> tuple[float, ...]:
    """In percentage points."""
    return tuple(100 * share for share in difference)
