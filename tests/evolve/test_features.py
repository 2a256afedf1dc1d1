"""Simple features, and a regression on pairs."""

import json

import numpy as np
import pytest

from rstar.evolve.features import features, fit, named_features, pairs_of
from rstar.models.ppm.inputs import Piece
from rstar.trajectories import Segment, Step

QUESTION = "Maya saves 19 a week for 8 weeks and begins with 96."
GOOD = Piece("x = 19 * 8\n<end_of_step>", "written", (-0.1, -0.3))
END = Piece("print(x + 96)\n<end_of_code>", "written", (-0.2,))
SHOWN = Piece("\n<output>248<end_of_output>\n<answer>\\boxed{248}<end_of_answer>")


def named(question, pieces):
    return named_features(question, pieces)


def test_what_they_say():
    found = named(QUESTION, [GOOD, END, SHOWN])
    assert found["sum of log-probabilities"] == pytest.approx(-0.6)
    assert found["mean log-probability"] == pytest.approx(-0.2)
    assert found["least log-probability"] == -0.3
    assert found["least mean log-probability of a piece"] == pytest.approx(-0.2)
    assert (found["tokens"], found["steps"]) == (0.03, 2)
    assert found["numbers that are not in the question"] == 0
    assert found["numbers of the question that are not used"] == 0
    assert found["answer is no whole number"] == found["answer is negative"] == 0


def test_copies_that_went_wrong():
    found = named(QUESTION, [Piece("x = 18 * 8 * 8", "written", (-1.0,)), Piece("\\boxed{-1152.5}", "written")])
    assert found["numbers that are not in the question"] == 2  # 18, and 1152.5 which is no output
    assert found["numbers of the question that are not used"] == 2
    assert found["number of the question used more than once"] == 1
    assert found["answer is no whole number"] == found["answer is negative"] == 1
    assert found["answer is longer than five characters"] == 1


def test_percent_is_use():
    assert (
        named("25% of 80", [Piece("x = 80 * 0.25", "written", (-1.0,))])["numbers of the question that are not used"]
        == 0
    )


def test_nothing_written_yet():
    assert np.isfinite(features(QUESTION, [])).all()


def test_the_regression_finds_what_made_the_pairs():
    rng = np.random.default_rng(1)
    truth = np.asarray([2.0, -1.0, 0.0])
    a, b = rng.normal(size=(2, 20_000, 3)) * [1.0, 5.0, 0.1]
    better = rng.random(20_000) < 1 / (1 + np.exp(-(a - b) @ truth))
    first, second = np.where(better[:, None], a, b), np.where(better[:, None], b, a)
    assert fit(first, second, decay=0.0) == pytest.approx(truth, abs=0.35)
    constant = np.concatenate([a, np.ones((20_000, 1))], axis=1)
    assert np.isfinite(fit(constant, constant[::-1])).all()


def test_pairs_of_a_file(tmp_path):
    steps = [
        Step((Segment(GOOD.text, "policy", (), GOOD.logprobs),)),
        Step((Segment(END.text, "policy", (), END.logprobs), Segment(SHOWN.text, "tool"))),
        Step((Segment("print(x)\n", "policy"),)),
    ]
    places = zip((-1, 0, 0), (1, 1, -1), steps, strict=True)
    nodes = [{"parent": parent, "q": q, **step.to_json(tokens=True)} for parent, q, step in places]
    compared = [{"kind": "final", "pairs": [[1, 2]]}, {"kind": "step", "pairs": [[0, 2], [0, 1]]}]
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps({"prompt": QUESTION, "nodes": nodes, "steps": compared}) + "\n")
    ((better, other),) = pairs_of(file, "final")
    assert (better == features(QUESTION, [GOOD, END, SHOWN])).all()
    assert (other == features(QUESTION, [GOOD, Piece("print(x)\n", "written")])).all()
    assert len(list(pairs_of(file, "step"))) == 2
