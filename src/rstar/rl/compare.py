"""Training runs side by side: does one setting do better than another by more than training seeds differ?

A setting has one or more runs, which differ in their seeds. All are read up to the last step after which every run was
evaluated, so their budgets are equal. A figure of a run is the mean over its last steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rstar.errors import ConfigError, DataError
from rstar.evals.metrics import mean_of_runs, run_difference
from rstar.jsonl import Record, read_lines
from rstar.rl.report import is_training, read_evaluations
from rstar.runs import read_config
from rstar.sections import flatten
from rstar.train.trackers import METRICS
from rstar.view.chart import Chart
from rstar.view.tables import Column, Grid


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _share(value: float) -> str:
    return f"{_points(value)}%"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


class _Figure(NamedTuple):
    """A figure of a run: where it is read, how it is called and written, and the unit of its chart."""

    key: str
    name: str
    text: Callable[[float], str]
    unit: str


_OF_STEPS = (
    _Figure("reward", "reward", _number, "mean"),
    _Figure("error_share", "failed calls", _share, "share of all calls"),
    _Figure("error_share_right", "in correct rollouts", _share, "share of their calls"),
    _Figure("response_tokens", "tokens", _number, "tokens of a response"),
    _Figure("turns", "turns", _number, "turns of a rollout"),
    _Figure("unfinished", "unfinished", _share, "share of the rollouts"),
    _Figure("entropy", "entropy", _number, "nats per token"),
    _Figure("seconds", "seconds", _number, "seconds of a step"),
)


class TrainingRun(NamedTuple):
    """The steps and evaluations of a run, in order."""

    steps: list[Record]
    evaluations: list[Record]


Settings = Mapping[str, Sequence[TrainingRun]]
"""Name of a setting → its runs, at least one."""


class SettingRow(NamedTuple):
    """A setting's figures over its runs.

    Attributes:
        name: of the setting.
        runs: how many.
        figures: by key: mean over the runs, and half of its 95% interval; None for one run.
        differences: by key: difference of the means from the first setting, and half of its 95% interval; none for the
            first setting, and where one of the two has a single run.
    """

    name: str
    runs: int
    figures: Mapping[str, tuple[float, float | None]]
    differences: Mapping[str, tuple[float, float]]


def read_settings(arguments: Sequence[str]) -> dict[str, list[TrainingRun]]:
    """Read ``NAME=FOLDER,FOLDER…`` or ``FOLDER`` per setting, up to the last step after which all were evaluated.

    Raises:
        ConfigError: two settings have one name, a folder holds no training run or is named twice, or the runs cannot be
            compared: those of a setting must differ in their seeds and in nothing else, and all must be evaluated in
            the same way, also after a step that they have in common.
        DataError: a run's files are damaged, or a run has no step.
    """
    settings: dict[str, list[TrainingRun]] = {}
    every: list[Path] = []
    for argument in arguments:
        name, equals, rest = argument.partition("=")
        folders = [Path(folder) for folder in (rest if equals else argument).split(",")]
        name = name if equals else folders[0].name
        if name in settings:
            raise ConfigError(f"two settings are called {name!r}; name them: NAME=FOLDER,FOLDER")
        settings[name] = [_read(folder) for folder in folders]
        seeds: dict[object, Path] = {}
        for folder in folders:
            _check_pair(folders[0], folder, lambda key: key != "seed", "may differ in their seeds only")
            if folder.resolve() in every:
                raise ConfigError(f"{folder} is named twice")
            every.append(folder.resolve())
            if (other := seeds.setdefault(_settings(folder).get("seed"), folder)) is not folder:
                raise ConfigError(f"{other} and {folder} have the same seed, so they are not two independent runs")
        _check_pair(every[0], folders[0], _evaluates, "must be evaluated in the same way")
    runs_of_all = [run for runs in settings.values() for run in runs]
    last = min(run.steps[-1]["step"] for run in runs_of_all)
    evaluated = [{line["step"] for line in run.evaluations if 0 < line["step"] <= last} for run in runs_of_all]
    if not (common := set.intersection(*evaluated)):
        raise ConfigError("the runs have not yet been evaluated after the same step")
    last = max(common)
    return {
        name: [TrainingRun(*([line for line in lines if line["step"] <= last] for lines in run)) for run in runs]
        for name, runs in settings.items()
    }


def _check_pair(one: Path, other: Path, matters: Callable[[str], bool], rule: str) -> None:
    """Raise `ConfigError` if a setting that matters differs between two runs."""
    settings = [_settings(folder) for folder in (one, other)]
    for key in sorted(settings[0].keys() | settings[1].keys()):
        values = [of.get(key) for of in settings]
        if matters(key) and values[0] != values[1]:
            raise ConfigError(f"{one} and {other} {rule}: {key} is {values[0]!r} and {values[1]!r}")


def _settings(folder: Path) -> Record:
    return flatten((read_config(folder) or {}).get("identity", {}))


def _evaluates(key: str) -> bool:
    return key.startswith(("held_out", "search.environment", "search.max_")) or key == "evaluate_rollouts"


def _read(folder: Path) -> TrainingRun:
    if not is_training(folder):
        raise ConfigError(f"{folder}: no training run (of `rstar rl run`) with an evaluation")
    steps = list(read_lines(folder / METRICS, "step")) if (folder / METRICS).is_file() else []
    if not steps:
        raise DataError(f"{folder / METRICS}: the run has no finished step yet")
    return TrainingRun(steps, read_evaluations(folder))


def compare_settings(settings: Settings, last: int) -> list[SettingRow]:
    """A row per setting; figures of steps are means over each run's `last` steps."""
    rows: list[SettingRow] = []
    first: dict[str, list[float]] = {}
    for name, runs in settings.items():
        values = _values(runs, last)
        first = first or values
        differences = {
            key: run_difference(of, first[key])
            for key, of in values.items()
            if rows and key in first and min(len(of), len(first[key])) > 1
        }
        rows.append(SettingRow(name, len(runs), {key: mean_of_runs(of) for key, of in values.items()}, differences))
    return rows


