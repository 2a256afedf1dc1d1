import sys

import pyarrow
import pyarrow.parquet
import pytest

from rstar.datasets import read_problems
from rstar.entries import read_entries
from rstar.errors import ConfigError, DataError

ROWS = [
    {"prompt": [{"role": "user", "content": f"What is {n} + 1?"}], "reward_model": {"ground_truth": str(n + 1)}}
    for n in range(3000)
]


def test_parquet_has_the_entries_of_its_rows_with_their_places(tmp_path):
    file = tmp_path / "problems.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), file, row_group_size=700)
    entries = list(read_entries(file))
    assert [entry for _, entry in entries] == ROWS
    assert [where for where, _ in entries] == [f"{file}: row {n}" for n in range(1, 3001)]
    found = read_problems(file)
    assert (found.problems[7].question, found.keys["7"].answer) == ("What is 7 + 1?", "8")


def test_parquet_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    file = tmp_path / "problems.parquet"
    with pytest.raises(DataError, match=r"cannot read .*problems\.parquet"):
        list(read_entries(file))
    file.write_text("no parquet")
    with pytest.raises(DataError, match=r"problems\.parquet: not readable as Parquet"):
        list(read_entries(file))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"needs pyarrow; install rstar\[parquet\]"):
        list(read_entries(file))
