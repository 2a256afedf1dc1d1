from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from rstar.view.chart import curves, page, table, ticks, timeline

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


ROWS = st.lists(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 500)), max_size=6).map(lambda points: sorted(points)), max_size=5
)


@given(ROWS)
def test_timelines_are_well_formed_and_inside_their_frame(rows: list[list[tuple[float, float]]]) -> None:
    chart = ElementTree.fromstring(timeline("a < b", rows, "seconds", "replicas"))
    height = float(chart.get("viewBox", "").split()[3])
    for box in chart.iterfind(".//{*}rect"):
        x, y, wide, high = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0 <= x < x + wide <= 640
        assert 0 <= y < y + high <= height
        assert 0 < float(box.get("fill-opacity", "")) <= 1


def test_a_timeline_shows_when_a_row_is_busy() -> None:
    rows: list[list[tuple[float, float]]] = [[(0.0, 4.0), (50.0, 0.0)], [(50.0, 2.0), (100.0, 0.0)]]
    boxes = list(ElementTree.fromstring(timeline("t", rows, "s", "rows", bins=10)).iterfind(".//{*}rect"))
    (first, second) = boxes
    assert (first.get("fill-opacity"), second.get("fill-opacity")) == ("1", "0.5")
    assert float(first.get("x", "")) + float(first.get("width", "")) == float(second.get("x", ""))
    assert float(first.get("y", "")) < float(second.get("y", ""))


def test_a_page_shows_what_it_is_given_and_loads_nothing() -> None:
    text = page("<Title>", [table([], [["calls", "1 < 2"]]), curves("c", {"a": [(0, 0), (1, 2)]}, "s", "n")])
    assert "&lt;Title&gt;" in text
    assert "1 &lt; 2" in text
    assert "src=" not in text
    assert "<script" not in text
