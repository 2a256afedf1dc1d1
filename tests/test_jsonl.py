"""Files of records: what a line holds, what is torn or damaged, what is cut and put into order."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import DataError
from rstar.jsonl import Stream, line_of, read_lines, replaced, write_json, write_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(codec=None)), VALUES, max_size=4))
def test_a_record_is_one_line_and_comes_back(record: dict[str, object]) -> None:
    line = line_of(record)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line) == record


def test_lines_are_json_objects(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "s.jsonl")
    stream.append({"id": "a", "text": "two\nlines"})
    stream.close()
    (line,) = (tmp_path / "s.jsonl").read_text().splitlines()
    assert json.loads(line)["text"] == "two\nlines"


def test_half_characters_are_kept(tmp_path: Path) -> None:
    write_lines(tmp_path / "s.jsonl", [{"id": "a", "text": "\ud800 é"}])
    assert list(read_lines(tmp_path / "s.jsonl")) == [{"id": "a", "text": "\ud800 é"}]
    write_json(tmp_path / "s.json", {"text": "\ud800 é"})
    assert json.loads((tmp_path / "s.json").read_text()) == {"text": "\ud800 é"}


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    write_lines(file, [{"id": 1}, {"id": 2}])
    with pytest.raises(TypeError):
        write_lines(file, [{"id": 3}, {"id": object()}])
    with suppress(KeyError), replaced(file) as out:
        out.write(b"half of it")
        raise KeyError
    assert [row["id"] for row in read_lines(file)] == [1, 2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"garbage\n", "s.jsonl:2: damaged: Expecting value"),
        (b"[1]\n", "s.jsonl:2: damaged: not an object with 'id'"),
        (b'{"name": 1}\n', "s.jsonl:2: damaged: not an object with 'id'"),
        (b'"\xff"\n', "s.jsonl:2: damaged: 'utf-8' codec"),
    ],
)
def test_damaged_lines_are_named(tmp_path: Path, line: bytes, reason: str) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b'{"id": "a"}\n' + line + b'{"id": "b"}\n')
    with pytest.raises(DataError, match=reason):
        list(read_lines(file))
    with pytest.raises(DataError, match="damaged at byte 12"):
        Stream(file)


def test_a_torn_last_line_is_passed_over_and_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b'{"id": "a"}\n{"id": "b", "tex')
    assert [row["id"] for row in read_lines(file)] == ["a"]
    stream = Stream(file)
    assert stream.keys == {"a"}
    assert file.stat().st_size > 12, "opening changes nothing"
    stream.append({"id": "c"})
    stream.close()
    assert file.read_bytes() == b'{"id": "a"}\n{"id":"c"}\n'


def test_records_may_have_another_key(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "s.jsonl", key="round")
    stream.append({"round": 3})
    assert Stream(tmp_path / "s.jsonl", key="round").keys == {3}
    assert list(stream) == [{"round": 3}]
    stream.close()


def filled(file: Path, names: str) -> Stream:
    stream = Stream(file)
    for name in names:
        stream.append({"id": name})
    return stream


def test_a_stream_is_empty_before_its_first_record(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "s.jsonl")
    assert list(stream) == []
    stream.reorder("ab")
    stream.close()
    assert not (tmp_path / "s.jsonl").exists()


def test_what_is_cut_is_gone_with_the_next_record(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    filled(file, "abcd").close()
    before = file.read_bytes()
    stream = Stream(file)
    stream.cut("ac".__contains__)
    assert stream.keys == {"a", "b", "c"}, "only from the end, as far as the first that is kept"
    assert file.read_bytes() == before
    stream.append({"id": "e"})
    assert [row["id"] for row in stream] == ["a", "b", "c", "e"]
    stream.close()


@pytest.mark.parametrize("kept", ["", "abcd"])
def test_all_or_nothing_may_be_cut(tmp_path: Path, kept: str) -> None:
    file = tmp_path / "s.jsonl"
    filled(file, "abcd").close()
    stream = Stream(file)
    stream.cut(kept.__contains__)
    assert stream.keys == set(kept)
    stream.append({"id": "e"})
    stream.close()
    assert "".join(row["id"] for row in read_lines(file)) == f"{kept}e"


def test_what_is_cut_can_be_written_again_while_the_stream_is_open(tmp_path: Path) -> None:
    stream = filled(tmp_path / "s.jsonl", "abc")
    stream.cut("a".__contains__)
    stream.append({"id": "b", "again": True})
    stream.close()
    assert list(read_lines(tmp_path / "s.jsonl")) == [{"id": "a"}, {"id": "b", "again": True}]


@given(st.permutations("abcde"), st.permutations("abcde"), st.integers(0, 5))
def test_an_order_is_that_of_the_keys(
    tmp_path_factory: pytest.TempPathFactory, written: list[str], order: list[str], n: int
) -> None:
    file = tmp_path_factory.mktemp("s") / "s.jsonl"
    stream = filled(file, "".join(written[:n]))
    stream.reorder(order)
    assert [row["id"] for row in stream] == [name for name in order if name in written[:n]]
    assert stream.keys == set(written[:n])


def test_a_stream_goes_on_after_it_was_put_into_order(tmp_path: Path) -> None:
    stream = filled(tmp_path / "s.jsonl", "cab")
    stream.reorder("abc")
    stream.append({"id": "d", "text": "x" * 50})
    stream.reorder("dcba")
    stream.close()
    assert "".join(row["id"] for row in read_lines(tmp_path / "s.jsonl")) == "dcba"
