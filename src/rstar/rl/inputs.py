"""What a training reads: its problems, and the files by which a resumed run is known as the same."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from rstar.datasets import ProblemSet
from rstar.errors import DataError
from rstar.evals.run import read_source
from rstar.models.spec import fingerprint, is_local, local_folder
from rstar.rl.settings import RLConfig
from rstar.tiny.source import ProgressBar


def identity_of(config: RLConfig) -> dict[str, Any]:
    """Settings and contents of files that decide the results. Raises `DataError` for a missing file."""
    assert is_local(config.policy)
    identity = config.identity() | {"policy": fingerprint(local_folder(config.policy))}
    sources = {f"stage{number}.problems": stage.problems for number, stage in enumerate(config.stages, 1)}
    for name, source in (sources | {"problems": config.problems, "held_out": config.held_out}).items():
        if source is not None and source.file is not None:
            if not source.file.is_file():
                raise DataError(f"{name}.file: no file {source.file}")
            identity[name] = {"sha256": _digest(source.file)}
    if config.stored is not None:
        identity["stored"] = {"sha256": _digest(config.stored)}
    return identity


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def training_problems(config: RLConfig, folder: Path, bar: ProgressBar) -> list[ProblemSet]:
    """The problems of each stage; stages without their own have those of the recipe.

    Raises:
        DataError: a problem has an invalid check, or lacks a gold answer that its reward needs.
    """
    gold = config.reward == "verified"
    common = read_source(config.problems, folder / "problems.jsonl", bar, gold=gold)
    return [
        common if stage.problems is None else read_source(stage.problems, folder / f"problems{n}.jsonl", bar, gold=gold)
        for n, stage in enumerate(config.stages, 1)
    ]
