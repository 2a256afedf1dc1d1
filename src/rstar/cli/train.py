"""``rstar train``: training models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rstar.cli.common import console, progress

if TYPE_CHECKING:
    from rstar.train.loop import Progress

app = typer.Typer(no_args_is_help=True, help="Train models.")


@app.command("sft")
def sft(
    recipe: Annotated[Path, typer.Argument(help="TOML file with the training settings.", exists=True, dir_okay=False)],
    data: Annotated[
        list[Path],
        typer.Option(
            help="JSONL file with `pieces`, as `rstar problems make --solutions` writes; "
            "several are the stages of a curriculum, in this order."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of this training; continued when it holds this one.")],
) -> None:
    """Train a policy on solutions: from nothing (tokenizer and all), or from the model that the recipe names.

    The finished model is an ordinary transformers folder, `OUT/model`. An interrupted training goes on from its last
    checkpoint and ends with the same weights.

    Example: `rstar train sft recipes/tiny/sft.toml --data train.jsonl --out runs/tiny-sft`
    """
    from rstar.train.settings import TrainConfig, read_train_config  # torch is imported only when something is trained
    from rstar.train.sft import train_sft

    config = read_train_config(recipe, TrainConfig)
    with _reported() as report:
        model = train_sft(config, data, out, report)
    console().print(f"model written to [bold]{escape(str(model))}[/]", highlight=False)


@app.command("ppm")
def ppm(
    recipe: Annotated[
        Path,
        typer.Argument(help="TOML file with the training settings; `base` is the policy.", exists=True, dir_okay=False),
    ],
    data: Annotated[list[Path], typer.Option(help="pairs.jsonl, as `rstar evolve extract` writes it.")],
    out: Annotated[Path, typer.Option(help="Folder of this training; continued when it holds this one.")],
) -> None:
    """Train a process preference model: the policy's backbone with a scalar head, on pairs of steps.

    The finished model is a transformers folder, `OUT/model`: a sequence classifier of one label.

    Example: `rstar train ppm ppm.toml --data runs/round1/data/pairs.jsonl --out runs/round1/ppm`
    """
    from rstar.train.ppm import PPMConfig, train_ppm
    from rstar.train.settings import read_train_config

    config = read_train_config(recipe, PPMConfig)
    with _reported() as report:
        model = train_ppm(config, data, out, report)
    console().print(f"model written to [bold]{escape(str(model))}[/]", highlight=False)


@contextmanager
def _reported() -> Iterator[Callable[[Progress], None]]:
    """A progress bar for the steps of a training."""
    done = 0
    with progress(1, "training") as advance:

        def report(state: Progress) -> None:
            nonlocal done
            note = f"loss {state.loss:.3f}, {state.tokens_per_second:,.0f} tokens/s"
            advance(state.step - done, note, total=state.steps)
            done = state.step

        yield report