def _values(runs: Sequence[TrainingRun], last: int) -> dict[str, list[float]]:
    """By key, the figure of each run: of its last steps, or of its last evaluation; ``rise`` is since the first one."""
    found: dict[str, list[float]] = {}
    for key in ("mean", *(key for key in runs[0].evaluations[0] if key.startswith("pass@"))):
        if all(key in run.evaluations[-1] for run in runs):
            found[key] = [run.evaluations[-1][key] for run in runs]
    found["rise"] = [run.evaluations[-1]["mean"] - run.evaluations[0]["mean"] for run in runs]
    for figure in _OF_STEPS:  # a step without calls has no share of failed ones
        of_runs = [[step[figure.key] for step in run.steps[-last:] if figure.key in step] for run in runs]
        if all(of_runs):
            found[figure.key] = list(map(fmean, of_runs))
    return found


def settings_table(rows: Sequence[SettingRow], steps: int, last: int) -> Grid:
    """The rows as a table, each difference below its figure's mean; those of shares are in percentage points."""
    pass_keys = [key for key in rows[0].figures if key.startswith("pass@")]
    shown = [
        _Figure("mean", "held-out mean", _share, ""),
        _Figure("rise", "rise", _points, ""),
        *(_Figure(key, key, _share, "") for key in pass_keys),
        *_OF_STEPS,
    ]
    columns = [Column("setting"), Column("runs", number=True)]
    columns += [Column(figure.name, number=True, rank=rank) for rank, figure in enumerate(shown)]
    title = (
        f"after {steps} steps; figures of training: means over the last {min(last, steps)} steps; "
        "rise, and differences of shares: percentage points"
    )
    grid = Grid(columns, title=title)
    for row in rows:
        grid.add(row.name, str(row.runs), *(_cell(row.figures.get(figure.key), figure.text) for figure in shown))
        if row.differences:
            units = ((figure.key, _points if figure.text is _share else figure.text) for figure in shown)
            cells = (_cell(row.differences.get(key), text, sign="+") for key, text in units)
            grid.add(f"  against {rows[0].name}", "", *cells)
    return grid


def _cell(found: tuple[float, float | None] | None, text: Callable[[float], str], sign: str = "") -> str:
    if found is None:
        return ""
    mean, half = found
    return (sign if mean >= 0 else "") + text(mean) + ("" if half is None else f" ± {text(half)}")


def setting_charts(settings: Settings) -> list[Chart]:
    """A chart per figure, with one curve per setting: the mean over its runs."""
    evaluations = {name: [run.evaluations for run in runs] for name, runs in settings.items()}
    steps = {name: [run.steps for run in runs] for name, runs in settings.items()}
    charts = [Chart("Accuracy on held-out problems", _curves(evaluations, "mean", 100), "step", "% correct")]
    for figure in _OF_STEPS[:-1]:
        title = "Failed calls in correct rollouts" if figure.key == "error_share_right" else figure.name.capitalize()
        charts.append(Chart(title, _curves(steps, figure.key, 1), "step", figure.unit))
    return charts


def _curves(
    lines: Mapping[str, Sequence[Sequence[Record]]], key: str, factor: float
) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, of_runs in lines.items():
        at: dict[float, list[float]] = {}
        for run in of_runs:
            for line in run:
                if key in line:
                    at.setdefault(line["step"], []).append(factor * line[key])
        curves[name] = [(step, fmean(values)) for step, values in sorted(at.items()) if len(values) == len(of_runs)]
    return curves
