"""``rstar solve``."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.markup import escape

from rstar.agent.solver import open_solver
from rstar.cli.common import (
    AnswerField,
    AsJson,
    ConfigFile,
    Overrides,
    Policy,
    QuestionField,
    Seed,
    console,
    counted,
    print_json,
    run_folder,
)
from rstar.config import Config, Method, resolve
from rstar.datasets import ProblemSet, read_problems
from rstar.errors import NO_ANSWER, ConfigError
from rstar.evals.compare_rollouts import compare_rollouts, rollouts_by_problem
from rstar.evals.metrics import percent
from rstar.evals.run import FinishedRun, read_source, solve_run
from rstar.jsonl import Record, read_lines
from rstar.problems import Problem
from rstar.runs import RESULTS
from rstar.search.solver import Solution
from rstar.tiny.source import ProblemSource
from rstar.view.progress import progress
from rstar.view.terminal import NOTICES, reasons, results_table, search_tree

SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Skip bad entries of the problem file, and report how many there were.")
]
Limit = Annotated[int | None, typer.Option(help="Solve only the first N problems.", min=1, show_default=False)]
DRAWN = 100
"""Problems that `--family` draws, if `--limit` does not say how many."""
Out = Annotated[
    Path | None, typer.Option(help="Run folder. If it already holds a run, that run is resumed.", show_default="runs/…")
]


def solve(
    question: Annotated[str | None, typer.Argument(help="A question to answer.", show_default=False)] = None,
    problems: Annotated[
        Path | None,
        typer.Option(
            help="Problem file (JSONL, JSON list, CSV or Parquet) with questions, and gold answers if known.",
            show_default=False,
        ),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(
            help="Draw problems instead of reading a file: from this family or kind of family (see `rstar problems"
            f" families`), as many as `--limit` says, or {DRAWN}. May be repeated.",
            show_default=False,
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(help="With `--family`: difficulty levels, such as 3 or 1-2.", show_default="1-5"),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option(
            help="Search method: one solution (`greedy`), several independent solutions (`sample`, `best-of-n`;"
            " `search.samples` sets how many), a tree of steps (`beam`, `mcts`), a tree of actions whose solutions a"
            " peer model checks (`mutual`), or rollouts with tools (`agent`).",
            show_default="mcts",
        ),
    ] = None,
    policy: Policy = None,
    peer: Annotated[
        str | None,
        typer.Option(
            help="Method `mutual`: the model that checks solutions, named like `--policy`.",
            show_default="the policy itself",
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            help="How solutions are scored: `agreement`, `grounded`, `logprob`, `ppm:PATH`, or `ppm:tiny` (the bundled"
            " PPM).",
            show_default="ppm:tiny for a beam of the bundled policy; agreement otherwise",
        ),
    ] = None,
    sandbox: Annotated[
        str | None,
        typer.Option(
            help="Where code runs: `local`, or the address of a judge service, `http://HOST:PORT`.",
            show_default="local",
        ),
    ] = None,
    out: Out = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Number of solutions or rollouts per problem (methods `sample`, `best-of-n`, `agent`).",
            min=1,
            show_default=False,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Sampling temperature; for 0, use `--method greedy`.", min=0, show_default=False),
    ] = None,
    seed: Seed = None,
    limit: Limit = None,
    config: ConfigFile = None,
    set_: Overrides = None,
    skip_bad: SkipBad = False,
    question_field: QuestionField = None,
    answer_field: AnswerField = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question, or solve a file of problems, by searching over code steps, each run as soon as it is written.

    Given a question, the command prints the answer and the solution. With `--problems`, it stores each result in a run
    folder as soon as the problem is finished. To resume an interrupted run, repeat the command with the same `--out`;
    with a larger `--limit`, a run goes on with further problems. Gold answers in the file are used for grading only.

    A notice warns that the bundled model was not trained on the question's wording, that the bundled PPM gives the
    answer a low value, or that the question is too long for the model's context. `docs/solving.md` describes the format
    of problem files and explains how far answers can be trusted.

    Exit code: 0 on success, 1 if the model or the sandbox failed, 2 for bad input, 3 if no answer was found for the
    question on the command line (not used with `--problems`).

    Examples:
    `rstar solve "Find the value of k when 167 = 9k + 14."`

    `rstar solve --problems problems.jsonl --method mcts --set search.rollouts=32 --out runs/first`

    `rstar solve --problems problems.jsonl --policy openai:http://localhost:8000#my-model`

    `rstar solve --family search --levels 1-2 --method agent --samples 8 --limit 50`
    """
    options: dict[str, object] = {
        "search.method": method,
        "policy": policy,
        "value": value,
        "sandbox.place": sandbox,
        "seed": seed,
    }
    options |= {"search.peer": peer, "search.samples": samples, "search.temperature": temperature}
    settings = resolve(config, set_ or (), options)
    given = {"a question": question is not None, "--problems": problems is not None, "--family": bool(family)}
    if sum(given.values()) != 1:
        several = " and ".join(name for name, is_given in given.items() if is_given)
        only = f"{several} cannot be combined: " if several else ""
        raise ConfigError(f"{only}give a question, --problems FILE or --family NAME")
    if levels is not None and not family:
        raise ConfigError("--levels: only with --family")
    if question is not None:
        file_options: dict[str, object] = {"--out": out, "--limit": limit, "--skip-bad": skip_bad or None}
        file_options |= {"--question-field": question_field, "--answer-field": answer_field}
        if used := [name for name, value in file_options.items() if value is not None]:
            raise ConfigError(f"{', '.join(used)}: only with --problems; with a question, nothing is stored")
        _solve_question(settings, question, as_json)
        return
    folder = out or run_folder(settings.search.method)
    if problems is not None:
        read = read_problems(problems, skip_bad, question_field, answer_field).head(limit)
        _solve_set(settings, read, folder, as_json)
        return
    source = ProblemSource(
        n=limit or DRAWN, seed=settings.seed, levels=levels or "1-5", family=family or [], split="numbers"
    )
    with TemporaryDirectory() as scratch:
        drawn = Path(scratch) / "problems.jsonl"
        _solve_set(settings, read_source(source, drawn, progress), folder, as_json)
        shutil.copy(drawn, folder)


