"""Cases by class: a line is ``== GOLD ||| PREDICTION`` or ``!= GOLD ||| PREDICTION``; ``␤`` is a line break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rstar.grading import grade

FILES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


def cases(file: Path, sign: str) -> Iterator[tuple[str, str]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{sign} "):
            gold, prediction = (text.strip(" ").replace("␤", "\n") for text in line[3:].split("|||"))
            yield gold, prediction


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_near_misses_stay_unequal(file: Path) -> None:
    misses = list(cases(file, "!="))
    assert misses
    assert [miss for miss in misses if grade(*miss).correct] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_equal_answers_are_found_equal(file: Path) -> None:
    equals = list(cases(file, "=="))
    assert equals
    assert [case for case in equals if not grade(*case).correct] == []
