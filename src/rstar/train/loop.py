"""The training loop: micro-batches, schedule, clipping, checkpoints, exact resume, on one or several processes.

A checkpoint holds weights, optimizers and the step number. Everything else (the next batch, the learning rate, torch's
random numbers) is a function of that number, so an interrupted run ends with the same weights as an uninterrupted one
on the same machine. An interruption costs at most the time since the last checkpoint.

Several processes share the micro-batches of a step, and shard the model (`rstar.train.ranks`). Loss, gradient and
random numbers of a step equal those of one process, up to the order of float additions; so any number of processes can
resume from a checkpoint, which is unsharded.
"""

from __future__ import annotations

import copy
import math
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

from rstar.errors import TrainingError
from rstar.models.ppm.inputs import rounded
from rstar.seeds import derive
from rstar.train.checkpoint import CHECKPOINT, gather, load, save
from rstar.train.data import IntArray, plan
from rstar.train.muon import Muon
from rstar.train.ranks import Ranks
from rstar.train.settings import TrainConfig
from rstar.train.trackers import opened_trackers

LOG_EVERY = 10
SGD_MOMENTUM = 0.9


@dataclass(frozen=True, slots=True)
class Progress:
    """Metrics of one step.

    Attributes:
        step: step number, from 1.
        steps: total number of steps.
        loss: mean loss (nats, see `Objective`).
        lr_factor: learning rates relative to their settings.
        grad_norm: gradient norm before clipping.
        tokens_per_second: of all processes together, padding included.
    """

    step: int
    steps: int
    loss: float
    lr_factor: float
    grad_norm: float
    tokens_per_second: float

    def metrics(self) -> dict[str, float]:
        """Logged values."""
        values = {name: round(getattr(self, name), 5) for name in ("loss", "lr_factor", "grad_norm")}
        return values | {"tokens_per_second": round(self.tokens_per_second)}


M = TypeVar("M", bound=nn.Module, contravariant=True)
B = TypeVar("B", contravariant=True)
T = TypeVar("T")


class Objective(Protocol[M, B]):
    """A loss, averaged over the items of micro-batches.

    `loss` may draw from torch's generator, which is seeded before each call.
    """

    def count(self, batch: B) -> int:
        """Number of items in a micro-batch that the mean is over: written tokens, problems."""
        ...

    def tokens(self, batch: B) -> int:
        """Number of tokens in a micro-batch, padding included."""
        ...

    def loss(self, model: M, batch: B) -> Tensor:
        """Loss summed over a micro-batch, a scalar."""
        ...


