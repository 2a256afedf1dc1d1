"""Where a recipe's problems come from: a file, or draws from the families of the bundled model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from rstar.sections import Section
from rstar.tiny.family import Split
from rstar.tiny.generate import draw_set, write_set

ProgressBar = Callable[[int, str], AbstractContextManager[Callable[..., None]]]
"""Opens a progress bar of a total and a title; yields a function that advances it by a number, with a note."""


class ProblemSource(Section):
    """Source of problems: a file, or draws from the families of the bundled model."""

    file: Path | None = Field(
        None, description="problem file with gold answers; cannot be combined with the settings below"
    )
    n: int | None = Field(None, ge=1, description="number of problems to draw")
    seed: int = Field(0, ge=0, description="seed for drawing the problems")
    levels: str = Field("1-5", description="difficulty levels, such as 3 or 1-5")
    family: list[str] = Field([], description="families, or kinds of families, to draw from; empty: all")
    split: Split = Field(
        "train", description="train | numbers (held-out numbers) | templates (held-out numbers and templates)"
    )

    @field_validator("levels", mode="before")
    @classmethod
    def _one_level(cls, value: Any) -> Any:
        return str(value) if type(value) is int else value

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Self:
        if (self.file is None) == (self.n is None):
            raise ValueError("set either `file`, or `n` to draw that many problems")
        if self.file is not None and (others := sorted(self.model_fields_set - {"file"})):
            raise ValueError(f"{', '.join(others)}: only for drawn problems, not with `file`")
        return self


def draw_file(source: ProblemSource, file: Path, bar: ProgressBar, *, solutions: bool = False) -> Path:
    """Write the problems of a drawn source to `file`, unless it exists; `solutions` adds reference solutions."""
    if not file.exists():
        assert source.n is not None, "a source of drawn problems"
        drawing = draw_set(source.n, source.seed, source.split, source.levels, source.family)
        with bar(source.n, f"drawing {file.name}") as advance:
            for _ in write_set(file, drawing, solutions):
                advance(1)
    return file
