from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from rstar.view.chart import curves, page, table, ticks

NUMBERS = st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-9)


@given(NUMBERS, NUMBERS)
def test_ticks_cover_the_range_in_equal_steps(a: float, b: float) -> None:
    low, high = sorted((a, b))
    found = ticks(low, high)
    step = found[1] - found[0]
    assert 2 <= len(found) <= 12
    assert found[0] <= low + 1e-6 * step
    assert found[-1] >= high - 1e-6 * step


NAMES = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]))
SERIES = st.dictionaries(NAMES, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5), max_size=3)


@given(SERIES)
def test_charts_are_well_formed_and_inside_their_frame(series: dict[str, list[tuple[float, float]]]) -> None:
    chart = ElementTree.fromstring(curves("a < b & c", series, "x", "y"))
    lines = [part for part in chart if part.get("fill") == "none"]
    assert len(lines) == sum(bool(points) for points in series.values())
    for line in lines:
        for point in line.get("d", "")[1:].split("L"):
            x, y = map(float, point.split())
            assert 0 <= x <= 640
            assert 0 <= y <= 280


def test_a_page_shows_what_it_is_given_and_loads_nothing() -> None:
    text = page("<Title>", [table([], [["calls", "1 < 2"]]), curves("c", {"a": [(0, 0), (1, 2)]}, "s", "n")])
    assert "&lt;Title&gt;" in text
    assert "1 &lt; 2" in text
    assert "src=" not in text
    assert "<script" not in text
