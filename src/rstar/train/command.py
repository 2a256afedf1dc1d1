"""A training command with a progress bar, shared by `rstar train` and ``python -m rstar.train``.

Under a launcher every process runs it, and only the main one reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rstar.errors import RstarError
from rstar.train.loop import Progress
from rstar.train.ppm import PPMConfig, train_ppm
from rstar.train.ranks import is_main
from rstar.train.settings import TrainConfig, read_train_config
from rstar.train.sft import train_sft
from rstar.view.progress import progress

Kind = Literal["sft", "ppm"]


def run_training(
    kind: Kind, recipe: Path, data: Sequence[Path], out: Path, overrides: Sequence[str] = (), wandb: str | None = None
) -> Path | None:
    """Train or resume; returns the folder of the finished model, None in processes other than the main one.

    Args:
        kind: ``sft`` for a policy, ``ppm`` for a process preference model.
        recipe: TOML file with the settings.
        data: data files, in the order of the stages.
        out: training folder.
        overrides: settings that override the recipe's, see `rstar.sections.override`.
        wandb: Weights & Biases project, instead of the recipe's.

    Raises:
        ConfigError, DataError, ResumeError: see `rstar.train.sft.train_sft` and `rstar.train.ppm.train_ppm`.
        TrainingError, StorageError: training failed; repeating the call resumes it.
        SystemExit: any of these in processes other than the main one, which reports it.
    """
    with _progress_bar() as report:
        try:
            config = read_train_config(recipe, TrainConfig if kind == "sft" else PPMConfig, overrides)
            if wandb is not None:
                config = config.model_copy(update={"wandb": wandb})
            if isinstance(config, PPMConfig):
                model = train_ppm(config, data, out, report)
            else:
                model = train_sft(config, data, out, report)
        except RstarError as error:
            if is_main():
                raise
            raise SystemExit(1) from error
    return model if is_main() else None


@contextmanager
def _progress_bar() -> Iterator[Callable[[Progress], None]]:
    """Progress bar for the training steps, in the main process."""
    if not is_main():
        yield lambda state: None
        return
    done = 0
    with progress(1, "training") as advance:

        def report(state: Progress) -> None:
            nonlocal done
            note = f"loss {state.loss:.3f}, {state.tokens_per_second:,.0f} tokens/s"
            advance(state.step - done, note, total=state.steps)
            done = state.step

        yield report
