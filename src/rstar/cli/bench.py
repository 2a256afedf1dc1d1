"""``rstar bench``: benchmarks of this machine. On a shared machine, trust only the ratios within one run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rstar.cli.common import AsJson, print_result
from rstar.problems import Problem
from rstar.prompts import code_steps as prompt
from rstar.runs import make_folder
from rstar.specs import Bundled
from rstar.tiny.generate import draw, draw_set
from rstar.view.chart import curves, page, timeline
from rstar.view.chart import table as html_table
from rstar.view.progress import progress
from rstar.view.tables import Column, Grid, figures_table

if TYPE_CHECKING:
    from rstar.judge.bench import LoadResult

PROGRAM_TOKENS = 512
"""Most tokens of a solution in the engine's benchmark."""

app = typer.Typer(
    no_args_is_help=True, help="Measure the speed of the search, the sandbox, the engine and other parts."
)


@app.command("search")
def search(
    expansions: Annotated[int, typer.Option(help="Number of node expansions to time.", min=100)] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Measure the cost of the search alone, with models and a sandbox that take no time.

    Two figures: MCTS node expansions per CPU-second, and the CPU time of mutual reasoning on 50 problems.
    """
    from rstar.search.bench import bench_mutual, bench_search

    figures, mutual = bench_search(expansions), bench_mutual()
    speed = f"MCTS: {figures.expansions_per_cpu_second:,.0f} node expansions per CPU-second"
    work = f"{figures.expansions:,} expansions of {figures.samples} samples, {figures.cpu_seconds:.2f} s"
    both = (
        f"mutual reasoning: {mutual.problems} problems, {mutual.rollouts} rollouts each, {mutual.requests:,} requests"
    )
    print_result(
        asdict(figures) | {"mutual": asdict(mutual)},
        as_json,
        f"{speed} ({work})",
        f"{both}: {mutual.cpu_seconds:.2f} s of CPU time",
    )


@app.command("sandbox")
def sandbox(as_json: AsJson = False) -> None:
    """Measure calls per second and CPU time per call, by program and isolation level; compare a step with a replay.

    The step at depth 8 runs from its parent's state; the replay runs all steps up to depth 8 again.
    """
    from rstar.sandbox.bench import DEPTH, measure

    report = asyncio.run(measure())
    numbers = [Column(name, number=True) for name in ("calls/s", "CPU ms/call")]
    table = Grid([Column("isolation"), Column("program", flow="wrap"), *numbers])
    for call in report.calls:
        table.add(call.level, call.program, f"{call.per_second:,.0f}", f"{call.cpu_ms:.2f}")
    steps = (
        f"{step.level}: step {DEPTH} takes {step.cpu_ms:.1f} ms of CPU time from its parent's state, and "
        f"{step.replay_cpu_ms:.1f} ms when the prefix is replayed in a warm interpreter (ratio {step.ratio:.1f})"
        for step in report.steps
    )
    print_result(asdict(report), as_json, table, *steps)


@app.command("extract")
def extract(
    trees: Annotated[int, typer.Option(help="Number of trees to make and extract from.", min=1)] = 10_000,
    as_json: AsJson = False,
) -> None:
    """Measure the time and the memory needed to extract training data from search trees."""
    from rstar.evolve.bench import bench_extract

    figures = bench_extract(trees)
    size = f"{figures.trees:,} trees ({figures.megabytes:,.0f} MB)"
    cost = f"{figures.seconds:.1f} s, at most {figures.peak_megabytes:,.0f} MB of memory"
    print_result(asdict(figures), as_json, f"{size} in {cost}")


@app.command("engine")
def engine(
    model: Annotated[
        Path | None, typer.Option(help="Folder of a model.", show_default="the bundled model", exists=True)
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Number of problems to solve with greedy decoding.", min=1)] = 256,
    threads: Annotated[int, typer.Option(help="Number of threads for each engine.", min=1)] = 1,
    dtype: Annotated[str, typer.Option(help="Data type: float32, bfloat16 or float16.")] = "float32",
    as_json: AsJson = False,
) -> None:
    """Compare the tokens per second of the local engine and `transformers.generate`, greedy and with the same weights.

    Both engines are measured in the same run, on three workloads. In the first, the model solves held-out problems. In
    the others, models with random weights write completions of equal length (uniform) or of different lengths (ragged).
    """
    from rstar.models.bench import SHAPES, bench_engine, ragged_work, text_work, uniform_work, write_random_model
    from rstar.models.spec import local_folder

    folder = model or local_folder(Bundled())
    prompts = [prompt.prompt(drawn.instance.question) for drawn in draw(n, seed=0)]
    rows = {}
    with tempfile.TemporaryDirectory() as scratch, progress(1 + 2 * len(SHAPES), "measurements") as advance:
        work = text_work(folder, prompts, prompt.END_CODE, PROGRAM_TOKENS)
        rows[f"{n} problems"] = bench_engine(folder, work, dtype=dtype, threads=threads)
        advance()
        for shape, config in SHAPES.items():
            write_random_model(Path(scratch), config)
            for kind, work in (("ragged", ragged_work()), ("uniform", uniform_work())):
                rows[f"{shape}, {kind}"] = bench_engine(Path(scratch), work, dtype=dtype, threads=threads)
                advance()
    names = ("tokens/s", "transformers.generate", "ratio", "equal texts")
    table = figures_table("work", names, least=12)
    for name, row in rows.items():
        speeds = f"{row.local:,.0f}", f"{row.transformers:,.0f}"
        table.add(name, *speeds, f"{row.ratio:.2f}", f"{100 * row.equal:.0f}%")
    print_result({name: asdict(row) | {"ratio": row.ratio} for name, row in rows.items()}, as_json, table)


@app.command("grading")
def grading(
    seconds: Annotated[float, typer.Option(help="Minimum CPU seconds for each measurement.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Measure verdicts per CPU-second on exact gold answers and expressions; for math-verify, too, if installed."""
    from rstar.grading.bench import bench_grading

    speeds = bench_grading(seconds)
    table = figures_table("work", ("verdicts per CPU-second", "wrong"))
    for name, speed in speeds.items():
        table.add(name, f"{speed.verdicts_per_cpu_second:,.0f}", f"{speed.wrong} of {speed.pairs:,}")
    hint = r"to compare with math-verify: pip install 'math-verify\[antlr4_13_2]'"
    print_result(
        {name: asdict(speed) for name, speed in speeds.items()}, as_json, table, *([hint] if len(speeds) < 3 else [])
    )


@app.command("judge")
def judge(
    url: Annotated[str | None, typer.Option(help="URL of a running service.", show_default="starts a service")] = None,
    calls: Annotated[int, typer.Option(help="Number of calls in each load.", min=10)] = 1_000,
    burst: Annotated[int, typer.Option(help="Also submit this many calls at once, in batches of 32.", min=0)] = 0,
    loops: Annotated[
        list[int] | None,
        typer.Option(help="Also measure the run times of this many simultaneous endless loops; may be repeated."),
    ] = None,
    redis: Annotated[
        str | None, typer.Option(help="Redis URL for the queue of the started service.", show_default="memory")
    ] = None,
    pid: Annotated[
        int, typer.Option(help="Process id of a running local service, to measure its CPU time.", show_default=False)
    ] = 0,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token for a running service.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML file to write, with charts of the last load.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure calls per second, latency and CPU time per call of a judge service under several kinds of load.

    Some loads run one program, with calls one at a time and in batches. Others run a mix of programs, with and without
    endless loops. With `--burst 45000`, a further load makes 45,000 calls at once. The loads use only Code Judge's
    interface, so `--url` may also be that of a Code Judge service.
    """
    from rstar.judge.bench import bench_judge
    from rstar.judge.settings import read_token

    token = None if token_file is None else read_token(token_file)
    if report is not None:
        make_folder(report.parent)
    with progress(0, "loads") as advance:
        work = bench_judge(url, calls, burst, loops or (), redis=redis, pid=pid, token=token, advance=advance)
        loads = asyncio.run(work)
    if report is not None:
        report.write_text(_report_page(loads), encoding="utf-8")
    figures = {name: load.to_json() for name, load in loads.items()}
    ranks = {
        "calls/s": 0,
        "p50 ms": 0,
        "p95 ms": 3,
        "p99 ms": 0,
        "max ms": 3,
        "CPU ms/call": 1,
        "memory MiB": 2,
        "wrong": 0,
    }
    table = figures_table("load", ranks, least=12)
    for name, row in figures.items():
        numbers = ("" if row[key] is None else f"{row[key]:,}" for key in row if key != "wrong")
        table.add(name, *numbers, str(row["wrong"] or ""))
    print_result(figures, as_json, table)


@app.command("agent")
def agent(
    rollouts: Annotated[int, typer.Option(help="Number of rollouts, all made at once.", min=1)] = 2_048,
    turns: Annotated[int, typer.Option(help="Turns of a rollout; every turn but the last calls a tool.", min=2)] = 4,
    url: Annotated[str | None, typer.Option(help="URL of a running service.", show_default="starts a service")] = None,
    pid: Annotated[
        int, typer.Option(help="Process id of a running local service, to measure its CPU time.", show_default=False)
    ] = 0,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token for a running service.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make many rollouts of an agent at once, with their tool calls in sessions of a judge service.

    The model is a script and takes no time. Each rollout adds numbers in a session of its own, so a lost or mixed-up
    session gives a wrong sum. The CPU time of a tool call is compared with that of a program without a session, sent
    one at a time.
    """
    from rstar.agent.bench import bench_agent

    load = asyncio.run(bench_agent(url, rollouts, turns, pid=pid, token_file=token_file))
    lines = [f"{load.right:,} of {load.rollouts:,} rollouts with the right sum, in {load.seconds:.1f} s"]
    if load.cpu_ms is not None and load.single_cpu_ms is not None:
        lines.append(
            f"CPU time of the service: {load.cpu_ms:.2f} ms per tool call ({load.calls:,} calls); "
            f"{load.single_cpu_ms:.2f} ms per program sent alone"
        )
    lines += (f"{count:,} rollouts: {escape(what)}" for what, count in load.lost.items())
    print_result(asdict(load), as_json, *lines)


@app.command("tools")
def tools(
    policy: Annotated[
        str, typer.Option(help="A local model; its rollouts solve puzzles by trial and error.")
    ] = "tiny:agent",
    n: Annotated[int, typer.Option(help="Number of puzzles.", min=1)] = 12,
    samples: Annotated[int, typer.Option(help="Rollouts per puzzle.", min=1)] = 16,
    tokens: Annotated[int, typer.Option(help="Maximum number of tokens in a rollout.", min=1)] = 900,
    processes: Annotated[int, typer.Option(help="Processes that run the model; 0: this process.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="Seed for puzzles and rollouts.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure what tool calls cost rollouts of an agent.

    The same rollouts are made with the sandbox, and with recorded tool responses that take no time. The figure is the
    throughput with the sandbox, as a share of the throughput without. This takes about five minutes.
    """
    from rstar.agent.bench_tools import bench_tools
    from rstar.config import build

    rounds = 2
    config = build(
        {
            "policy": policy,
            "seed": seed,
            "search": {
                "method": "agent",
                "environment": "puzzles",
                "samples": samples,
                "max_response_tokens": tokens,
                "rollout_seconds": 7200,
                "keep_trees": False,
            },
            "engine": {"processes": processes, "max_context": 2048},
        }
    )
    drawn = draw_set(n, seed, levels="1-2", names=["search"])
    puzzles = [Problem(one.id, one.instance.question) for one in drawn]
    with progress((1 + 2 * rounds) * len(puzzles), "puzzles") as advance:
        figures = asyncio.run(bench_tools(config, puzzles, rounds=rounds, done=advance))
    print_result(
        asdict(figures) | {"share": figures.share},
        as_json,
        f"{figures.share:.0%} of the engine's throughput: {figures.with_tools:,.0f} tokens/s with the sandbox, "
        f"{figures.alone:,.0f} without",
        f"{figures.rollouts:,} rollouts, {figures.tokens:,} sampled tokens, {figures.calls:,} tool calls",
    )


@app.command("rollout")
def rollout(
    traces: Annotated[int, typer.Option(help="Number of sets of rollouts.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Seed for the sets.", min=0)] = 0,
    replicas: Annotated[int, typer.Option(help="Number of replicas of the model.", min=1)] = 64,
    problems: Annotated[int, typer.Option(help="Number of problems per set.", min=1)] = 512,
    group: Annotated[int, typer.Option(help="Rollouts per problem.", min=1)] = 32,
    report: Annotated[
        Path | None, typer.Option(help="HTML file to write, with a timeline for each scheduler.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare schedulers of agent rollouts in a simulation of many replicas.

    A set contains rollouts of up to 10 turns; their lengths have a heavy-tailed distribution. A set takes about half a
    minute on one processor. The makespan is the simulated time, in seconds, until the last rollout has ended. The table
    also gives the makespan of rstar's scheduler as a share of each scheduler's makespan.
    """
    from rstar.agent.simulate import SCHEDULERS, compare_schedulers

    if report is not None:
        make_folder(report.parent)
    with progress(traces * len(SCHEDULERS), "simulations") as advance:
        outcomes = compare_schedulers(traces, seed, replicas=replicas, problems=problems, group=group, done=advance)
    ours = outcomes["rstar"]
    names = ("makespan s", "rstar's share", "idle", "pre-emptions per turn", "prefix hits")
    table = figures_table("scheduler", names, least=12)
    figures: dict[str, dict[str, float]] = {}
    for name, found in outcomes.items():
        shares = [mine.makespan / other.makespan for mine, other in zip(ours, found, strict=True)]
        means = {key: mean(getattr(one, key) for one in found) for key in ("makespan", "idle", "preemptions", "hits")}
        figures[name] = means | {"share": mean(shares), "least_share": min(shares), "largest_share": max(shares)}
        spread = f" ({min(shares):.2f} to {max(shares):.2f})" if traces > 1 and found is not ours else ""
        table.add(
            name,
            f"{means['makespan']:,.0f}",
            f"{mean(shares):.2f}{spread}",
            f"{means['idle']:.1%}",
            f"{means['preemptions']:.2%}",
            f"{means['hits']:.1%}",
        )
    if report is not None:
        timelines = [timeline(name, found[0].running, "seconds", "replicas") for name, found in outcomes.items()]
        report.write_text(page("Rollout schedulers: running turns on each replica", timelines), encoding="utf-8")
    print_result(figures, as_json, table)


def _report_page(loads: Mapping[str, LoadResult]) -> str:
    """An HTML page: the figures of all loads, latency and queue of the last one."""
    rows = {
        name: f"{load.per_second:,.0f} calls/s, p50 {1e3 * load.percentile(50):,.1f} ms, p99"
        f" {1e3 * load.percentile(99):,.1f} ms, {sum(load.wrong.values())} wrong"
        for name, load in loads.items()
    }
    name, last = list(loads.items())[-1]
    steps = range(1, 100)
    charts = [
        curves(f"{name}: latency", {"": [(p, last.percentile(p)) for p in steps]}, "% of calls", "seconds"),
        curves(f"{name}: queue", {"": [(t, float(n)) for t, n in last.queue]}, "seconds", "waiting calls"),
    ]
    return page("rstar judge under load", [html_table([], [*rows.items()]), *charts])
