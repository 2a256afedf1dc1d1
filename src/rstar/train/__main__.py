"""``python -m rstar.train KIND RECIPE --data FILE … --out FOLDER``: a training as a process of its own.

It is what a program starts, by itself or with a launcher (`rstar.evolve.processes`); people have `rstar train`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rstar.errors import BAD_INPUT, ConfigError, DataError, RstarError
from rstar.train.command import Kind, run_training
from rstar.view.screen import visible


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; returns the exit status: 0 done, `BAD_INPUT` for what cannot be, 1 for any other failure."""
    parser = argparse.ArgumentParser(prog="python -m rstar.train", description="Train a model.", allow_abbrev=False)
    parser.add_argument("kind", choices=get_args(Kind), help="sft: a policy; ppm: a process preference model")
    parser.add_argument("recipe", type=Path, help="TOML file with the training settings")
    parser.add_argument(
        "--data", type=Path, action="append", required=True, help="data file; several are the stages of a curriculum"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the training; continued when it holds it")
    given = parser.parse_args(arguments)
    try:
        model = run_training(given.kind, given.recipe, given.data, given.out)
    except RstarError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, ConfigError | DataError) else 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    if model is not None:
        print(f"model written to {visible(str(model))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