def _solve_set(settings: Config, problems: ProblemSet, folder: Path, as_json: bool) -> None:
    try:
        finished = solve_file(settings, problems, folder)
    except KeyboardInterrupt:
        done = len(list(read_lines(folder / RESULTS))) if (folder / RESULTS).is_file() else 0
        console(stderr=True).print(
            f"interrupted with {done} of {counted(len(problems), 'problem')} solved;"
            f" to resume, repeat the command with [bold]--out {escape(str(folder))}[/]",
            highlight=False,
        )
        raise typer.Exit(130) from None
    if as_json:
        print_json(finished.summary | {"out": str(folder), "skipped": len(problems.skipped)})
        return
    console().print(results_table(finished.results[:50]))
    print_summary(finished.results, folder, problems.skipped)


def solve_file(settings: Config, problems: ProblemSet, folder: Path) -> FinishedRun:
    """Solve a problem set into a run folder, with a progress bar."""
    with solved_progress(len(problems), settings.search.method) as on_result:
        return asyncio.run(solve_run(settings, problems, folder, on_result))


@contextmanager
def solved_progress(n: int, what: str) -> Iterator[Callable[[Record], None]]:
    """A progress bar that counts right answers; yields a function of each result."""
    right = graded = 0
    with progress(n, what) as advance:

        def on_result(record: Record) -> None:
            nonlocal right, graded
            graded += "correct" in record
            right += bool(record.get("correct"))
            advance(1, f"{right}/{graded} right" if graded else "")

        yield on_result