class MicroBatches(Generic[T]):
    """Micro-batches for every training step, without end.

    Args:
        lengths: (N,) tokens per item.
        stages: (S + 1,) stage s has the items from ``stages[s]`` to ``stages[s + 1]`` - 1.
        config: step size and seed.
        collate: builds a micro-batch of items. It may draw from torch's generator, which is seeded before each step.

    Attributes:
        steps_per_epoch: steps per pass over the data.
        tokens_per_step: mean tokens per step, padding included.
    """

    def __init__(
        self,
        lengths: npt.NDArray[np.int64],
        stages: npt.NDArray[np.int64],
        config: TrainConfig,
        collate: Callable[[IntArray], T],
    ) -> None:
        self._lengths, self._stages, self._config, self._collate = lengths, stages, config, collate
        self._epoch = self._first = 0
        self._plan = self._of_epoch(0)
        tokens = [sum(rounded(int(lengths[items].max())) * len(items) for items in step) for step in self._plan]
        self.steps_per_epoch, self.tokens_per_step = len(self._plan), float(np.mean(tokens))

    def _of_epoch(self, epoch: int) -> list[list[IntArray]]:
        config, lengths, stages = self._config, self._lengths, self._stages
        per_step = max(1, config.batch_tokens // config.micro_tokens)
        steps: list[list[IntArray]] = []
        for first, end in pairwise(stages.tolist()):
            of_stage = plan(lengths[first:end], config.micro_tokens, per_step, config.seed, epoch)
            steps += [[(rows + first).astype(np.int32) for rows in step] for step in of_stage]
        return steps

    def of_step(self, step: int) -> list[T]:
        """Micro-batches of `step` (from 0). Steps are requested in rising order."""
        while step >= self._first + len(self._plan):
            self._first += len(self._plan)
            self._epoch += 1
            self._plan = self._of_epoch(self._epoch)
        return [self._collate(items) for items in self._plan[step - self._first]]


def schedule(step: int, steps: int, warmup: float, decay: float) -> float:
    """Learning rate factor at `step` (from 0): linear warmup, plateau, linear decay to 0.

    Args:
        step: step about to run.
        steps: total number of steps.
        warmup: warmup steps; absolute, so that a longer training has the same warmup.
        decay: share of the steps in the decay.
    """
    rise = 1.0 if warmup == 0 else min(1.0, (step + 0.5) / warmup)
    fall = 1.0 if decay == 0 else min(1.0, (1 - (step + 0.5) / steps) / decay)
    return min(rise, fall)


def build_optimizers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """SGD or AdamW for all, or Muon for block matrices and AdamW for embeddings, norms, biases and heads."""
    if config.optimizer == "sgd":
        lr, decay = config.other_lr, config.weight_decay
        return [torch.optim.SGD(model.parameters(), lr=lr, momentum=SGD_MOMENTUM, weight_decay=decay)]
    betas = (0.9, 0.95)
    if config.optimizer == "adamw":
        decay = config.weight_decay
        return [torch.optim.AdamW(model.parameters(), lr=config.other_lr, weight_decay=decay, betas=betas)]
    matrices = [p for name, p in model.named_parameters() if ".layers." in name and p.ndim == 2]
    known = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in known]
    dtype = torch.bfloat16 if config.bf16 else torch.float32
    return [
        Muon(matrices, lr=config.matrix_lr, weight_decay=config.weight_decay, dtype=dtype),
        torch.optim.AdamW(others, lr=config.other_lr, weight_decay=0.0, betas=betas),
    ]


@dataclass(frozen=True, slots=True)
class Update:
    """Result of an optimizer step: mean loss (nats), and gradient norm before clipping."""

    loss: float
    grad_norm: float


