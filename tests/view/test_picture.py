"""Charts as a PNG."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import ConfigError
from rstar.view.chart import Chart
from rstar.view.picture import can_draw, spread, write_png

CHARTS = [
    Chart("Two", {"a": [(1, 0.5), (2, 0.25)], "b": [(1, 0.5), (2, 0.25)]}, "step", "share"),
    Chart("Nothing yet", {"a": []}, "step", "seconds"),
    Chart("Wide", {"a": [(100, 0.5), (8_000, 0.9)]}, "tokens", "share", log_x=True),
    Chart("Below 0", {"a": [(1, -0.5)]}, "step", "mean"),
    Chart("Many", {str(n): [(1, n / 20), (2, n / 20)] for n in range(10)}, "step", "share"),
    Chart("Always 0", {"a": [(step, 0) for step in range(50)]}, "step", "groups"),
]


def test_a_png_is_written(tmp_path: Path) -> None:
    assert can_draw()
    write_png(file := tmp_path / "p.png", "Title", CHARTS)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["p.png"]


def test_what_hinders_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*nowhere/p\.png"):
        write_png(tmp_path / "nowhere" / "p.png", "Title", CHARTS)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"p\.png: drawing a PNG needs matplotlib; install rstar\[pictures\]"):
        write_png(tmp_path / "p.png", "Title", CHARTS)


def test_every_curve_is_drawn_and_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also the ninth, in the colour of the first, but dashed."""
    from matplotlib.axes import Axes

    drawn, named = [], []
    plot, annotate = Axes.plot, Axes.annotate
    monkeypatch.setattr(
        Axes, "plot", lambda *given, **how: drawn.append((given[3], how["color"])) or plot(*given, **how)
    )
    monkeypatch.setattr(Axes, "annotate", lambda *given, **how: named.append(given[1]) or annotate(*given, **how))
    write_png(tmp_path / "p.png", "Title", [Chart("Many", {str(n): [(1, n), (2, n)] for n in range(10)}, "x", "y")])
    assert len(set(drawn)) == 10
    assert named == ["y", *map(str, range(10))]


def test_labels_stay_below_the_top() -> None:
    assert spread([0.9, 0.95, 1.0, 0.2], 0.1, most=1.0) == pytest.approx([0.8, 0.9, 1.0, 0.2])
    assert spread([1.0, 0.75, 0.98], 0.2, most=1.0) == pytest.approx([1.0, 0.6, 0.8])


@given(st.lists(st.integers(0, 100).map(lambda n: n / 100), max_size=8))
def test_labels_keep_their_order_and_do_not_overlap(heights: list[float]) -> None:
    places = spread(heights, 0.1)
    order = sorted(range(len(heights)), key=heights.__getitem__)
    assert all(places[above] - places[below] > 0.1 - 1e-9 for below, above in pairwise(order))
    if all(heights[above] - heights[below] > 0.1 for below, above in pairwise(order)):
        assert places == pytest.approx(heights)
