"""Comparison of agents by their rollouts: mean@k, pass@k and how the rollouts went.

The main table (`rstar.evals.compare`) is about the answer that most rollouts of a problem give. A trained agent is
judged by its single rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
        with_error: with a failed call.
        repaired: right ones with a failed call before the answer.
        answered: with an answer.
        checked: that answered after a call that succeeded.
        given_up: that gave up.
        unfinished: without an answer for another reason, such as a limit.
        turns, tokens: of all rollouts.
        meta: the problem's labels.
    """

    n: int
    right: int
    with_error: int
    repaired: int
    answered: int
    checked: int
    given_up: int
    unfinished: int
    turns: int
    tokens: int
    meta: Record

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Rollouts:
        """From a graded line of ``results.jsonl``."""
        ended = [(one["votes"], one["correct"], one["error"] is not None) for one in result["trajectories"]]
        failures: Mapping[str, int] = result["failures"]
        given_up, went = failures.get("gave_up", 0), result["agent"]
        return cls(
            n=result["rollouts"],
            right=sum(votes for votes, correct, _ in ended if correct),
            with_error=went["with_error"],
            repaired=sum(votes for votes, correct, failed in ended if correct and failed),
            answered=sum(votes for votes, _, _ in ended),
            checked=went["checked"],
            given_up=given_up,
            unfinished=sum(failures.values()) - given_up,
            turns=went["turns"],
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
        repaired: share of the right rollouts that had a failed call.
        right_after_error, right_without_error: share of right rollouts among those with a failed call, and without.
        checked: share of the answers that were given after a call that succeeded.
        given_up, unfinished: shares of the rollouts.
        turns, tokens: per rollout.
        difference: in mean@k, from the first agent on the same problems, with the bounds of its 95% interval; None for
            the first.

    A share of nothing is 0.
    """

    name: str
    k: int
    problems: int
    mean: float
    low: float
    high: float
    pass_k: float
    repaired: float
    right_after_error: float
    right_without_error: float
    checked: float
    given_up: float
    unfinished: float
    turns: float
    tokens: float
    difference: tuple[float, float, float] | None

    def to_json(self) -> Record:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> RolloutRow:
        """Inverse of `to_json`. Raises `KeyError` or `TypeError` for malformed data."""
        difference = row["difference"]
        return cls(**{**row, "difference": None if difference is None else tuple(difference)})


def rollouts_by_problem(results: Iterable[Mapping[str, Any]]) -> dict[str, Rollouts]:
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
    def total(of: str) -> int:
        return sum(getattr(one, of) for one in found)

    n, right, with_error, repaired = total("n"), total("right"), total("with_error"), total("repaired")
    low, high = clustered_wilson([(one.right, one.n) for one in found])
    return RolloutRow(
        name=name,
        k=max(one.n for one in found),
        problems=len(found),
        mean=right / n,
        low=low,
        high=high,
        pass_k=sum(one.right > 0 for one in found) / len(found),
        repaired=repaired / max(right, 1),
        right_after_error=repaired / max(with_error, 1),
        right_without_error=(right - repaired) / max(n - with_error, 1),
        checked=total("checked") / max(total("answered"), 1),
        given_up=total("given_up") / n,
        unfinished=total("unfinished") / n,
        turns=total("turns") / n,
        tokens=total("tokens") / n,
        difference=difference,
    )


def rollouts_table(rows: Sequence[RolloutRow], title: str = "") -> Grid:
    """The rows as a table."""
    numbers = {row.k for row in rows}
    k = numbers.pop() if len(numbers) == 1 else "k"
    ranks = {f"mean@{k} [95%]": 0, f"pass@{k}": 1, "turns": 2, "tokens": 3, "repaired": 4, "right if a call failed": 5}
    ranks |= {"if none": 5, "checked": 6, "gave up": 4, "unfinished": 4, "difference [95%]": 0}
    table = figures_table("agent", ranks, title)
    for row in rows:
        shares = row.repaired, row.right_after_error, row.right_without_error, row.checked
        table.add(
            escape(row.name),
            escape(f"{100 * row.mean:.1f}% [{100 * row.low:.1f}, {100 * row.high:.1f}]"),
            f"{100 * row.pass_k:.1f}%",
            f"{row.turns:.1f}",
            f"{row.tokens:,.0f}",
            *(f"{100 * share:.1f}%" for share in (*shares, row.given_up, row.unfinished)),
            "" if row.difference is None else escape("{:+.1f} [{:+.1f}, {:+.1f}]".format(*_points(row.difference))),
        )
    return table


def _points(difference: tuple[float, float, float]) -> tuple[float, ...]:
    """In percentage points."""
    return tuple(100 * share for share in difference)