def print_summary(
    results: Sequence[Mapping[str, Any]], folder: Path, skipped: Sequence[str] = (), ends_verified: bool = False
) -> None:
    """Accuracy with its interval, cost, and where the run folder is.

    Where the ends of trees were verified there is no accuracy: the search knew what is right.
    """
    out = console()
    graded = [row for row in results if "correct" in row]
    if ends_verified:
        solved = sum(any(t["correct"] for t in row["trajectories"]) for row in results)
        out.print(
            f"{solved:,} of {counted(len(results), 'problem')} with a verified solution; the search knew the gold "
            "answers, so this is not an accuracy",
            highlight=False,
        )
    elif graded:
        right = sum(row["correct"] for row in graded)
        out.print(f"accuracy [bold]{percent(right, len(graded))}[/] (95% interval, n = {len(graded)})", highlight=False)
        for about in compare_rollouts({"": rollouts_by_problem(row for row in graded if "agent" in row)}):
            if (k := about.k) > 1:
                shares = f"mean@{k} {about.mean:.1%}, pass@{k} {about.pass_k:.1%}"
                ended = f"{about.given_up:.0%} gave up, {about.unfinished:.0%} unfinished"
                out.print(f"rollouts: {shares}; {about.turns:.1f} turns each, {ended}", highlight=False)
    if skipped:
        out.print(f"{counted(len(skipped), 'bad entry', 'bad entries')} skipped; the first: {escape(skipped[0])}")
    for notice, count in sorted(Counter(notice for row in results for notice in row.get("notices", ())).items()):
        out.print(f"[yellow]{count:,} of {counted(len(results), 'problem')}:[/] {NOTICES[notice]}", highlight=False)
    tokens = counted(sum(row["tokens_out"] for row in results), "token")
    out.print(f"{tokens} generated, run folder [bold]{escape(str(folder))}[/]", highlight=False)


def _solve_question(settings: Config, question: str, as_json: bool) -> None:
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the question is not UTF-8 text (character {error.start + 1})") from error
    if not question.strip():
        raise ConfigError("the question is empty")
    (solution,) = open_solver(settings).solve([Problem("", question)])
    if as_json:
        print_json(_to_json(solution))
    else:
        _print_solution(solution, settings)
    if solution.answer is None:
        raise typer.Exit(NO_ANSWER)


def _print_solution(solution: Solution, settings: Config) -> None:
    out = console()
    supporters = [t for t in solution.trajectories if t.answer == solution.answer]
    best = max(supporters, key=lambda t: t.value or 0.0, default=None)
    if solution.tree is not None and settings.search.method in ("mcts", "mutual"):
        out.print(search_tree(solution.tree, solution.problem.question, answer=solution.answer))
    if best is None:
        out.print(f"[bold]no answer[/]: {_why_none(solution)}", highlight=False)
    else:
        out.print(escape(best.text), highlight=False)
        out.print(f"\n[bold]answer: {escape(best.answer or '')}[/]", highlight=False)
    for notice in solution.notices:
        out.print(f"[yellow]notice:[/] {NOTICES[notice]}", highlight=False)
    cost = f"{counted(solution.rollouts, 'rollout')}, {counted(solution.tokens_out, 'token')}, {solution.seconds:.1f} s"
    out.print(f"[dim]{cost}[/]", highlight=False)


def _why_none(solution: Solution) -> str:
    if "question_too_long" in solution.notices:
        return "the question is too long for the model's context (engine.max_context)"
    ended = "every rollout ended without one" if solution.method == "agent" else "no branch of the search reached one"
    return f"{ended}{reasons(solution.failures)}"


def _to_json(solution: Solution) -> dict[str, Any]:
    names = ("answer", "value", "method", "rollouts", "steps", "tokens_in", "tokens_out")
    return {
        "question": solution.problem.question,
        **{name: getattr(solution, name) for name in names},
        "seconds": round(solution.seconds, 3),
        "failures": solution.failures,
        "notices": list(solution.notices),
        "trajectories": [trajectory.record() for trajectory in solution.trajectories],
    }
