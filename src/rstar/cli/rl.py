"""``rstar rl``: agents that learn from verified answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rstar.agent.environment import open_environment
from rstar.cli.common import (
    AsJson,
    GradedProblems,
    Overrides,
    RunFolder,
    console,
    interrupted,
    print_result,
    print_settings,
)
from rstar.config import AgentConfig, EngineConfig, SandboxConfig
from rstar.datasets import read_problems
from rstar.errors import ConfigError
from rstar.runs import make_folder
from rstar.sandbox import LocalSandbox
from rstar.sandbox.api import Limits
from rstar.sections import read_recipe
from rstar.train.settings import TrainConfig
from rstar.view.progress import progress

app = typer.Typer(no_args_is_help=True, help="Train agents by reinforcement learning on verified answers.")


@app.command("run")
def run(
    recipe: Annotated[Path, typer.Argument(help="TOML file with the training settings.", exists=True, dir_okay=False)],
    out: RunFolder,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Run a small version of the recipe that tests each of its stages.")
    ] = False,
    set_: Overrides = None,
) -> None:
    """Train an agent by reinforcement learning (by default with GRPO-RoC), or resume a training run.

    In each step, the policy generates a group of rollouts for each of several problems. Groups whose rollouts all earn
    the same reward are dropped, and other problems are tried. GRPO-RoC then prefers correct rollouts with few failed
    tool calls. The update makes rollouts more likely that have a higher reward than the others of their group.

    To resume an interrupted run, repeat the command with the same `--out`. The folder holds every rollout, the metrics
    of every step and the evaluations. At the end, it also holds the model with the best evaluation result.
    `OUT/report.html` shows the curves; it is drawn anew with each evaluation.

    Example: `rstar rl run recipes/tiny/agent.toml --out runs/agent`
    """
    from rstar.rl.evaluation import REPORT
    from rstar.rl.loop import train
    from rstar.rl.report import evaluations_table, read_evaluations
    from rstar.rl.settings import RLConfig

    out_console = console()

    def announce(text: str) -> None:
        out_console.print(escape(text), highlight=False)

    def on_step(step: int, metrics: Mapping[str, float]) -> None:
        if step % 10 == 0:
            shown = ("reward", "error_share", "response_tokens", "entropy", "seconds")
            parts = ", ".join(f"{name.replace('_', ' ')} {metrics[name]:.3g}" for name in shown if name in metrics)
            out_console.print(f"[dim]step {step}: {parts}[/]", highlight=False)

    try:
        model = train(read_recipe(RLConfig, recipe, smoke, set_ or ()), out, announce, progress, on_step)
    except KeyboardInterrupt:
        raise interrupted(out) from None
    evaluations = read_evaluations(out)
    out_console.print(evaluations_table(evaluations))
    start, best = evaluations[0], max(evaluations, key=lambda line: line["mean"])
    if best is start:
        out_console.print(
            "[yellow]No evaluation is better than that of the start: the model is the unchanged start.[/]"
        )
    page = escape(str(out / REPORT))
    out_console.print(f"model in [bold]{escape(str(model))}[/], curves in [bold]{page}[/]", highlight=False)


@app.command("start")
def start(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders written by `rstar solve --method sample`.", exists=True, file_okay=False),
    ],
    problems: GradedProblems,
    out: Annotated[Path, typer.Option(help="JSONL file to write.", dir_okay=False)],
    per_problem: Annotated[int, typer.Option(help="Maximum number of traces per problem.", min=1)] = 3,
    failures: Annotated[int, typer.Option(help="Maximum number of failed attempts in a trace.", min=0)] = 8,
    give_up: Annotated[
        float, typer.Option(help="Of the traces with a failed attempt, the share that give up after it.", min=0, max=1)
    ] = 0.5,
    cell_steps: Annotated[int, typer.Option(help="Maximum number of steps in a cell.", min=1)] = 2,
    whole: Annotated[
        float, typer.Option(help="Share of the traces without a maximum of steps in a cell.", min=0, max=1)
    ] = 0.5,
    temperature: Annotated[
        float,
        typer.Option(
            help="Temperature of the order of attempts, relative to that of the samples. Below 1, frequent samples are "
            "tried earlier.",
            min=0.05,
        ),
    ] = 1.0,
    environment: Annotated[
        str, typer.Option(help="Runs the cells: `puzzles`, `mathematics`, or your own `module:Class`.")
    ] = "puzzles",
    seed: Annotated[int, typer.Option(help="Seed for all random choices.")] = 0,
) -> None:
    """From programs that a policy sampled, make traces for supervised training in the format of an agent's turns.

    A trace runs the steps of a correct program as cells. Before some of them, programs that failed appear as attempts,
    each with its error; in `puzzles`, their cells are then taken back. The answer ends the trace; some traces give up
    instead. `rstar train sft` trains on the file and teaches the policy this format. The trained model is a starting
    point for `rstar rl run`.

    Example: `rstar rl start runs/sampled --problems train.jsonl --out traces.jsonl`
    """
    from rstar.rl.start import StartConfig, TraceWriter, counts_text

    if out.exists():
        raise ConfigError(f"{out} exists: delete it first, or name another file")
    config = StartConfig(per_problem, failures, give_up, cell_steps, whole, temperature, seed)
    world, problem_set = open_environment(environment), read_problems(problems)
    make_folder(out.parent)

    async def write() -> dict[str, int]:
        async with LocalSandbox() as sandbox:
            return await TraceWriter(world, sandbox, Limits(), config).write(runs, problem_set, out, progress)

    counts = asyncio.run(write())
    console().print(f"{counts_text(counts)}, written to [bold]{escape(str(out))}[/]", highlight=False)


@app.command("compare")
def compare(
    settings: Annotated[
        list[str], typer.Argument(help="NAME=FOLDER,FOLDER…: a setting and its run folders, one per training seed.")
    ],
    last: Annotated[
        int, typer.Option(help="Number of last steps over which figures of training are averaged.", min=1)
    ] = 10,
    png: Annotated[
        Path | None, typer.Option(help="Draw the curves in this file; needs `rstar[pictures]`.", dir_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare training runs: held-out accuracy, failed calls, lengths and turns.

    A setting is a recipe with one or more training seeds. Figures are means over its runs with 95% intervals
    (Student's t), and each setting is compared with the first one (Welch's t). All runs are read up to the last step
    that every run has reached.

    Example: `rstar rl compare roc=runs/roc-1,runs/roc-2,runs/roc-3 grpo=runs/grpo-1,runs/grpo-2,runs/grpo-3`
    """
    from rstar.rl.compare import compare_settings, read_settings, setting_charts, settings_table
    from rstar.view.picture import can_draw, write_png

    if png is not None and not can_draw():
        raise ConfigError("--png needs matplotlib; install rstar[pictures]")
    found = read_settings(settings)
    steps = next(iter(found.values()))[0].steps[-1]["step"]
    rows = compare_settings(found, last)
    if png is not None:
        write_png(png, f"Training, {steps} steps", setting_charts(found))
    drawn = () if png is None else (f"curves in [bold]{escape(str(png))}[/]",)
    found_rows = {"steps": steps, "settings": [row._asdict() for row in rows]}
    print_result(found_rows, as_json, settings_table(rows, steps, last), *drawn)


@app.command("settings")
def settings(as_json: AsJson = False) -> None:
    """List the settings of a recipe, with their defaults."""
    from rstar.rl.settings import RLConfig

    print_settings(RLConfig, as_json, (AgentConfig, SandboxConfig, EngineConfig, TrainConfig))
