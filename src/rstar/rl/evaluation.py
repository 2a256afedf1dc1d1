"""Evaluations during a training: on problems held out, all in the same way; the best weights are the finished model.

Files: ``evaluations.jsonl`` (a line per evaluation), ``report.html`` (the curves so far), ``best/`` (the best weights
so far); at the end ``model/``, ``summary.json`` and, with the extra ``pictures``, ``report.png``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from rstar.jsonl import Record, RecordFile, write_json
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import copy_tokenizer, save_decoder
from rstar.rl.figures import evaluation_figures
from rstar.rl.groups import Group, Maker, collect
from rstar.rl.report import EVALUATIONS, report, write_picture
from rstar.tiny.source import ProgressBar
from rstar.train.folder import model_folder
from rstar.view.picture import can_draw

BEST, REPORT, PICTURE = "best", "report.html", "report.png"


class Evaluations:
    """The evaluations of a run, those made before an interruption included.

    Args:
        folder: the run folder.
        base: folder of the model that is trained.
        dtype: type of the finished model's weights.
        maker: makes the groups of rollouts; the engine has the weights to evaluate.
        names: the problems, in order.
        announce: called with the result of each evaluation.
        bar: creates progress bars.
    """

    def __init__(
        self,
        folder: Path,
        base: Path,
        dtype: torch.dtype,
        maker: Maker,
        names: Sequence[str],
        announce: Callable[[str], None],
        bar: ProgressBar,
    ) -> None:
        self._folder, self._base, self._dtype = folder, base, dtype
        self._maker, self._names = maker, names
        self._announce, self._bar = announce, bar
        self._lines = RecordFile(folder / EVALUATIONS, "step")

    async def evaluate(self, step: int, model: Decoder) -> None:
        """Evaluate the weights after `step`, unless that was done; keep them if they are the best so far.

        Raises:
            EngineError, SandboxError: infrastructure failed.
        """
        if step in self._lines.keys:
            return
        title = f"evaluation after step {step}"
        groups = await each_problem(self._maker, "evaluation", self._names, title, self._bar)
        found = {name: round(value, 5) for name, value in evaluation_figures(groups).items()}
        if found["mean"] > max((line["mean"] for line in self._lines), default=-1.0):
            self._keep(model)
        self._lines.append({"step": step, **found})
        self._draw()
        self._announce(f"step {step}: mean {found['mean']:.1%} on {len(groups)} held-out problems")

    def finish(self) -> None:
        """Write the finished model: the best one."""
        with model_folder(self._folder) as out:
            shutil.copytree(self._folder / BEST, out)
        write_json(self._folder / "summary.json", _summary(list(self._lines)))
        self._draw()
        if can_draw():
            write_picture(self._folder, self._folder / PICTURE)

    def _keep(self, model: Decoder) -> None:
        best = self._folder / BEST
        best.mkdir(exist_ok=True)
        save_decoder(model, best, self._dtype)
        copy_tokenizer(self._base, best)

    def _draw(self) -> None:
        (self._folder / REPORT).write_text(report(self._folder), encoding="utf-8")


async def each_problem(maker: Maker, step: str, names: Sequence[str], title: str, bar: ProgressBar) -> list[Group]:
    """One group for each problem, with a progress bar; `step` names their random stream."""
    with bar(len(names), title) as advance:

        async def make(name: str) -> Group:
            group = await maker.make(step, name)
            advance(1)
            return group

        return await collect(iter(names), len(names), None, make, at_once=maker.at_once)


def _summary(evaluations: list[Record]) -> Record:
    first, best = evaluations[0], max(evaluations, key=lambda line: line["mean"])
    return {"start": first, "best": best, "last": evaluations[-1]}
