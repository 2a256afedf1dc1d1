"""``rstar train``: trains models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rstar.cli.common import AsJson, Overrides, console, print_settings

if TYPE_CHECKING:
    from rstar.train.command import Kind

Out = Annotated[Path, typer.Option(help="Folder of this training; continued when it holds this one.")]
Wandb = Annotated[
    str | None, typer.Option(help="Project of Weights & Biases that gets the metrics, too.", show_default=False)
]

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
    out: Out,
    set_: Overrides = None,
    wandb: Wandb = None,
) -> None:
    """Train a policy on solutions: from nothing (tokenizer and all), or from the model that the recipe names.

    The finished model is an ordinary transformers folder, `OUT/model`. An interrupted training goes on from its last
    checkpoint and ends with the same weights. Metrics are in `OUT/metrics.jsonl`, and in `OUT/tensorboard` for
    `tensorboard --logdir`.

    Several processes, one for each GPU, say, divide model and data among them; a training may be continued with another
    number of them. A step has `batch_tokens / micro_tokens` parts to share out: let it be a multiple of the processes.

    `rstar train settings` lists what a recipe can say.

    Example: `rstar train sft recipes/tiny/sft.toml --data train.jsonl --out runs/tiny-sft`

    On 8 GPUs: `torchrun --nproc-per-node 8 -m rstar train sft RECIPE --data train.jsonl --out OUT`
    (or `accelerate launch --num_processes 8 -m rstar train sft …`; on several machines, OUT is a shared folder)
    """
    _train("sft", recipe, data, out, set_, wandb)


@app.command("ppm")
def ppm(
    recipe: Annotated[
        Path,
        typer.Argument(help="TOML file with the training settings; `base` is the policy.", exists=True, dir_okay=False),
    ],
    data: Annotated[list[Path], typer.Option(help="pairs.jsonl, as `rstar evolve extract` writes it.")],
    out: Out,
    set_: Overrides = None,
    wandb: Wandb = None,
) -> None:
    """Train a process preference model: the policy's backbone with a scalar head, on pairs of steps.

    The finished model is a transformers folder, `OUT/model`: a sequence classifier of one label. Interruptions, metrics
    and several processes are as in `rstar train sft`. `rstar train settings` lists what a recipe can say.

    Example: `rstar train ppm ppm.toml --data runs/round1/data/pairs.jsonl --out runs/round1/ppm`
    """
    _train("ppm", recipe, data, out, set_, wandb)


@app.command("settings")
def settings(as_json: AsJson = False) -> None:
    """List what a recipe of a training can say, with defaults; `inputs` and `target` are of `rstar train ppm` only.

    Settings stand in the recipe, a TOML file with a table per group, or behind `--set`.
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
