"""Trainings of tests end without a picture, which takes longer to draw than most of them take."""

import pytest


@pytest.fixture(autouse=True)
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rstar.rl.evaluation.can_draw", lambda: False)
