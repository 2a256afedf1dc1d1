"""Charts as one PNG, side by side; needs the extra ``pictures``. `rstar.view.chart` draws the same charts as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rstar.errors import ConfigError
from rstar.jsonl import atomic_write
from rstar.view.chart import Chart, stroke

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 2, 3
"""Fewest and most charts in a row."""
_WIDE, _HIGH = 4.6, 2.9
"""Size of a chart, inches."""

_FEW = 12
"""A curve with fewer points shows each of them."""

_LABEL = 0.1
"""Height of a curve's label, as a share of the chart's."""

_TEXT, _FAINT, _GRID = "#1e293b", "#64748b", "#e2e8f0"
_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "text.color": _TEXT,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.edgecolor": _FAINT,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "ytick.major.size": 0.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_png(file: Path, title: str, charts: Sequence[Chart]) -> None:
    """Draw `charts` under one `title`.

    Raises:
        ConfigError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib import rc_context  # large, and needed for nothing else
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(f"{file}: drawing a PNG needs matplotlib; install rstar[pictures]") from None
    columns = min(max(math.ceil(math.sqrt(len(charts))), _COLUMNS[0]), _COLUMNS[1])
    rows = math.ceil(len(charts) / columns)
    with rc_context(_STYLE):
        figure = Figure(figsize=(columns * _WIDE, rows * _HIGH + 0.5), dpi=120, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.12)  # type: ignore[union-attr,call-arg]
        figure.suptitle(title, x=0.012, ha="left", fontsize=15, fontweight="bold")
        places = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, chart in zip(places, charts, strict=False):
            _draw(axes, chart)
        for axes in places[len(charts) :]:
            axes.set_axis_off()
        try:
            with atomic_write(file) as out:
                figure.savefig(out, format="png")
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def _draw(axes: Axes, chart: Chart) -> None:
    shown = {name: points for name, points in chart.series.items() if points}
    from matplotlib.ticker import LogLocator

    values = [y for points in shown.values() for _, y in points] or [0.0]
    for number, points in enumerate(shown.values()):
        colour, dashed = stroke(number)
        marker, line = "o" if len(points) < _FEW else "", "--" if dashed else "-"
        axes.plot(*zip(*points, strict=True), line, color=colour, linewidth=1.4, marker=marker, markersize=3)
    axes.set_title(f"{chart.title}\n", pad=2)
    axes.annotate(chart.y, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", color=_FAINT)
    axes.set_xlabel(chart.x, color=_FAINT, loc="right", labelpad=1)
    axes.margins(x=0.01)
    if chart.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.minorticks_off()
    low, high = min(0.0, *values), max(values)
    axes.set_ylim(low, high + 0.05 * (high - low) if high > low else low + 1)
    axes.locator_params(axis="y", nbins=5, steps=[1, 2, 5, 10], integer=all(y == int(y) for y in values))
    if len(shown) > 1:
        ends = [axes.transAxes.inverted().transform(axes.transData.transform(points[-1])) for points in shown.values()]
        heights = spread([float(end[1]) for end in ends], _LABEL, most=1.0)
        for number, (name, height) in enumerate(zip(shown, heights, strict=True)):
            axes.annotate(name, (1.015, height), xycoords="axes fraction", color=stroke(number)[0], va="center")


def spread(heights: Sequence[float], gap: float, most: float = math.inf) -> list[float]:
    """Heights of labels beside the ends of curves, moved as little as needed so that none covers another.

    No label is above `most`.

    >>> spread([0.5, 0.52, 0.0], 0.125)
    [0.4475, 0.5725, 0.0]
    >>> spread([1.0, 1.0], 0.25, most=1.0)
    [0.75, 1.0]
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    groups: list[list[int]] = []  # labels that touch, and lie around the mean of their heights
    places: dict[int, float] = {}
    for label in order:
        groups.append([label])
        while True:
            last = groups[-1]
            middle = sum(heights[i] for i in last) / len(last)
            first = min(middle - gap * (len(last) - 1) / 2, most - gap * (len(last) - 1))
            if len(groups) == 1 or first - places[groups[-2][-1]] >= gap:
                break
            groups[-2:] = [groups[-2] + last]
        for number, i in enumerate(last):
            places[i] = first + gap * number
    return [places[i] for i in range(len(heights))]
