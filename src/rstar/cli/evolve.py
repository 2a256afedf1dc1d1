"""``rstar evolve``: models that improve by training on their own verified search trees."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from rstar.cli.common import (
    AnswerField,
    AsJson,
    ConfigFile,
    GradedProblems,
    Overrides,
    Policy,
    QuestionField,
    RunFolder,
    Seed,
    console,
    counted,
    interrupted,
    print_json,
    print_result,
    print_settings,
)
from rstar.config import EngineConfig, MctsConfig, SandboxConfig, resolve
from rstar.datasets import read_problems
from rstar.errors import ConfigError
from rstar.evolve.extract import Counts, ExtractConfig
from rstar.sections import read_recipe
from rstar.view.progress import progress
from rstar.view.tables import Column, Grid, figures_table

if TYPE_CHECKING:
    from rstar.evolve.rounds import Result
    from rstar.evolve.score import Choice, PairAccuracy

app = typer.Typer(no_args_is_help=True, help="Run self-evolution, in which search trees become training data.")

_DEFAULTS = ExtractConfig()


@app.command("search")
def search(
    problems: GradedProblems,
    out: RunFolder,
    policy: Policy = None,
    ppm: Annotated[
        Path | None,
        typer.Option(help="PPM folder. Its scores initialise the Q values of partial solutions.", file_okay=False),
    ] = None,
    config: ConfigFile = None,
    set_: Overrides = None,
    seed: Seed = None,
    question_field: QuestionField = None,
    answer_field: AnswerField = None,
) -> None:
    """Run the search on problems to make training data: trees whose final nodes are checked against the gold answers.

    The search is the same as in `rstar solve` with MCTS, except that the gold answer decides the value of a final node:
    +1 or -1. The share of solved problems is therefore not an accuracy of the model. To train a PPM that reads the
    policy's log-probabilities, like the bundled PPM, add `--set search.record_tokens=true`.

    Example: `rstar evolve search --problems train.jsonl --set search.rollouts=8 --out runs/trees`
    """
    from rstar.evolve.annotate import generate, is_solved

    value = None if ppm is None else f"ppm:{ppm}"
    settings = resolve(config, set_ or (), {"policy": policy, "value": value, "seed": seed})
    problem_set = read_problems(problems, False, question_field, answer_field)
    solved = done = 0
    with progress(len(problem_set), "search") as advance:

        def on_result(record: dict[str, Any]) -> None:
            nonlocal solved, done
            done += 1
            solved += is_solved(record)
            advance(1, f"{solved}/{done} solved")

        asyncio.run(generate(settings, problem_set, out, on_result))
    console().print(
        f"{solved} of {counted(done, 'problem')} with a verified solution, trees in [bold]{escape(str(out))}[/]",
        highlight=False,
    )


@app.command("score")
def score(
    ppms: Annotated[list[Path], typer.Argument(help="PPM folders.", file_okay=False, exists=True)],
    pairs: Annotated[
        Path | None, typer.Option(help="pairs.jsonl from problems not used in training.", dir_okay=False)
    ] = None,
    run_: Annotated[
        Path | None,
        typer.Option(
            "--run",
            help="Run folder to choose solutions from, written with method `sample` and `search.record_tokens`.",
        ),
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="pairs.jsonl for fitting a baseline, a regression on simple features.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure PPMs: accuracy on pairs, calibration, and choice among solutions.

    The interval of the accuracy is clustered by problem, because the pairs of a problem are not independent.

    Examples:
    `rstar evolve score runs/evolve/round4/ppm/model --pairs runs/held-out/pairs.jsonl`

    `rstar evolve score runs/evolve/round4/ppm/model --run runs/samples --fit runs/evolve/round4/data/pairs.jsonl`
    """
    from rstar.evolve.score import choices, pair_accuracy

    if pairs is None and run_ is None:
        raise ConfigError("give --pairs FILE, --run FOLDER, or both")
    accuracies = {str(ppm): pair_accuracy(ppm, pairs) for ppm in ppms} if pairs else {}
    chosen = choices(run_, ppms, fit) if run_ else []
    pairs_json = {name: [asdict(entry) for entry in pair_accuracies] for name, pair_accuracies in accuracies.items()}
    tables = [_pairs_table(name, pair_accuracies) for name, pair_accuracies in accuracies.items()]
    tables += [_choices_table(chosen)] if chosen else []
    print_result({"pairs": pairs_json, "choosers": [asdict(entry) for entry in chosen]}, as_json, *tables)


