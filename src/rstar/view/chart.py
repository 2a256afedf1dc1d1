"""Line charts as SVG, and self-contained HTML pages: no scripts, no external resources."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

Points = Sequence[tuple[float, float]]


class Chart(NamedTuple):
    """What a chart of one or more curves shows.

    Attributes:
        title: heading.
        series: name → points in ascending x; curves without points are left out.
        x, y: axis labels, with units.
        log_x: whether the x axis is logarithmic; only in a PNG (`rstar.view.picture`).
    """

    title: str
    series: Mapping[str, Points]
    x: str
    y: str
    log_x: bool = False


_WIDTH, _HEIGHT = 640, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 46
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#475569", "#db2777", "#0891b2")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1e293b }
table { border-collapse: collapse } td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top }
td:not(:first-child) { font-variant-numeric: tabular-nums; text-align: right }
svg { max-width: 100%; height: auto }
"""


def stroke(number: int) -> tuple[str, bool]:
    """Colour of a curve by its number, and whether it is dashed, so that many curves differ."""
    return _COLOURS[number % len(_COLOURS)], number // len(_COLOURS) % 2 == 1


def curves(title: str, series: Mapping[str, Points], x: str, y: str) -> str:
    """A chart of one or more curves as SVG; arguments as in `Chart`."""
    shown = {name: points for name, points in series.items() if points}
    xs = [px for points in shown.values() for px, _ in points] or [0.0]
    ys = [py for points in shown.values() for _, py in points] or [0.0]
    x_ticks, y_ticks = ticks(min(0.0, *xs), max(xs)), ticks(min(0.0, *ys), max(ys))
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(value: float) -> float:
        return _LEFT + inner_width * (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])

    def down(value: float) -> float:
        return _TOP + inner_height * (1 - (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]))

    parts = [f'<text x="{_LEFT}" y="20" font-weight="600">{escape(title)}</text>']
    for value in y_ticks:
        parts.append(f'<path d="M{_LEFT} {down(value):.1f}H{_WIDTH - _RIGHT}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{down(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in x_ticks:
        parts.append(
            f'<text x="{across(value):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{value:g}</text>'
        )
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">{escape(x)}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}" fill="#64748b">{escape(y)}</text>')
    for number, (name, points) in enumerate(shown.items()):
        colour, dashed = stroke(number)
        dashes = ' stroke-dasharray="6 3"' if dashed else ""
        path = "M" + "L".join(f"{across(px):.1f} {down(py):.1f}" for px, py in points)
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')
        if len(shown) > 1:
            right = f'x="{_WIDTH - _RIGHT}" y="{20 + 14 * number}" text-anchor="end" fill="{colour}"'
            parts.append(f"<text {right}>{escape(name)}</text>")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}"'
    return f'{head} font-family="system-ui, sans-serif" font-size="11" fill="#334155">{"".join(parts)}</svg>'


def timeline(title: str, rows: Sequence[Points], x: str, y: str, bins: int = 160) -> str:
    """How values develop over time, as one row of colour each: the darker, the larger.

    Args:
        title: heading.
        rows: for each row, (time, value from then on) in ascending time.
        x, y: what the time is, with its unit, and what the rows are.
        bins: number of times shown.
    """
    end = max((points[-1][0] for points in rows if points), default=0.0) or 1.0
    shown = [_sampled(points, end, bins) for points in rows]
    most = max((value for values in shown for value in values), default=0.0) or 1.0
    high = min(8.0, 320 / max(1, len(rows)))
    wide = (_WIDTH - _LEFT - _RIGHT) / bins
    bottom = _TOP + high * len(rows)
    parts = [f'<text x="{_LEFT}" y="20" font-weight="600">{escape(title)}</text>']
    for number, values in enumerate(shown):
        start = 0
        for place in range(1, bins + 1):  # equal neighbours are one rectangle
            if place < bins and round(8 * values[place] / most) == round(8 * values[start] / most):
                continue
            if level := round(8 * values[start] / most):
                box = f'x="{_LEFT + wide * start:.1f}" y="{_TOP + high * number:.1f}" height="{high * 0.9:.1f}"'
                parts.append(f'<rect {box} width="{wide * (place - start):.1f}" fill-opacity="{level / 8:g}"/>')
            start = place
    for value in (0.0, end / 2, end):
        across = _LEFT + (_WIDTH - _LEFT - _RIGHT) * value / end
        parts.append(f'<text x="{across:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{value:,.0f}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 32:.1f}" text-anchor="end">{escape(x)}</text>')
    parts.append(f'<text x="{_LEFT}" y="{bottom + 32:.1f}" fill="#64748b">{escape(y)}; dark: {most:g}</text>')
    size = f'viewBox="0 0 {_WIDTH} {bottom + 40:.0f}" width="{_WIDTH}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="11"'
    return f'{head} fill="#1d4ed8"><g>{"".join(parts)}</g></svg>'


def _sampled(points: Points, end: float, bins: int) -> list[float]:
    """The values at `bins` times, evenly spaced; 0 before the first."""
    times = [time for time, _ in points]
    places = (bisect.bisect_right(times, end * (number + 0.5) / bins) - 1 for number in range(bins))
    return [points[place][1] if place >= 0 else 0.0 for place in places]


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that cover the range from `low` to `high`; at least two."""
    span = high - low if high > low else abs(high) or 1.0
    rough = span / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [round(number * step, 12) for number in range(first, last + 1)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; `head` may be empty."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return "<table>" + (f"<tr>{top}</tr>" if head else "") + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def page(title: str, parts: Sequence[str]) -> str:
    """An HTML page of tables and charts."""
    body = f"<h1>{escape(title)}</h1>{''.join(parts)}"
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{body}</body></html>\n"
