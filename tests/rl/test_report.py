"""The page and the table of a training run."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import DataError
from rstar.rl.report import evaluations_table, is_training, read_evaluations, report

EVALUATION = {
    "mean": 0.25, "pass@4": 0.5, "calls": 1.234, "error_share": 0.5, "error_share_right": 0.25, "response_tokens": 300,
    "unfinished": 0.1,
}  # fmt: skip
STEP = {"reward": 0.125, "entropy": 0.5, "calls": 1.0, "turns": 2.0, "error_share": 0.75, "seconds": 9.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evaluations.jsonl").write_text(
        "".join(json.dumps({"step": step, **EVALUATION, "mean": 0.25 + step / 20}) + "\n" for step in (0, 2))
    )
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps({"step": step, **STEP}) + "\n" for step in (1, 2)))
    return tmp_path


def test_the_page_has_a_curve_for_what_was_measured(folder: Path) -> None:
    page = report(folder)
    accuracy, *others = page.split("<svg")[1:]
    assert [name for name in ("mean", "pass@4") if f">{name}</text>" in accuracy] == ["mean", "pass@4"]
    failed = next(chart for chart in others if "Failed tool calls" in chart)
    assert failed.count('fill="none"') == 1, "a curve, and none for what was not measured"
    assert "<td>35.0%</td><td>50.0%</td><td>1.23</td><td>50%</td><td>25%</td><td>300</td><td>10%</td>" in page


def test_what_was_not_measured_is_left_empty(tmp_path: Path) -> None:
    line = {name: value for name, value in EVALUATION.items() if name != "error_share_right"}
    (tmp_path / "evaluations.jsonl").write_text(json.dumps({"step": 0, **line}) + "\n")
    assert "<td>50%</td><td></td><td>300</td>" in report(tmp_path)


def test_view_shows_the_evaluations(folder: Path, tmp_path: Path) -> None:
    assert is_training(folder)
    assert len(evaluations_table(read_evaluations(folder)).rows) == 2
    done = CliRunner().invoke(app, ["view", str(folder)])
    assert "35.0%" in done.output
    assert "report.html" in done.output
    done = CliRunner().invoke(app, ["view", str(folder), "--json"])
    assert [line["step"] for line in json.loads(done.output)["evaluations"]] == [0, 2]
    done = CliRunner().invoke(app, ["view", str(folder), "p"])
    assert "no search trees" in str(done.exception)


def test_view_draws_the_curves(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["view", str(folder), "--png", str(tmp_path / "curves.png")])
    assert done.exit_code == 0, done.output
    assert "curves.png" in done.output
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "other").mkdir()
    done = CliRunner().invoke(app, ["view", str(tmp_path / "other"), "--png", str(tmp_path / "curves.png")])
    assert "it has no curves to draw" in str(done.exception)


def test_damaged_files_are_named(folder: Path) -> None:
    (folder / "evaluations.jsonl").write_text('{"step": 0}\n{"st')
    with pytest.raises(DataError, match=r"evaluations\.jsonl:1: not an evaluation"):
        report(folder)
