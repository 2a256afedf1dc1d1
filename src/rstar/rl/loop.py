"""The training: rollouts, selection, update, new weights into the engine, step after step.

Every random choice of a step is a function of the seed and the step, and a checkpoint is written only when no rollout
is in flight. So an interrupted run ends with the same curve and weights as an uninterrupted one, on the same machine,
and no problem is skipped or taken twice.

With ``ahead = 1`` the rollouts of step k + 1 are made with the weights before update k, while update k is computed.
They are one version behind, never more, because the step waits for both.

Files of the folder: ``config.json``, ``rollouts.jsonl`` (every group of every step, dropped ones included, with token
ids and log-probabilities), ``metrics.jsonl`` (a line per step), ``checkpoint.pt``, and those of `rstar.rl.evaluation`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from rstar.agent.solver import AgentSolver
from rstar.config import Config, EngineConfig
from rstar.datasets import ProblemSet
from rstar.errors import DataError
from rstar.evals.run import read_source
from rstar.jsonl import RecordFile, read_lines, write_json
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import load_decoder
from rstar.models.device import useful_threads
from rstar.models.spec import check_model, fingerprint, is_local, local_folder
from rstar.rl.algorithms import ALGORITHMS
from rstar.rl.batches import Weighted, micro_batches
from rstar.rl.evaluation import Evaluations, each_problem
from rstar.rl.figures import rollout_figures, update_figures
from rstar.rl.groups import Group, Maker, collect, order, select
from rstar.rl.guard import Guard
from rstar.rl.objective import Clip, Correction
from rstar.rl.settings import RLConfig, Stage
from rstar.rl.update import OldBatch, PolicyObjective, with_old
from rstar.runs import RunFolder, read_config
from rstar.seeds import derive
from rstar.specs import LocalModel
from rstar.tiny.source import ProgressBar
from rstar.train.checkpoint import CHECKPOINT
from rstar.train.folder import MODEL, with_bf16
from rstar.train.loop import Trainer, schedule
from rstar.train.ranks import Ranks, process_group
from rstar.train.trackers import METRICS, json_lines

ROLLOUTS = "rollouts.jsonl"


def train(
    config: RLConfig,
    folder: Path,
    announce: Callable[[str], None],
    bar: ProgressBar,
    on_step: Callable[[int, Mapping[str, float]], None] = lambda step, metrics: None,
) -> Path:
    """Train, or resume, to the end; returns the folder of the finished model.

    Args:
        config: the recipe.
        folder: the run folder.
        announce: called with each stage of the work before it begins.
        bar: creates progress bars.
        on_step: called with the metrics of each step.

    Raises:
        ConfigError, DataError: the recipe cannot work; raised before any work where possible.
        ResumeError: the folder belongs to another run, or is in use.
        EngineError, SandboxError, TrainingError: infrastructure failed; the same call resumes.
    """
    assert is_local(config.policy)  # validated with the recipe
    check_model(config.policy)
    with process_group(config.train.device) as ranks:
        stored = read_config(folder)
        resolved = with_bf16(config.train, stored and stored["identity"].get("train"), ranks.device)
        config = config.model_copy(update={"train": resolved})
        with RunFolder.open(folder, _identity(config)) as opened:
            opened.begin()
            problems = read_source(config.problems, folder / "problems.jsonl", bar)
            held_out = read_source(config.held_out, folder / "held_out.jsonl", bar)
            opened.keep()
            both = {problem.question for problem in problems.problems} & {one.question for one in held_out.problems}
            if both:
                announce(
                    f"warning: {len(both):,} of the {len(held_out):,} held-out problems are training problems, too"
                )
            run = _Run(config, folder, announce, bar, on_step, ranks)
            asyncio.run(run.train(problems, held_out))
    return folder / MODEL


def _identity(config: RLConfig) -> dict[str, Any]:
    assert is_local(config.policy)
    identity = config.identity() | {"policy": fingerprint(local_folder(config.policy))}
    for name, source in (("problems", config.problems), ("held_out", config.held_out)):
        if source.file is not None:
            if not source.file.is_file():
                raise DataError(f"{name}.file: no file {source.file}")
            identity[name] = {"sha256": hashlib.sha256(source.file.read_bytes()).hexdigest()}
    return identity


class _Run:
    def __init__(
        self,
        config: RLConfig,
        folder: Path,
        announce: Callable[[str], None],
        bar: ProgressBar,
        on_step: Callable[[int, Mapping[str, float]], None],
        ranks: Ranks,
    ) -> None:
        assert is_local(config.policy)
        self._config, self._folder, self._announce, self._bar, self._on_step = config, folder, announce, bar, on_step
        self._algorithm = ALGORITHMS[config.algorithm]
        limit = config.search.max_response_tokens
        clip = Clip(config.clip_low, config.clip_high, config.clip_dual)
        self._objective = PolicyObjective(
            self._algorithm, clip, Correction(config.correct_most, config.correct_band), limit
        )
        self._base = local_folder(config.policy)
        self._train = config.train
        self._ranks = ranks
        self._trainer: Trainer[Decoder] = self._new_trainer(load_decoder(self._base, torch.float32))
        ends = [*accumulate(stage.steps for stage in config.stages)]
        self._ends = frozenset(ends)
        self._guard = Guard(config.collapse, [end + 1 for end in (0, *ends)])

    def _new_trainer(self, model: Decoder) -> Trainer[Decoder]:
        settings = self._train
        if self._config.ahead and not settings.threads:  # the engine needs the processors, too
            settings = settings.model_copy(update={"threads": useful_threads(model, self._ranks.device)})
        return Trainer(model, self._objective, settings, self._ranks)

    async def train(self, problems: ProblemSet, held_out: ProblemSet) -> None:
        """All stages."""
        config, folder = self._config, self._folder
        if (folder / CHECKPOINT).exists():
            self._trainer.load(folder / CHECKPOINT)
        done = self._trainer.steps_done
        self._drawn = self._history(done)
        self._rollouts = RecordFile(folder / ROLLOUTS)
        # What an interrupted step has finished is kept, and not made again.
        self._rollouts.cut(lambda name: int(str(name).partition("/")[0]) <= done + 1 + config.ahead)
        self._made = self._unfinished(done)
        settings = Config(
            policy=LocalModel(str(self._base)), seed=config.seed, search=config.search, sandbox=config.sandbox,
            engine=self._engine(),
        )  # fmt: skip
        solver = AgentSolver(settings)
        self._maker = Maker(solver, problems, config.rollouts, config.seed, majority=config.reward == "majority")
        evaluator = Maker(solver, held_out, config.evaluate_rollouts, config.seed)
        names = [problem.id for problem in held_out.problems]
        self._evaluations = Evaluations(folder, self._base, evaluator, names, self._announce, self._bar)
        with ExitStack() as stack:
            self._log = stack.enter_context(json_lines(folder, done))
            # One thread for all updates: each new one would keep memory of its own, and a number of threads by chance.
            threads = self._trainer.threads
            updates = ThreadPoolExecutor(1, "rstar updates", initializer=torch.set_num_threads, initargs=(threads,))
            self._updates = stack.enter_context(updates)
            async with solver:
                self._solver = solver
                if done:
                    await self._load()
                if self._is_due(done):
                    await self._evaluations.evaluate(done, self._model())
                if not self._guard.collapsed:
                    await self._stages([problem.id for problem in problems.problems])
        self._evaluations.finish()

    def _engine(self) -> EngineConfig:
        """The engine's settings; it gets a process of its own where updates beside it would make it irreproducible.

        Torch on the CPU rounds the same sums differently from run to run if two threads of a process compute at once,
        and one of them has threads of its own.
        """
        engine, threads = self._config.engine, self._trainer.threads
        beside = self._config.ahead and self._ranks.device.type == "cpu" and max(threads, engine.threads or 1) > 1
        if not beside or engine.processes:
            return engine
        return engine.model_copy(update={"processes": 1, "threads": engine.threads or threads})

    def _unfinished(self, done: int) -> dict[tuple[int, int], Group]:
        """Stored groups of steps that an interruption left unfinished, by step and draw."""
        try:
            return {
                (line["step"], line["draw"]): Group.from_json(line)
                for line in self._rollouts
                if line["step"] > done and line["id"] in self._rollouts.keys
            }
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise DataError(f"{self._rollouts.file}: damaged, or written by another version: {error!r}") from error

    async def _stages(self, ids: list[str]) -> None:
        first = 0
        for number, stage in enumerate(self._config.stages, 1):
            last = first + stage.steps
            if self._trainer.steps_done < last:
                self._announce(f"stage {number} of {len(self._config.stages)}, to step {last}")
                maker = self._maker.with_limits(stage.limits())
                names = await self._filtered(maker, ids, stage, number)
                if not names:
                    self._announce(f"stage {number} is left out: the policy solves all {len(ids):,} problems already")
                    self._trainer.steps_done = last
                    await self._load()
                    first = last
                    continue
                if stage.reset_optimizer and self._trainer.steps_done == first:
                    self._trainer = self._restarted()
                if not await self._steps(maker, names, last):
                    return
            first = last

    async def _steps(self, maker: Maker, names: list[str], last: int) -> bool:
        """Steps up to `last`; whether the training goes on."""
        config = self._config
        waiting: asyncio.Task[list[Group]] | None = None
        saved = time.monotonic()
        with self._bar(last - self._trainer.steps_done, "training") as advance:
            while (step := self._trainer.steps_done + 1) <= last:
                started = time.perf_counter()
                groups = await (waiting or self._collect(maker, names, step))
                self._drawn += len(groups)
                further = config.ahead and step < last
                waiting = asyncio.create_task(self._collect(maker, names, step + 1)) if further else None
                collected = time.perf_counter()
                try:
                    metrics = await asyncio.get_running_loop().run_in_executor(
                        self._updates, self._update, step, groups
                    )
                    updated = time.perf_counter()
                    # If it fails, this step counts as never made: made again later, the rollouts need older weights.
                    if waiting is not None:
                        await waiting
                except BaseException:
                    if waiting is not None:
                        waiting.cancel()
                    raise
                made = time.perf_counter()
                await self._load()
                metrics |= rollout_figures(groups) | {
                    "drawn": self._drawn,
                    "staleness": step - 1 - fmean(group.version for group in groups),
                    "seconds_rollouts": collected - started + made - updated,
                    "seconds_update": updated - collected,
                    "seconds": time.perf_counter() - started,
                }
                self._log(step, {name: round(value, 5) for name, value in metrics.items()})
                self._on_step(step, metrics)
                advance(1, f"reward {metrics['reward']:.3f}")
                due = self._is_due(step)
                if due or time.monotonic() - saved > self._train.checkpoint_seconds:
                    self._trainer.save(self._folder / CHECKPOINT)
                    saved = time.monotonic()
                if due:
                    await self._evaluations.evaluate(step, self._model())
                self._guard.add(step, metrics["reward"])
                if self._guard.collapsed:
                    self._announce(f"step {step}: the reward has collapsed; the best model is kept")
                    return False
        return True

    async def _collect(self, maker: Maker, names: list[str], step: int) -> list[Group]:
        """The groups of a step, each stored as it ends."""
        config = self._config

        async def make(drawn: tuple[int, str]) -> Group:
            draw, name = drawn
            stored = self._made.pop((step, draw), None)
            return stored or await maker.make(step, name, draw)

        def store(group: Group) -> None:
            line = group.to_json(step)
            if line["id"] not in self._rollouts.keys:
                self._rollouts.append(line)

        most = max(config.groups, round(config.groups * config.draws))
        return await collect(order(names, config.seed, self._drawn), most, config.groups, make, store)

    def _update(self, step: int, groups: list[Group]) -> dict[str, float]:
        """Train on the selected rollouts of a step."""
        config, trainer = self._config, self._trainer
        tagged = "</answer>" in self._solver.environment.system
        chosen: list[list[Weighted]] = []
        for group in groups:
            seed = derive(config.seed, "keep", step, group.draw)
            if kept := select(group, self._algorithm, config.keep, seed, tagged=tagged):
                chosen.append(kept)
        figures: dict[str, float] = {"groups_trained": len(chosen)}
        if not chosen:  # the weights stay; the step counts
            trainer.steps_done += 1
            return figures
        parts = [chosen[i :: config.minibatches] for i in range(config.minibatches)]
        batches = [micro_batches(part, self._train.micro_tokens) for part in parts if part]
        several = len(batches) > 1
        prepared = [
            with_old(trainer.model, part, bool(self._train.bf16)) if several else [OldBatch(batch) for batch in part]
            for part in batches
        ]
        before = trainer.steps_done
        factor = schedule(step - 1, config.steps, config.warmup_steps, config.decay)
        updates = [trainer.step(part, factor) for part in prepared]
        trainer.steps_done = before + 1
        return (
            figures
            | update_figures(self._objective.take_figures())
            | {
                "loss": fmean(update.loss for update in updates),
                "grad_norm": fmean(update.grad_norm for update in updates),
                "lr_factor": factor,
            }
        )

    async def _load(self) -> None:
        await self._solver.load(self._model(), self._trainer.steps_done)

    def _model(self) -> Decoder:
        model = self._trainer.full_model()
        assert model is not None
        return model

    def _is_due(self, step: int) -> bool:
        """Whether the weights after `step` are evaluated: regularly, and at the end of a stage."""
        return step % self._config.evaluate_every == 0 or step in self._ends

    async def _filtered(self, maker: Maker, ids: list[str], stage: Stage, number: int) -> list[str]:
        """The problems of a stage: those that the present policy does not always solve; none if it solves all."""
        file = self._folder / f"stage{number}.json"
        if stage.skip_solved is None:
            return ids
        if not file.exists():
            probe, title = maker.with_rollouts(stage.skip_solved), f"stage {number}: looking for solved problems"
            groups = await each_problem(probe, f"stage {number}", ids, title, self._bar)
            kept = [group.problem for group in groups if min(group.rewards) <= 0]
            write_json(file, {"problems": kept})
        return list(json.loads(file.read_text(encoding="utf-8"))["problems"])

    def _history(self, done: int) -> int:
        """Problems drawn in the first `done` steps; also takes up their rewards."""
        drawn = 0
        file = self._folder / METRICS
        for line in read_lines(file, "step") if done and file.exists() else ():
            if line["step"] <= done:
                drawn = int(line["drawn"])
                self._guard.add(line["step"], line["reward"])
        return drawn

    def _restarted(self) -> Trainer[Decoder]:
        """The same weights with a fresh optimizer."""
        fresh = self._new_trainer(self._model())
        fresh.steps_done = self._trainer.steps_done
        return fresh
