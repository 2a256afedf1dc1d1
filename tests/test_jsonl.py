"""Files of records: what a line holds, what is torn or damaged, what is cut and put into order."""

import json
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import DataError
from rstar.jsonl import (
    RecordFile,
    atomic_write,
    decode_line,
    encode_line,
    read_lines,
    write_json,
    write_lines,
    write_new,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(codec=None)), VALUES, max_size=4))
def test_a_record_is_one_line_and_comes_back(record: dict[str, object]) -> None:
    line = encode_line(record)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_line(line) == json.loads(line) == record


def test_lines_are_json_objects(tmp_path: Path) -> None:
    records = RecordFile(tmp_path / "s.jsonl")
    records.append({"id": "a", "text": "two\nlines"})
    records.close()
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
    with suppress(KeyError), atomic_write(file) as out:
        out.write(b"half of it")
        raise KeyError
    assert [row["id"] for row in read_lines(file)] == [1, 2]
    assert list(tmp_path.iterdir()) == [file], "no part of the others is left"


def test_a_new_file_replaces_no_other(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    for text, kept in ((b"one", b"one"), (b"one", b"one"), (b"other", b"one")):
        with (
            pytest.raises(DataError, match=r"s\.jsonl exists") if text != kept else nullcontext(),
            write_new(file) as out,
        ):
            out.write(text)
        assert file.read_bytes() == kept
        assert list(tmp_path.iterdir()) == [file]


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
        RecordFile(file)


def test_a_torn_last_line_is_passed_over_and_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b'{"id": "a"}\n{"id": "b", "tex')
    assert [row["id"] for row in read_lines(file)] == ["a"]
    records = RecordFile(file)
    assert records.keys == {"a"}
    assert file.stat().st_size > 12, "opening changes nothing"
    records.append({"id": "c"})
    records.close()
    assert file.read_bytes() == b'{"id": "a"}\n{"id":"c"}\n'


def test_records_may_have_another_key(tmp_path: Path) -> None:
    records = RecordFile(tmp_path / "s.jsonl", key="round")
    records.append({"round": 3})
    assert RecordFile(tmp_path / "s.jsonl", key="round").keys == {3}
    assert list(records) == [{"round": 3}]
    records.close()


def filled(file: Path, names: str) -> RecordFile:
    records = RecordFile(file)
    for name in names:
        records.append({"id": name})
    return records


def test_a_record_file_is_empty_before_its_first_record(tmp_path: Path) -> None:
    records = RecordFile(tmp_path / "s.jsonl")
    assert list(records) == []
    records.reorder("ab")
    records.close()
    assert not (tmp_path / "s.jsonl").exists()


def test_what_is_cut_is_gone_with_the_next_record(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    filled(file, "abcd").close()
    before = file.read_bytes()
    records = RecordFile(file)
    records.cut("ac".__contains__)
    assert records.keys == {"a", "b", "c"}, "only from the end, as far as the first that is kept"
    assert file.read_bytes() == before
    records.append({"id": "e"})
    assert [row["id"] for row in records] == ["a", "b", "c", "e"]
    records.close()


@pytest.mark.parametrize("kept", ["", "abcd"])
def test_all_or_nothing_may_be_cut(tmp_path: Path, kept: str) -> None:
    file = tmp_path / "s.jsonl"
    filled(file, "abcd").close()
    records = RecordFile(file)
    records.cut(kept.__contains__)
    assert records.keys == set(kept)
    records.append({"id": "e"})
    records.close()
    assert "".join(row["id"] for row in read_lines(file)) == f"{kept}e"


def test_what_is_cut_can_be_written_again_while_the_file_is_open(tmp_path: Path) -> None:
    records = filled(tmp_path / "s.jsonl", "abc")
    records.cut("a".__contains__)
    records.append({"id": "b", "again": True})
    records.close()
    assert list(read_lines(tmp_path / "s.jsonl")) == [{"id": "a"}, {"id": "b", "again": True}]


@given(st.permutations("abcde"), st.permutations("abcde"), st.integers(0, 5))
def test_an_order_is_that_of_the_keys(
    tmp_path_factory: pytest.TempPathFactory, written: list[str], order: list[str], n: int
) -> None:
    file = tmp_path_factory.mktemp("s") / "s.jsonl"
    records = filled(file, "".join(written[:n]))
    records.reorder(order)
    assert [row["id"] for row in records] == [name for name in order if name in written[:n]]
    assert records.keys == set(written[:n])


def test_a_record_file_goes_on_after_it_was_put_into_order(tmp_path: Path) -> None:
    records = filled(tmp_path / "s.jsonl", "cab")
    records.reorder("abc")
    records.append({"id": "d", "text": "x" * 50})
    records.reorder("dcba")
    records.close()
    assert "".join(row["id"] for row in read_lines(tmp_path / "s.jsonl")) == "dcba"
