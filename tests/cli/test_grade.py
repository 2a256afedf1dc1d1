"""``rstar grade`` as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rstar.cli.app import app
from rstar.errors import ConfigError, DataError


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["grade", *map(str, arguments)])


def lines(file: Path, *entries: object) -> Path:
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return file


def test_two_answers() -> None:
    right = run(r"\frac12", "The answer is 0.5.", "--explain")
    assert right.exit_code == 0
    assert right.stdout.splitlines() == [
        "correct", "why    equal: constant and number", r"gold   \frac12", "answer 0.5",
    ]  # fmt: skip
    wrong = run("5", "6")
    assert (wrong.exit_code, wrong.stdout) == (1, "wrong\n")
    assert run("", "5").stdout == "error\nwhy    the gold answer: nothing that can be read\n"
    assert json.loads(run("5", "", "--json").stdout)["outcome"] == "unparseable"
    assert run("-5", "- 5").exit_code == run("--", "5", "5").exit_code == 0


def test_a_file_of_pairs(tmp_path: Path) -> None:
    pairs = lines(
        tmp_path / "pairs.jsonl",
        {"id": "a", "gold": "5", "pred": r"\boxed{5}"},
        {"gold": "5", "pred": "6"},
        {"id": 7, "gold": "5", "pred": None},
    )
    out = tmp_path / "verdicts.jsonl"
    done = run("--file", pairs, "--out", out)
    assert done.exit_code == 0
    assert "3 pairs: 1 correct, 1 wrong, 1 unparseable" in done.stdout
    verdicts = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["id"], one["outcome"]) for one in verdicts] == [("a", "correct"), (2, "wrong"), (7, "unparseable")]
    assert (verdicts[1]["gold"], verdicts[1]["pred"]) == ("5", "6")
    assert isinstance(run("--file", pairs, "--out", out).exception, ConfigError)
    assert json.loads(run("--file", pairs, "--json").stdout) == {
        "pairs": 3, "correct": 1, "wrong": 1, "unparseable": 1, "timeout": 0, "error": 0, "accuracy": 0.3333,
    }  # fmt: skip


def test_bad_pairs_are_named_before_any_is_graded(tmp_path: Path) -> None:
    pairs = lines(tmp_path / "pairs.jsonl", {"gold": 5, "pred": "5"}, {"gold": None, "pred": "5"}, {"gold": "5"}, [])
    out = tmp_path / "out.jsonl"
    error = run("--file", pairs, "--out", out).exception
    assert isinstance(error, DataError)
    assert [f"{pairs}:{number}: " in str(error) for number in (1, 2, 3, 4)] == [False, True, True, True]
    assert not out.exists()


def test_golds_of_a_data_set(tmp_path: Path) -> None:
    good = lines(tmp_path / "good.jsonl", {"answer": "#### 18"}, {"final_answer": ["2", "3"]}, {"answer": r"\text{no}"})
    done = run("--check-golds", good)
    assert done.exit_code == 0
    assert "3 gold answers: 1 number, 1 expression, 1 words" in done.stdout
    bad = lines(tmp_path / "bad.jsonl", {"id": "x1", "answer": " "}, {"answer": "5"})
    done = run("--check-golds", bad, "--json")
    assert done.exit_code == 1
    assert [row["id"] for row in json.loads(done.stdout)["not_gradeable"]] == ["x1"]
    assert "x1" in run("--check-golds", bad).stdout


def test_an_entry_without_a_gold(tmp_path: Path) -> None:
    done = run("--check-golds", lines(tmp_path / "none.jsonl", {"question": "?"}, {"Answer": 5}), "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["kinds"] == {"missing": 1, "number": 1}
    assert "looked for answer, final_answer" in found["not_gradeable"][0]["reason"]


def test_golds_that_cannot_be_read(tmp_path: Path) -> None:
    golds = lines(
        tmp_path / "golds.jsonl", {"answer": "?"}, {"answer": "1/0"}, {"solution": r"$\boxed 9$"}, {"answer": 3}
    )
    done = run("--check-golds", golds, "--json")
    assert [row["gold"] for row in json.loads(done.stdout)["not_gradeable"]] == ["?", "1/0"]


def test_where_verdicts_go(tmp_path: Path) -> None:
    pairs = lines(tmp_path / "pairs.jsonl", {"id": "\ud800", "gold": "5", "pred": "5"})
    out = tmp_path / "verdicts.jsonl"
    assert run("--file", pairs, "--out", out).exit_code == 0
    assert json.loads(out.read_text())["outcome"] == "correct"
    for place in (tmp_path / "none" / "x.jsonl", tmp_path):
        assert isinstance(run("--file", pairs, "--out", place).exception, ConfigError)
    assert isinstance(run("--file", lines(tmp_path / "empty.jsonl")).exception, DataError)


def test_pairs_from_standard_input() -> None:
    command = [sys.executable, "-m", "rstar", "grade", "--file", "-", "--json"]
    done = subprocess.run(
        command, input=json.dumps({"gold": "5", "pred": "5"}), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["correct"] == 1


@pytest.mark.parametrize("arguments", [(), ("5",), ("5", "5", "--file", __file__), ("5", "5", "--out", "x")])
def test_inputs_are_mutually_exclusive(arguments: tuple[str, ...]) -> None:
    assert isinstance(run(*arguments).exception, ConfigError)


def test_unknown_option() -> None:
    assert (run("5", "--exlpain").exit_code, run("5", "5", "--exlpain").exit_code) == (1, 2)
    assert isinstance(run("5", "--exlpain").exception, ConfigError)
