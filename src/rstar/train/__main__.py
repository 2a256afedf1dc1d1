"""``python -m rstar.train KIND RECIPE --data FILE … --out FOLDER``: training in a separate process.

Programs start it, directly or by a launcher (`rstar.evolve.processes`); users have `rstar train`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rstar.errors import BAD_INPUT, ConfigError, DataError, RstarError
from rstar.models.spec import local_extra
from rstar.view.screen import visible


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; returns the exit status: 0 done, `BAD_INPUT` for invalid settings or data, 1 for other failures."""
    parser = argparse.ArgumentParser(prog="python -m rstar.train", description="Train a model.", allow_abbrev=False)
    parser.add_argument("kind", choices=("sft", "ppm"), help="sft: a policy; ppm: a process preference model")
    parser.add_argument("recipe", type=Path, help="TOML file with the training settings")
    parser.add_argument(
        "--data", type=Path, action="append", required=True, help="data file; several are the stages of a curriculum"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the training; continued when it holds it")
    options = parser.parse_args(arguments)
    try:
        with local_extra("training"):
            from rstar.train.command import run_training
        model = run_training(options.kind, options.recipe, options.data, options.out)
    except RstarError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, ConfigError | DataError) else 1
    except KeyboardInterrupt:  # the program that started this one says so
        return 130
    if model is not None:
        print(f"model written to {visible(str(model))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
