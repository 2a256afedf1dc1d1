"""``rstar compare``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.cli.common import MODEL, SEED, AnswerField, AsJson, GradedProblems, QuestionField, interrupted, print_result
from rstar.cli.solve import Limit, solved_progress
from rstar.config import AgentConfig
from rstar.datasets import read_problems
from rstar.errors import ConfigError
from rstar.evals.compare import (
    Entry,
    Row,
    compare_budgets,
    comparison_charts,
    comparison_table,
    cpu_seconds,
    groups_by,
    read_entries,
    run_entries,
)
from rstar.evals.compare_rollouts import RolloutRow, compare_rollouts, rollouts_by_problem, rollouts_table
from rstar.evals.compare_samples import solve_entry
from rstar.evals.run import FinishedRun
from rstar.jsonl import Record
from rstar.view.picture import can_draw, write_png
from rstar.view.tables import Grid

_Rows = Mapping[tuple[str, int | None], Sequence[Row]]
"""By group of problems and limit of tokens."""
_Costs = Mapping[tuple[str, int | None], Mapping[str, float]]
"""CPU seconds per problem, by group, limit and name."""


def compare(
    recipe: Annotated[Path, typer.Argument(help="TOML file with one `[[entry]]` per method.", exists=True)],
    problems: GradedProblems,
    out: Annotated[Path, typer.Option(help="Parent folder of the run folders, one per entry.")],
    policy: Annotated[str | None, typer.Option(help=MODEL, show_default="that of the recipe")] = None,
    seed: Annotated[int | None, typer.Option(help=SEED, show_default="that of the recipe")] = None,
    limit: Limit = None,
    question_field: QuestionField = None,
    answer_field: AnswerField = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Also compare within groups of problems. `LABEL` makes one group for each value of that label."
            " `LABEL=VALUE` makes two groups: problems with this value, and all others. May be repeated.",
            show_default=False,
        ),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(help="Draw accuracy by tokens and by CPU seconds in this file; needs `rstar[pictures]`."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run several methods on the same problems and print one table: accuracy with 95% intervals, and tokens.

    The table also compares each method with the first one in the table: the difference in percentage points with its
    95% interval, and the p value of McNemar's exact test. An entry with `samples_of = "NAME"` samples nothing: it uses
    its `value` and `search.choose` to choose among the solutions of the earlier entry NAME.

    For agents, a second table is about their single rollouts: mean@k, pass@k, turns, tokens and how they ended.

    The recipe lists the methods and their settings (docs/solving.md describes it). `budgets = [300, 1000]` at its top
    runs each method once for each limit of tokens per problem, and prints one table for each. Runs that are already in
    the `--out` folder are resumed. `recipes/tiny/compare.toml` takes about 15 seconds per problem on 2 cores.

    Examples:
    `rstar compare recipes/tiny/compare.toml --problems problems.jsonl --limit 20 --out runs/compared`

    `rstar compare recipes/tiny/compare.toml --problems problems.jsonl --by kind=search --out runs/compared`
    """
    if png is not None and not can_draw():
        raise ConfigError("--png needs matplotlib; install rstar[pictures]")
    if png is not None and not png.absolute().parent.is_dir():
        raise ConfigError(f"--png {png}: there is no folder {png.parent}")
    entries = read_entries(recipe, {"policy": policy, "seed": seed})
    problem_set = read_problems(problems, False, question_field, answer_field).head(limit)
    problem_set.require_gold("a comparison", problems)
    groups: dict[str, Callable[[Record], bool]] = {"all problems": lambda meta: True}
    for label in by or ():
        groups |= groups_by(label, [problem.meta for problem in problem_set.problems])
    runs: dict[str, FinishedRun] = {}

    def run(entry: Entry) -> FinishedRun:
        with solved_progress(len(problem_set), entry.name) as on_result:
            runs[entry.name] = asyncio.run(solve_entry(entry, problem_set, out, on_result))
            return runs[entry.name]

    try:
        outcomes = run_entries(entries, run)
    except KeyboardInterrupt:
        raise interrupted(out) from None
    cpu = cpu_seconds(entries, runs)
    rows = compare_budgets(entries, outcomes, groups)
    # CPU seconds are known for all problems together only.
    costs = {key: cpu if group[0].n == len(problem_set) else {} for key, group in rows.items()}
    agents = {
        entry.name: rollouts_by_problem(runs[entry.name].results)
        for entry in entries
        if isinstance(entry.config.search, AgentConfig)
    }
    rollouts = {name: compare_rollouts(agents, among) for name, among in groups.items()}
    budgets = any(budget is not None for _, budget in rows)
    first = next(entry.method for entry in entries if budgets <= (entry.budget is not None))
    legend = _legend(len(problem_set), first, out) + (_ROLLOUTS if agents else "")
    tables = _tables(rows, costs, rollouts, bool(by))
    print_result(_lines(rows, costs, rollouts), as_json, *tables, legend)
    if png is not None:
        write_png(png, f"Accuracy by cost, n = {len(problem_set)}", comparison_charts(entries, rows, cpu))


def _legend(n: int, first: str, out: Path) -> str:
    """What the columns of the tables mean; `first` is the entry that the others are compared with."""
    first = escape(first)
    return (
        f"n = {n}; any correct: at least one of the solutions is correct; difference: percentage points, relative to"
        f" {first}; p: exact paired test against {first}; [bold]{escape(str(out))}[/] contains one run folder per"
        " method"
    )


_ROLLOUTS = (
    "\nmean@k: share of the k rollouts per problem that are right, with an interval clustered by problem; pass@k: share"
    " of the problems with a right rollout; turns, tokens: per rollout; repaired: share of the right rollouts that had"
    " a failed call; right if a call failed, if none: share of right rollouts among those with and without a failed"
    " call; checked: share of the answers that follow a call that succeeded; unfinished: no answer, for example at a"
    " limit; difference: in mean@k"
)


def _tables(rows: _Rows, costs: _Costs, rollouts: Mapping[str, Sequence[RolloutRow]], titled: bool) -> list[Grid]:
    """The tables of methods, and then those of rollouts; `titled`: name the group even if it has all problems."""
    return [
        comparison_table(group, _title(*key, group[0].n) if titled or key[1] else "", costs[key])
        for key, group in rows.items()
    ] + [
        rollouts_table(group, _title(f"rollouts, {name}", None, group[0].problems))
        for name, group in rollouts.items()
        if group
    ]


def _lines(rows: _Rows, costs: _Costs, rollouts: Mapping[str, Sequence[RolloutRow]]) -> list[Record]:
    """The JSON form: a line per group of problems, budget and method."""
    agents = {(name, row.name): row.to_json() for name, group in rollouts.items() for row in group}
    return [
        {
            "group": name,
            **({"budget": budget} if any(budget is not None for _, budget in rows) else {}),
            **row.to_json(),
            "cpu": costs[name, budget].get(row.name),
            **({"rollouts": agents.get((name, row.name))} if agents else {}),
        }
        for (name, budget), group in rows.items()
        for row in group
    ]


def _title(group: str, budget: int | None, n: int) -> str:
    return escape(f"{group} (n = {n})" + (f", at most {budget:,} tokens" if budget is not None else ""))
