"""The tables of docs/grading.md hold as the code stands."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from rstar.grading import grade

TEXT = (Path(__file__).parents[2] / "docs" / "grading.md").read_text(encoding="utf-8").replace("\\|", "|")
ITEM = r'(?:`[^`]*`|"[^"]*")'


def section(title: str) -> str:
    return TEXT.partition(f"## {title}")[2].partition("\n## ")[0]


def equal_pairs() -> list[tuple[str, str]]:
    chains = re.findall(rf"{ITEM}(?: = {ITEM})+", section("What is equal"))
    found = [pair for chain in chains for pair in pairwise(re.findall(ITEM, chain))]
    return [(a[1:-1], b[1:-1]) for a, b in found]


@pytest.mark.parametrize(("gold", "prediction"), equal_pairs())
def test_documented_equal_pairs(gold, prediction):
    assert grade(gold, prediction).outcome == "correct"
    assert grade(prediction, gold).outcome == "correct"


def test_docs_have_many_examples():
    assert len(equal_pairs()) > 80


@pytest.mark.parametrize(
    ("prediction", "gold"), re.findall(r"`([^`]*)` for `([^`]*)`", section("What is not equal, on purpose"))
)
def test_documented_unequal_pairs(prediction, gold):
    assert grade(gold, prediction).outcome in ("wrong", "unparseable")


@pytest.mark.parametrize(
    "row", re.findall(r"^\| .* \| (.*`) \| (.*) \|$", section("Where the answer is looked for"), re.M)
)
def test_documented_extraction(row):
    texts, answers = re.findall(r"`([^`]*)`", row[0]), row[1].replace("`", "").split(", ")
    if len(texts) != len(answers):
        answers = [row[1]] * len(texts)  # one answer for all, or one list
    for text, answer in zip(texts, answers, strict=True):
        assert grade(answer, text).correct, text
