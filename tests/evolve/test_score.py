"""Measuring preference models."""

import asyncio
import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import DataError
from rstar.evals.metrics import clustered_wilson, wilson
from rstar.evolve import score
from rstar.evolve.score import choices, pair_accuracy, read_candidates
from rstar.models.decoder_files import copy_tokenizer, load_decoder
from rstar.models.ppm.inputs import Piece
from rstar.models.ppm.model import PreferenceModel, save_ppm
from rstar.trajectories import Segment, Step

TINY = Path(str(files("rstar") / "tiny" / "weights"))
SHOWN = "\n<output>{0}<end_of_output>\n<answer>\\boxed{{{0}}}<end_of_answer>"
ROOT = {"parent": -1, "visits": 1, "q": 0.0, "value": None, "votes": 1, "finish": None, "answer": None}


@pytest.fixture(scope="module")
def ppm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PPM that nobody has trained."""
    folder = tmp_path_factory.mktemp("ppm")
    save_ppm(PreferenceModel(load_decoder(TINY), ("logprobs", "numbers")), folder)
    copy_tokenizer(TINY, folder)
    return folder


def step(text: str, logprob: float, shown: str = "") -> dict[str, Any]:
    """The record of a step."""
    after = (Segment(shown, "tool"),) if shown else ()
    return Step((Segment(text, "policy", (), (logprob,)), *after), "ok").to_json(tokens=True)


def run(folder: Path, *problems: list[tuple[str, str, bool, float]]) -> Path:
    """A run of problems with solutions (text, answer, whether it is right, log-probability)."""
    folder.mkdir()
    with (folder / "results.jsonl").open("w") as results, (folder / "trees.jsonl").open("w") as trees:
        for number, solutions in enumerate(problems):
            rows = [{"answer": answer, "correct": right} for _, answer, right, _ in solutions]
            record = {"id": str(number), "question": "What is 3 + 4?", "trajectories": rows, "correct": False}
            nodes = [
                ROOT | {"parent": 0, "finish": "answer", "answer": answer} | step(text, logprob, SHOWN.format(answer))
                for text, answer, _, logprob in solutions
            ]
            results.write(json.dumps(record) + "\n")
            line = {"id": str(number), "prompt": {"author": "template", "text": "Q"}, "nodes": [ROOT, *nodes]}
            trees.write(json.dumps(line) + "\n")
    return folder


WRONG_MAJORITY = [("a", "8", False, -3.0), ("b", "8.0", False, -3.0), ("c", "7", True, -0.1), ("c", "7", True, -0.1)]


def pairs_file(file: Path, n: int = 6) -> Path:
    texts = ("x = 3 + 4\n", "x = 3 + 5\n", "x = 4\n")
    nodes = [{"parent": -1, "q": 0, **step(text, -1.0 * k)} for k, text in enumerate(texts)]
    steps = [{"kind": "final", "pairs": [[0, 1], [0, 2]]}, {"kind": "step", "pairs": [[1, 2]]}]
    file.write_text(
        "".join(json.dumps({"prompt": f"{k} 3 4\n", "nodes": nodes, "steps": steps}) + "\n" for k in range(n))
    )
    return file


def test_candidates_of_a_run(tmp_path):
    ((question, solutions),) = read_candidates(run(tmp_path / "run", WRONG_MAJORITY))
    assert question == "What is 3 + 4?"
    assert [one.correct for one in solutions] == [False, False, True, True]
    assert solutions[0].pieces == [Piece("a", "written", (-3.0,)), Piece(SHOWN.format("8"), "shown")]
    assert solutions[2].logprob == -0.1


def test_choosers(tmp_path, ppm, monkeypatch):
    folder = run(tmp_path / "run", WRONG_MAJORITY, [("x", "1", False, -1.0)], [])
    monkeypatch.setattr(
        score, "_ppm_logits", lambda problems, ppm: [[9.0, 0.0, 0.0, 1.0][: len(s)] for _, s in problems]
    )
    found = {one.name: one for one in choices(folder, [ppm])}
    assert {one.n for one in found.values()} == {3}
    assert found["oracle (any correct)"].accuracy == pytest.approx(1 / 3)
    assert found["majority"].accuracy == 0  # 8 and 8.0 are one answer, and come first
    assert found["random distinct solution"].accuracy == pytest.approx(1 / 9)  # equal texts count once
    assert found["log-probability: best"].accuracy == pytest.approx(1 / 3)
    assert found["log-probability: weighted majority"].accuracy == pytest.approx(1 / 3)
    assert found[f"PPM {ppm}: best"].accuracy == 0
    assert found["majority"].p is None
    assert found["log-probability: best"].p == 1.0


def test_votes_are_weighed():
    _, solutions = "", [score.Candidate([], answer, 1, answer == "7") for answer in ("8", "8", "7")]
    (groups,) = asyncio.run(score._grouped([solutions]))
    assert [group.answer for group in groups] == ["8", "8", "7"]
    assert score._vote(solutions, groups, [0.0, 0.0, math.log(1.9)]) == 0
    assert score._vote(solutions, groups, [0.0, 0.0, math.log(2.1)]) == 1


def test_a_regression_is_fitted_and_used(tmp_path, ppm):
    found = choices(run(tmp_path / "run", WRONG_MAJORITY), [ppm], pairs_file(tmp_path / "pairs.jsonl"))
    names = [one.name for one in found]
    assert "regression on simple features: best" in names
    assert f"PPM {ppm}: weighted majority" in names
    by = {one.name: one.accuracy for one in found}
    assert by["regression on simple features: best"] == 1.0  # the file prefers what is probable
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="no pairs of whole solutions"):
        choices(tmp_path / "run", [], tmp_path / "empty.jsonl")


def test_accuracy_and_calibration():
    problems = [[0.1, -0.2, 0.3, 1.0, -1.1, 1.2, 1.3, 2.0]] * 4
    found = score._accuracy("step", problems)
    assert (found.n, found.problems, found.right) == (32, 4, 24)
    assert sum(one.n for one in found.bins) == 32
    assert [one.confidence for one in found.bins] == sorted(one.confidence for one in found.bins)
    assert found.bins[-1].accuracy == 1.0
    assert found.bins[0].confidence == pytest.approx(1 / (1 + math.exp(-0.1)))


def test_pairs_of_one_problem_are_not_independent():
    one_each = score._accuracy("step", [[1.0]] * 30 + [[-1.0]] * 10)
    ten_each = score._accuracy("step", [[1.0] * 10] * 30 + [[-1.0] * 10] * 10)
    assert ten_each.n == 10 * one_each.n
    assert (ten_each.low, ten_each.high) == pytest.approx((one_each.low, one_each.high))
    assert ten_each.low < wilson(300, 400)[0]


def test_pairs_are_counted_by_line_of_the_file(tmp_path, ppm, monkeypatch):
    def scores(model, lines):
        for number, line in enumerate(lines):
            for one in line.comparisons:
                yield from [(one.kind, 1.0 if number % 4 else -1.0)] * len(one.pairs)

    monkeypatch.setattr(score, "pair_scores", scores)
    final, step = pair_accuracy(ppm, pairs_file(tmp_path / "pairs.jsonl", n=40))
    assert (final.n, final.problems, final.right) == (80, 40, 60)
    assert (final.low, final.high) == (step.low, step.high) == clustered_wilson([(1, 1)] * 30 + [(0, 1)] * 10)


def test_accuracy_of_a_file(tmp_path, ppm):
    final, step = pair_accuracy(ppm, pairs_file(tmp_path / "pairs.jsonl"))
    assert (final.kind, final.n, step.kind, step.n) == ("final", 12, "step", 6)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="contains no pairs"):
        pair_accuracy(ppm, tmp_path / "empty.jsonl")


def test_runs_that_say_too_little_are_named(tmp_path, ppm):
    folder = run(tmp_path / "run", WRONG_MAJORITY)
    lines = [json.loads(line) for line in (folder / "trees.jsonl").read_text().splitlines()]
    for node in lines[0]["nodes"][1:]:
        del node["segments"][0]["logprobs"]
    (folder / "trees.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match="record_tokens"):
        choices(folder, [ppm])
    with pytest.raises(DataError, match=r"results\.jsonl is missing"):
        choices(tmp_path, [ppm])


def test_the_command(tmp_path, ppm):
    def call(*args: Any) -> Any:
        return CliRunner().invoke(app, ["evolve", "score", *map(str, args)])

    pairs, folder = pairs_file(tmp_path / "pairs.jsonl"), run(tmp_path / "run", WRONG_MAJORITY)
    shown = call(ppm, "--pairs", pairs, "--run", folder)
    assert shown.exit_code == 0, shown.output
    assert "final" in shown.stdout
    assert "random distinct" in shown.stdout
    plain = json.loads(call(ppm, "--pairs", pairs, "--json").stdout)
    assert plain["pairs"][str(ppm)][0]["n"] == 12
    assert call(ppm).exit_code != 0