class Trainer(Generic[M]):
    """A model and its optimizers; runs one `step` at a time on given micro-batches.

    Args:
        model: modified in place: moved to the device of `ranks` and sharded across processes.
        objective: loss; the same in every process.
        config: optimizers, clipping, dtype and seed; ``bf16`` is resolved to true or false.
        ranks: this process among those that train the model.

    Attributes:
        threads: CPU threads for the updates; the caller sets them in the thread that calls `step`.
        steps_done: number of updates so far.
    """

    def __init__(self, model: M, objective: Objective[M, Any], config: TrainConfig, ranks: Ranks) -> None:
        # A copy without weights; `full_model` loads the trained ones into it.
        self._empty = copy.deepcopy(model, {id(p): nn.Parameter(p.detach().to("meta")) for p in model.parameters()})
        ranks.place(model)
        self.model, self.objective, self.config, self.ranks = model, objective, config, ranks
        self.optimizers = build_optimizers(model, config)
        self.threads = config.threads or torch.get_num_threads()
        self._base_lrs = [[group["lr"] for group in o.param_groups] for o in self.optimizers]
        self.steps_done = 0

    def step(self, batches: Sequence[Any], lr_factor: float = 1.0) -> Update:
        """Run one optimizer step. All processes call this with the same micro-batches, which they divide among them.

        Args:
            batches: at least one.
            lr_factor: learning rates relative to their settings.

        Raises:
            TrainingError: the loss or the gradient norm is not finite; the weights are unchanged.
        """
        count = max(1, sum(self.objective.count(batch) for batch in batches))
        try:
            mine = sum(self._backward(batches, number, count) for number in self.ranks.share(len(batches)))
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
            grad_norm = self.ranks.value(norm)
            (loss,) = self.ranks.total(mine)
            for name, value in (("loss", loss), ("gradient norm", grad_norm)):
                if not math.isfinite(value):
                    raise TrainingError(
                        f"step {self.steps_done + 1}: the {name} is {value}; start again with lower learning rates"
                    )
            for optimizer, lrs in zip(self.optimizers, self._base_lrs, strict=True):
                for group, lr in zip(optimizer.param_groups, lrs, strict=True):
                    group["lr"] = lr * lr_factor
                optimizer.step()
        finally:  # clear the gradients of a failed step, too
            self.model.zero_grad(set_to_none=True)
        self.steps_done += 1
        return Update(loss, grad_norm)

    def save(self, file: Path) -> None:
        """Write a checkpoint atomically. All processes call this."""
        save(file, self.steps_done, self.model, self.optimizers, self.ranks.main)

    def load(self, file: Path) -> None:
        """Resume from a checkpoint. All processes call this."""
        self.steps_done = load(file, self.model, self.optimizers)

    def full_model(self) -> M | None:
        """Unsharded model on the CPU, in the main process; None in the others. All processes call this."""
        weights = gather(self.model)
        if not self.ranks.main:
            return None
        self._empty.load_state_dict(weights, assign=True)
        return self._empty

    def _backward(self, micro: Sequence[Any], number: int | None, count: int) -> float:
        """Accumulate a micro-batch's gradient; returns its share of the mean loss over `count`.

        `number` is None if this process has no micro-batch left while others do. It then computes the shortest one with
        weight 0, because every process must take part in gathering the blocks.
        """
        weight = 0.0 if number is None else 1.0
        if number is None:
            number = min(range(len(micro)), key=lambda i: self.objective.tokens(micro[i]))
        torch.manual_seed(derive(self.config.seed, "step", self.steps_done, number))
        with torch.autocast(self.ranks.device.type, dtype=torch.bfloat16, enabled=bool(self.config.bf16)):
            loss = self.objective.loss(self.model, micro[number]) / count
        (loss * weight * self.ranks.count).backward()  # type: ignore[no-untyped-call]  # FSDP averages gradients
        return weight * float(loss.detach())


def run(trainer: Trainer[M], data: MicroBatches[Any], folder: Path, report: Callable[[Progress], None]) -> None:
    """Train to the end, resuming from the checkpoint in `folder` if there is one.

    Args:
        trainer: with a fresh model, replaced by the checkpoint's if there is one.
        data: the same in every process.
        folder: receives ``metrics.jsonl``, other trackers' files, and the checkpoint.
        report: called after every step, in the main process.
    """
    config, main, file = trainer.config, trainer.ranks.main, folder / CHECKPOINT
    if file.exists():
        trainer.load(file)
    in_tokens = config.tokens / data.tokens_per_step
    steps = max(1, round(in_tokens if config.epochs is None else config.epochs * data.steps_per_epoch))
    warmup = config.warmup_tokens / data.tokens_per_step
    if trainer.steps_done == steps:
        return
    torch.set_num_threads(trainer.threads)
    saved = time.monotonic()
    with opened_trackers(config, folder, trainer.steps_done, main) as trackers:
        while trainer.steps_done < steps:
            (due,) = trainer.ranks.total(main and time.monotonic() - saved > config.checkpoint_seconds)
            started = time.perf_counter()
            torch.manual_seed(derive(config.seed, "step", trainer.steps_done))
            batches = data.of_step(trainer.steps_done)
            factor = schedule(trainer.steps_done, steps, warmup, config.decay)
            update = trainer.step(batches, factor)
            rate = sum(trainer.objective.tokens(batch) for batch in batches) / (time.perf_counter() - started)
            progress = Progress(trainer.steps_done, steps, update.loss, factor, update.grad_norm, rate)
            if progress.step % LOG_EVERY == 0 or progress.step == steps:
                for log in trackers:
                    log(progress.step, progress.metrics())
            if main:
                report(progress)
            if due or progress.step == steps:
                trainer.save(file)
                saved = time.monotonic()
