"""``rstar compare``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from rstar.cli.common import MODEL, SEED, AnswerField, AsJson, GradedProblems, QuestionField, interrupted
from rstar.cli.comparison import ALL, Comparison
from rstar.cli.solve import Limit, solved_progress
from rstar.config import AgentConfig
from rstar.datasets import read_problems
from rstar.errors import ConfigError
from rstar.evals.compare import (
    Entry,
    compare_budgets,
    comparison_charts,
    cpu_seconds,
    groups_by,
    read_entries,
    run_entries,
)
from rstar.evals.compare_rollouts import compare_rollouts, rollouts_by_problem
from rstar.evals.compare_samples import solve_entry
from rstar.evals.run import FinishedRun
from rstar.jsonl import Record
from rstar.view.picture import can_draw, write_png


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
    the `--out` folder are resumed. `rstar view` shows the tables of that folder again. `recipes/tiny/compare.toml`
    takes about 15 seconds per problem on 2 cores.

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
    groups: dict[str, Callable[[Record], bool]] = {ALL: lambda meta: True}
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
    comparison = Comparison(first, rows, costs, rollouts)
    comparison.write(out)
    comparison.show(out, as_json)
    if png is not None:
        write_png(png, f"Accuracy by cost, n = {len(problem_set)}", comparison_charts(entries, rows, cpu))
