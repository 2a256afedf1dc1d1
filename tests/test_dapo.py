import json

import pyarrow
import pyarrow.parquet
import pytest

from rstar.dapo import AFTER, BEFORE, read_dapo
from rstar.errors import DataError


def row(question, answer):
    return {
        "data_source": "math_dapo",
        "prompt": [{"role": "user", "content": f"{BEFORE}\n\n{question}\n\n{AFTER}"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4-a1cb-49d1-8c1e-62eaf2f74079"},
    }


ROWS = [row("What is 2 + 2?", "4"), row("Find $x$.\n\nIt is odd.", "-7"), row("Twice?", "1")] * 3 + [row("Twice?", "2")]
ANSWERS = {"What is 2 + 2?": "4", "Find $x$.\n\nIt is odd.": "-7"}


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_each_problem_once_without_the_instruction(tmp_path, form):
    file = tmp_path / f"dapo.{form}"
    if form == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
    else:
        file.write_text("".join(json.dumps(one) + "\n" for one in ROWS))
    seen = []
    found = read_dapo(file, lambda: seen.append(1))
    assert (found.answers, found.ambiguous) == (ANSWERS, {"Twice?"})
    assert found.rows == len(seen) == 10


def test_prompts_may_be_plain_text(tmp_path):
    file = tmp_path / "dapo.jsonl"
    file.write_text(json.dumps({"prompt": "What is 2 + 2?", "reward_model": {"ground_truth": 4}}))
    assert read_dapo(file).answers == {"What is 2 + 2?": "4"}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"question": "q", "answer": "1"}, "2: expected columns 'prompt'"),
        (row("q", " "), "2: 'reward_model.ground_truth' must be a non-empty string or a number, got ' '"),
        (row("q", True), "must be a non-empty string or a number, got True"),
        (row("q", float("nan")), "must be a non-empty string or a number, got nan"),
        (row("", "1"), "2: 'prompt' has no question"),
        (
            {**row("q", "1"), "prompt": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "q"}]},
            r"2: expected columns 'prompt' \(one chat message",
        ),
        ("{", "2: not valid JSON"),
    ],
)
def test_rows_of_another_form_are_named(tmp_path, bad, message):
    file = tmp_path / "dapo.jsonl"
    file.write_text(json.dumps(ROWS[0]) + "\n" + (bad if isinstance(bad, str) else json.dumps(bad)) + "\n")
    with pytest.raises(DataError, match=message):
        read_dapo(file)


def test_an_empty_file_is_refused(tmp_path):
    file = tmp_path / "dapo.jsonl"
    file.write_text("")
    with pytest.raises(DataError, match="contains no problems"):
        read_dapo(file)
