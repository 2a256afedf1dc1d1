"""``rstar train``: train models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rstar.cli.common import AsJson, Overrides, console, print_settings

if TYPE_CHECKING:
    from rstar.train.command import Kind

Out = Annotated[Path, typer.Option(help="Training folder. If it already holds a training run, that run is resumed.")]
Wandb = Annotated[
    str | None, typer.Option(help="Weights & Biases project that also receives the metrics.", show_default=False)
]

app = typer.Typer(no_args_is_help=True, help="Train models.")


@app.command("sft")
def sft(
    recipe: Annotated[Path, typer.Argument(help="TOML file with the training settings.", exists=True, dir_okay=False)],
    data: Annotated[
        list[Path],
        typer.Option(
            help="JSONL file of training solutions, as written by `rstar problems make --solutions` (objects with a "
            "field `pieces`). For a curriculum, repeat the option, one file per stage, in order."
        ),
    ],
    out: Out,
    set_: Overrides = None,
    wandb: Wandb = None,
) -> None:
    """Train a policy on solutions, either from scratch (including its tokenizer) or from the recipe's `base`.

    The finished model is in the folder `OUT/model`, in Hugging Face Transformers format. To resume an interrupted run,
    repeat the command: training continues from the last checkpoint and ends with the same weights as without the
    interruption. Metrics are in `OUT/metrics.jsonl`, and in `OUT/tensorboard` for TensorBoard.

    Under a launcher, several processes (such as one per GPU) share the model and the data. The number of processes may
    change on resume. The number of micro-batches in a step, `batch_tokens / micro_tokens`, should be a multiple of the
    number of processes.

    To list the settings of a recipe, run `rstar train settings`.

    Example: `rstar train sft recipes/tiny/sft.toml --data train.jsonl --out runs/tiny-sft`

    On 8 GPUs: `torchrun --nproc-per-node 8 -m rstar train sft RECIPE --data train.jsonl --out OUT` (or `accelerate
    launch --num_processes 8 -m rstar train sft …`). With several machines, OUT must be on a file system that all of
    them share.
    """
    _train("sft", recipe, data, out, set_, wandb)


@app.command("ppm")
def ppm(
    recipe: Annotated[
        Path,
        typer.Argument(
            help="TOML file with the training settings; its `base` is the policy.", exists=True, dir_okay=False
        ),
    ],
    data: Annotated[list[Path], typer.Option(help="pairs.jsonl, as written by `rstar evolve extract`.")],
    out: Out,
    set_: Overrides = None,
    wandb: Wandb = None,
) -> None:
    """Train a process preference model, the policy's backbone with a scalar head, on pairs of steps.

    The finished model is the folder `OUT/model`, in Hugging Face Transformers format: a sequence classifier with one
    label. Resuming, metrics and several processes work as in `rstar train sft`. `rstar train settings` lists the
    settings of a recipe.

    Example: `rstar train ppm ppm.toml --data runs/round1/data/pairs.jsonl --out runs/round1/ppm`
    """
    _train("ppm", recipe, data, out, set_, wandb)


@app.command("settings")
def settings(as_json: AsJson = False) -> None:
    """List the settings of a training recipe with their defaults.

    Give settings in the recipe, a TOML file with one table per group, or with `--set`. The settings `inputs` and
    `target` are for `rstar train ppm` only.
    """
    from rstar.train.ppm import PPMConfig

    print_settings(PPMConfig, as_json)


def _train(
    kind: Kind, recipe: Path, data: Sequence[Path], out: Path, overrides: Sequence[str] | None, wandb: str | None
) -> None:
    from rstar.train.command import run_training  # imports torch: only for training

    model = run_training(kind, recipe, data, out, overrides or (), wandb)
    if model is not None:
        console().print(f"model written to [bold]{escape(str(model))}[/]", highlight=False)
