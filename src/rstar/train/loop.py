"""The training loop: micro-batches, schedule, clipping, checkpoints, exact resume.

A checkpoint holds weights, optimizers and the number of steps done; everything else (which batch comes next, the
learning rate) is a function of that number, so an interrupted run ends with the weights of an uninterrupted one on the
same machine. Interrupting at any moment costs at most the time since the last checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rstar.train.data import IntArray, plan, rounded
from rstar.train.settings import TrainConfig

CHECKPOINT, METRICS = "checkpoint.pt", "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class Progress:
    """One step: its number (from 1), how many there are, mean loss (nats, see `Objective`), tokens per second."""

    step: int
    steps: int
    loss: float
    tokens_per_second: float


M = TypeVar("M", bound=nn.Module, contravariant=True)
B = TypeVar("B")


class Objective(Protocol[M, B]):
    """What a model is trained on: micro-batches, and a loss that is a mean over what they hold."""

    tokens_per_step: float
    """Mean number of tokens of a step, padding included."""

    def micro_batches(self, step: int) -> Sequence[B]:
        """The micro-batches of `step` (from 0). Steps are asked for in rising order."""
        ...

    def count(self, batch: B) -> int:
        """Over how much of a micro-batch the loss is a mean: written tokens, pairs."""
        ...

    def tokens(self, batch: B) -> int:
        """How many tokens a micro-batch has, padding included."""
        ...

    def loss(self, model: M, batch: B) -> Tensor:
        """The sum of the loss over a micro-batch, a scalar."""
        ...


class Steps:
    """The endless sequence of steps over a data set, addressable by number.

    Args:
        lengths: (N,) tokens of each of its items.
        stages: (S + 1,) stage s has the items from ``stages[s]`` to ``stages[s + 1]`` - 1.
        config: how large steps are, and the seed of their order.
    """

    def __init__(self, lengths: npt.NDArray[np.int64], stages: npt.NDArray[np.int64], config: TrainConfig) -> None:
        self._lengths, self._stages, self._config = lengths, stages, config
        self._epoch = self._first = 0
        self._plan = self._of_epoch(0)

    def _of_epoch(self, epoch: int) -> list[list[IntArray]]:
        config, lengths, stages = self._config, self._lengths, self._stages
        per_step = max(1, config.batch_tokens // config.micro_tokens)
        steps: list[list[IntArray]] = []
        for first, end in pairwise(stages.tolist()):
            of_stage = plan(lengths[first:end], config.micro_tokens, per_step, config.seed, epoch)
            steps += [[(rows + first).astype(np.int32) for rows in step] for step in of_stage]
        return steps

    def rows(self, step: int) -> list[IntArray]:
        """The items of each micro-batch of `step` (from 0). Steps are asked for in rising order."""
        while step >= self._first + len(self._plan):
            self._first += len(self._plan)
            self._epoch += 1
            self._plan = self._of_epoch(self._epoch)
        return self._plan[step - self._first]

    def tokens_per_step(self) -> float:
        """Mean number of tokens of a step, padding included."""
        lengths = self._lengths
        return float(np.mean([sum(rounded(int(lengths[m].max())) * len(m) for m in step) for step in self._plan]))


def schedule(step: int, steps: int, warmup: float, decay: float) -> float:
    """Factor of the learning rate at `step` (from 0) of `steps`: linear rise, plateau, linear fall to 0.

    Args:
        step: the step about to be made.
        steps: how many there are.
        warmup: steps of the rise; absolute, so that the plateau of a longer training is the same.
        decay: share of the steps of the fall.
    """
    rise = 1.0 if warmup == 0 else min(1.0, (step + 0.5) / warmup)
    fall = 1.0 if decay == 0 else min(1.0, (1 - (step + 0.5) / steps) / decay)
    return min(rise, fall)


def build_optimizers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks, AdamW for embeddings, norms, biases and heads."""
    matrices = [p for name, p in model.named_parameters() if ".layers." in name and p.ndim == 2]
    known = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in known]
    return [
        torch.optim.Muon(matrices, lr=config.matrix_lr, weight_decay=config.weight_decay, momentum=0.95),
        torch.optim.AdamW(others, lr=config.other_lr, weight_decay=0.0, betas=(0.9, 0.95)),
    ]


class Trainer(Generic[M]):
    """Trains a model inside a folder, which it can be continued from.

    Args:
        model: changed in place.
        objective: what it is trained on.
        config: how.
        folder: gets ``metrics.jsonl`` and the checkpoint.
    """

    def __init__(self, model: M, objective: Objective[M, Any], config: TrainConfig, folder: Path) -> None:
        self.model, self.objective, self.config, self.folder = model, objective, config, folder
        self.optimizers = build_optimizers(model, config)
        self._base_lrs = [[group["lr"] for group in o.param_groups] for o in self.optimizers]
        self.steps = max(1, round(config.tokens / objective.tokens_per_step))
        self._warmup = config.warmup_tokens / objective.tokens_per_step
        self.step = 0
        self._load()

    def run(self, report: Callable[[Progress], None]) -> None:
        """Train to the end; calls `report` after every step."""
        saved = time.monotonic()
        self._cut_metrics()
        with (self.folder / METRICS).open("a", encoding="utf-8") as metrics:
            while self.step < self.steps:
                started = time.perf_counter()
                loss, tokens = self._one_step()
                rate = tokens / (time.perf_counter() - started)
                progress = Progress(self.step, self.steps, loss, rate)
                if self.step % 10 == 0 or self.step == self.steps:
                    row = {"step": self.step, "loss": round(loss, 5), "tokens_per_second": round(rate)}
                    metrics.write(json.dumps(row) + "\n")
                    metrics.flush()
                report(progress)
                if time.monotonic() - saved > self.config.checkpoint_seconds:
                    self.save()
                    saved = time.monotonic()
        self.save()

    def _one_step(self) -> tuple[float, int]:
        """One optimizer step; returns the mean loss and the tokens processed."""
        micro = self.objective.micro_batches(self.step)
        count = sum(self.objective.count(batch) for batch in micro)
        total = sum(self._backward(batch, count) for batch in micro)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        factor = schedule(self.step, self.steps, self._warmup, self.config.decay)
        for optimizer, lrs in zip(self.optimizers, self._base_lrs, strict=True):
            for group, lr in zip(optimizer.param_groups, lrs, strict=True):
                group["lr"] = lr * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return total, sum(self.objective.tokens(batch) for batch in micro)

    def _backward(self, batch: Any, count: int) -> float:
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self.config.bf16):
            loss = self.objective.loss(self.model, batch) / max(count, 1)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def save(self) -> None:
        """Write the checkpoint, atomically."""
        state: dict[str, Any] = {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        part = self.folder / (CHECKPOINT + ".part")
        torch.save(state, part)
        part.replace(self.folder / CHECKPOINT)

    def _cut_metrics(self) -> None:
        """Drop what an interrupted run wrote about steps behind its checkpoint: they are made again."""
        file = self.folder / METRICS
        if file.exists():
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= self.step]
            part = file.with_suffix(".part")
            part.write_text("".join(kept), encoding="utf-8")
            part.replace(file)

    def _load(self) -> None:
        file = self.folder / CHECKPOINT
        if not file.exists():
            return
        state = torch.load(file, map_location=self._device, weights_only=True)
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
