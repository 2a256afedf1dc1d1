"""A training run as a table of its evaluations, and its curves as an HTML page or a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rstar.errors import DataError
from rstar.jsonl import Record, read_lines
from rstar.train.trackers import METRICS
from rstar.view.chart import Chart, curves, page, table
from rstar.view.picture import write_png
from rstar.view.tables import Column, Grid

EVALUATIONS, TITLE = "evaluations.jsonl", "Reinforcement learning"

_CHARTS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("Reward of the training rollouts", "mean", {"reward": "reward"}),
    ("Length of a response", "tokens", {"response_tokens": "tokens"}),
    ("Turns and tool calls of a rollout", "mean", {"turns": "turns", "calls": "calls"}),
    (
        "Failed tool calls",
        "share of all calls",
        {"error_share": "in all rollouts", "error_share_right": "in correct rollouts"},
    ),
    ("Rollouts without an answer", "share", {"unfinished": "unfinished", "out_of_time": "of these, out of time"}),
    ("Entropy of the policy", "nats per token", {"entropy": "entropy"}),
    ("Trained tokens", "share", {"clip_share": "clipped", "masked_share": "masked"}),
    (
        "The weights in training against others",
        "mean difference of log-probabilities",
        {"mismatch": "weights of the rollouts", "drift": "weights before the step"},
    ),
    (
        "Groups of a step",
        "groups",
        {
            "groups": "drawn",
            "groups_trained": "trained on",
            "groups_all_right": "all correct",
            "groups_all_wrong": "all wrong",
        },
    ),
    (
        "Time of a step",
        "seconds",
        {"seconds": "in all", "seconds_rollouts": "waiting for rollouts", "seconds_update": "update"},
    ),
)
"""Title, unit, and metric → name of its curve."""


def is_training(folder: Path) -> bool:
    """Whether the folder holds a training run with an evaluation."""
    return (folder / EVALUATIONS).is_file()


def read_evaluations(folder: Path) -> list[Record]:
    """The evaluations so far. Raises `DataError` if they are damaged."""
    lines = list(read_lines(folder / EVALUATIONS, "step"))
    needed = {"step", "mean", "calls", "response_tokens", "unfinished"}
    if bad := next((number for number, line in enumerate(lines, 1) if not needed <= line.keys()), None):
        raise DataError(f"{folder / EVALUATIONS}:{bad}: not an evaluation")
    return lines


def evaluations_table(evaluations: Sequence[Record]) -> Grid:
    """A row per evaluation."""
    head, rows = _cells(evaluations)
    return Grid([Column(name, number=True, rank=rank) for rank, name in enumerate(head)], [*rows])


def report(folder: Path) -> str:
    """An HTML page of the run so far. Raises `DataError` if its files are damaged."""
    shown = [curves(*chart[:4]) for chart in charts(folder)]
    return page(TITLE, [table(*_cells(read_evaluations(folder))), *shown])


def write_picture(folder: Path, file: Path) -> None:
    """Draw the curves of the run so far as one PNG.

    Raises:
        ConfigError: matplotlib is not installed, or the file cannot be written.
        DataError: files of the run are damaged.
    """
    write_png(file, TITLE, charts(folder))


def charts(folder: Path) -> list[Chart]:
    """The curves of the run so far. Raises `DataError` if its files are damaged."""
    evaluations = read_evaluations(folder)
    steps = list(read_lines(folder / METRICS, "step")) if (folder / METRICS).is_file() else []
    accuracy = {name: _points(evaluations, name, 100) for name in ("mean", *_pass_keys(evaluations))}
    found = [Chart("Accuracy on held-out problems", accuracy, "step", "% correct")]
    for title, unit, shown in _CHARTS:
        found.append(Chart(title, {label: _points(steps, name) for name, label in shown.items()}, "step", unit))
    return found


def _pass_keys(evaluations: Sequence[Record]) -> list[str]:
    return [name for name in (evaluations[0] if evaluations else ()) if name.startswith("pass@")]


def _points(lines: Sequence[Record], name: str, factor: float = 1.0) -> list[tuple[float, float]]:
    return [(line["step"], factor * line[name]) for line in lines if name in line]


def _cells(evaluations: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Heading and rows of the table of evaluations."""
    keys = _pass_keys(evaluations)
    head = ["step", "mean", *keys, "calls", "failed calls", "in correct rollouts", "tokens", "unfinished"]
    rows = [
        [
            str(line["step"]),
            *(f"{100 * line[name]:.1f}%" for name in ("mean", *keys)),
            f"{line['calls']:.2f}",
            *(f"{100 * line[name]:.0f}%" if name in line else "" for name in ("error_share", "error_share_right")),
            f"{line['response_tokens']:.0f}",
            f"{100 * line['unfinished']:.0f}%",
        ]
        for line in evaluations
    ]
    return head, rows