@app.command("extract")
def extract(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Search folders written by `rstar evolve search` or `rstar evolve run`.", file_okay=False),
    ],
    out: Annotated[Path, typer.Option(help="Folder for sft.jsonl, pairs.jsonl and counts.json.")],
    solutions: Annotated[
        int, typer.Option(help="Number of correct solutions kept per problem, those with the highest mean Q.", min=1)
    ] = _DEFAULTS.solutions,
    candidates: Annotated[
        int, typer.Option(help="Number of candidates on each side of a step's pairs.", min=1)
    ] = _DEFAULTS.candidates,
    margin: Annotated[
        float, typer.Option(help="Minimum difference in Q within a pair.", min=0, max=2)
    ] = _DEFAULTS.margin,
    distance: Annotated[
        int, typer.Option(help="Minimum edit distance within a pair, in characters.", min=0)
    ] = _DEFAULTS.distance,
    as_json: AsJson = False,
) -> None:
    """Turn trees into solutions for the policy (sft.jsonl) and preference pairs for the PPM (pairs.jsonl).

    Example: `rstar evolve extract runs/round1/search --out runs/round1/data`
    """
    from rstar.evolve.extract import extract as run

    config = ExtractConfig(solutions=solutions, candidates=candidates, margin=margin, distance=distance)
    counts = run(runs, out, config)
    print_result(counts.record(), as_json, _counts_table(counts), f"data in [bold]{escape(str(out))}[/]")


@app.command("run")
def run(
    recipe: Annotated[Path, typer.Argument(help="TOML file with the settings.", exists=True, dir_okay=False)],
    out: RunFolder,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Do a small run with the settings in the recipe's `[smoke]` table.")
    ] = False,
    set_: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy and a process preference model (PPM) on their own search trees, in rounds (rStar-Math).

    Each round runs the search on problems with gold answers, and takes solutions and preference pairs from the trees.
    It trains the policy, starting from the base, and the PPM, starting from the policy, and measures both on held-out
    problems. `OUT/report.html` shows the charts. To resume an interrupted run, repeat the command; the final table is
    the same as without the interruption. `rstar evolve settings` lists the settings.

    Example: `rstar evolve run recipes/tiny/evolve.toml --smoke --out runs/evolve-smoke`
    """
    from rstar.evolve.report import report, results_table
    from rstar.evolve.rounds import evolve  # imports torch and all of search: only for training
    from rstar.evolve.settings import EvolveConfig

    def announce(stage: str) -> None:
        if not as_json:
            console(stderr=True).print(f"[dim]{datetime.now():%H:%M:%S}[/] {escape(stage)}", highlight=False)

    page = out / "report.html"

    def draw(results: Sequence[Result]) -> None:
        page.write_text(report(results), encoding="utf-8")

    config = read_recipe(EvolveConfig, recipe, smoke, set_ or ())
    try:
        results = evolve(config, out, announce, progress, draw)
    except KeyboardInterrupt:
        raise interrupted(out) from None
    draw(results)
    if as_json:
        print_json({"rounds": [result.to_json() for result in results]})
        return
    console().print(results_table(results))
    console().print(f"charts in [bold]{escape(str(page))}[/]", highlight=False, soft_wrap=True)


@app.command("settings")
def settings(as_json: AsJson = False) -> None:
    """List the settings of a self-evolution recipe with their defaults.

    A recipe is a TOML file. Each `[[round]]` table is a round. Each `[[entry]]` table is an evaluation after every
    round. `--set` can change all settings outside these two lists.
    """
    from rstar.evolve.settings import EvolveConfig
    from rstar.train.ppm import PPMConfig
    from rstar.train.settings import TrainConfig

    print_settings(EvolveConfig, as_json, (MctsConfig, SandboxConfig, EngineConfig, TrainConfig, PPMConfig))


def _pairs_table(name: str, accuracies: Sequence[PairAccuracy]) -> Grid:
    table = Grid(
        [
            Column("pairs"),
            Column("n", number=True),
            Column("problems", number=True, rank=1),
            Column("accuracy [95%]", number=True),
            Column("confidence / accuracy, by rising confidence", number=True, flow="wrap"),
        ],
        title=escape(name),
    )
    for group in accuracies:
        bins = "  ".join(f"{100 * b.confidence:.0f}/{100 * b.accuracy:.0f}" for b in group.bins)
        accuracy = escape(f"{100 * group.right / group.n:.1f}% [{100 * group.low:.1f}, {100 * group.high:.1f}]")
        table.add(group.kind, f"{group.n:,}", f"{group.problems:,}", accuracy, bins)
    return table


def _choices_table(chosen: Sequence[Choice]) -> Grid:
    names = ("n", "accuracy", "p (against the majority)")
    table = figures_table("chooser", names)
    for choice in chosen:
        table.add(
            escape(choice.name),
            str(choice.n),
            f"{100 * choice.accuracy:.1f}%",
            "" if choice.p is None else f"{choice.p:.1g}",
        )
    return table


def _counts_table(counts: Counts) -> Grid:
    table = figures_table("what", ["count"])
    for title, group in (("", counts.found), ("dropped, ", counts.dropped), ("difficulty: ", counts.difficulty)):
        for name, count in sorted(group.items()):
            table.add(escape(title + name), f"{count:,}")
    return table
