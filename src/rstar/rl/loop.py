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
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from statistics import fmean

import torch

from rstar.agent.solver import AgentSolver
from rstar.config import Config, EngineConfig
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError, DataError
from rstar.evals.run import read_source
from rstar.jsonl import RecordFile, read_lines, write_json
from rstar.models.decoder import Decoder
from rstar.models.decoder_files import DTYPES, load_decoder
from rstar.models.device import useful_threads
from rstar.models.spec import check_model, is_local, local_folder
from rstar.rl.algorithms import ALGORITHMS
from rstar.rl.batches import Weighted, micro_batches
from rstar.rl.evaluation import Evaluations, each_problem
from rstar.rl.figures import rollout_figures, update_figures
from rstar.rl.groups import Group, Maker, collect, order, select
from rstar.rl.guard import Guard
from rstar.rl.inputs import identity_of, training_problems
from rstar.rl.objective import Clip, Correction, Figures
from rstar.rl.settings import RLConfig, Stage
from rstar.rl.stored import ROLLOUTS, StoredGroups
from rstar.rl.update import OldBatch, PolicyObjective, with_old
from rstar.runs import RunFolder, read_config
from rstar.seeds import derive
from rstar.tiny.source import ProgressBar
from rstar.train.checkpoint import CHECKPOINT
from rstar.train.folder import MODEL, with_bf16
from rstar.train.loop import Trainer, schedule
from rstar.train.ranks import Ranks, process_group
from rstar.train.trackers import METRICS, json_lines


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
    solver = AgentSolver(_rollout_settings(config, config.engine))
    for stage in config.stages:
        if stage.environment is not None:
            solver.in_environment(stage.environment)
    stored = None
    if config.stored is not None:
        if not config.stored.is_file():
            raise DataError(f"stored: no file {config.stored}")
        stored = StoredGroups(RecordFile(config.stored))
        stored.require(config.steps)
    with process_group(config.train.device) as ranks:
        if ranks.count > 1:
            raise ConfigError("reinforcement learning runs in one process: start it without torchrun")
        before = read_config(folder)
        resolved = with_bf16(config.train, before and before["identity"].get("train"), ranks.device)
        config = config.model_copy(update={"train": resolved})
        with RunFolder.open(folder, identity_of(config)) as opened:
            opened.begin()
            problems = training_problems(config, folder, bar)
            held_out = read_source(config.held_out, folder / "held_out.jsonl", bar)
            trained = {problem.question for part in problems for problem in part.problems}
            if both := trained & {one.question for one in held_out.problems}:
                announce(
                    f"warning: {len(both):,} of the {len(held_out):,} held-out problems are training problems, too"
                )
            run = _Run(config, opened, announce, bar, on_step, ranks, stored)
            try:
                asyncio.run(run.train(problems, held_out))
            except (ConfigError, DataError):
                raise  # without any rollouts yet, the folder is removed, and the corrected recipe can use it
            except BaseException:
                opened.keep()
                raise
    return folder / MODEL


def _rollout_settings(config: RLConfig, engine: EngineConfig) -> Config:
    return Config(policy=config.policy, seed=config.seed, search=config.search, sandbox=config.sandbox, engine=engine)


class _Run:
    def __init__(
        self,
        config: RLConfig,
        opened: RunFolder,
        announce: Callable[[str], None],
        bar: ProgressBar,
        on_step: Callable[[int, Mapping[str, float]], None],
        ranks: Ranks,
        stored: StoredGroups | None,
    ) -> None:
        assert is_local(config.policy)
        self._config, self._opened, self._folder = config, opened, opened.path
        self._announce, self._bar, self._on_step = announce, bar, on_step
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
        self._stored = stored

    def _new_trainer(self, model: Decoder) -> Trainer[Decoder]:
        settings = self._train
        if self._config.ahead and not settings.threads:  # the engine needs the processors, too
            settings = settings.model_copy(update={"threads": useful_threads(model, self._ranks.device)})
        return Trainer(model, self._objective, settings, self._ranks)

    async def train(self, problems: Sequence[ProblemSet], held_out: ProblemSet) -> None:
        """All stages, each with its problems."""
        config, folder = self._config, self._folder
        self._problems = problems
        if (folder / CHECKPOINT).exists():
            self._trainer.load(folder / CHECKPOINT)
        done = self._trainer.steps_done
        self._draws = self._history(done)
        self._rollouts = RecordFile(folder / ROLLOUTS)
        # What an interrupted step has finished is kept, and not made again.
        self._rollouts.cut(lambda name: int(str(name).partition("/")[0]) <= done + 1 + config.ahead)
        kept = StoredGroups(self._rollouts)
        unfinished = range(done + 1, done + 2 + config.ahead)
        self._made = {(step, group.draw): group for step in unfinished for group in kept.of(step)}
        solver = AgentSolver(_rollout_settings(config, self._engine()))
        evaluator = Maker(solver, held_out, config.evaluate_rollouts, config.seed)
        names = [problem.id for problem in held_out.problems]
        dtype = DTYPES[self._train.save_dtype]
        self._evaluations = Evaluations(folder, self._base, dtype, evaluator, names, self._announce, self._bar)
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
                    await self._evaluate(done)
                if not self._guard.collapsed:
                    await self._stages()
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

    async def _stages(self) -> None:
        """All stages that are left. Stages with the same problems go on in the same order."""
        first = 0
        places: dict[object, int] = {}  # draws so far from each list of problems
        for number, (stage, problems) in enumerate(zip(self._config.stages, self._problems, strict=True), 1):
            last = first + stage.steps
            listed = id(problems), number if stage.skip_solved else 0
            others = self._drawn(first) - places.get(listed, 0)
            if self._trainer.steps_done < last and not await self._stage(number, stage, problems, others, last):
                return
            places[listed] = self._drawn(last) - others
            first = last

    async def _stage(self, number: int, stage: Stage, problems: ProblemSet, others: int, last: int) -> bool:
        """A stage, up to step `last`; whether the training goes on. See `_steps` for `others`."""
        self._announce(f"stage {number} of {len(self._config.stages)}, to step {last}")
        maker = self._maker(stage, problems)
        ids = [problem.id for problem in problems.problems]
        names = await self._filtered(maker, ids, stage, number)
        if not names:
            self._announce(f"stage {number} is left out: the policy solves all {len(ids):,} problems already")
            self._trainer.steps_done = last
            await self._load()
            return True
        if stage.reset_optimizer and self._trainer.steps_done == last - stage.steps:
            self._trainer = self._restarted()
        return await self._steps(maker, names, others, last)

    def _maker(self, stage: Stage, problems: ProblemSet) -> Maker:
        """Makes the groups of a stage."""
        config, solver = self._config, self._solver
        if stage.environment is not None:
            solver = solver.in_environment(stage.environment)
        maker = Maker(solver, problems, config.rollouts, config.seed, majority=config.reward == "majority")
        return maker.with_limits(stage.limits())

    async def _steps(self, maker: Maker, names: list[str], others: int, last: int) -> bool:
        """Steps up to `last`; whether the training goes on. `others`: draws so far from other lists than `names`."""
        config = self._config
        waiting: asyncio.Task[list[Group]] | None = None
        saved = time.monotonic()
        with self._bar(last - self._trainer.steps_done, "training") as advance:
            while (step := self._trainer.steps_done + 1) <= last:
                started = time.perf_counter()
                groups = await (waiting or self._collect(maker, names, others, step))
                self._draws.append((step, self._drawn(step - 1) + len(groups)))
                further = config.ahead and step < last
                waiting = asyncio.create_task(self._collect(maker, names, others, step + 1)) if further else None
                collected = time.perf_counter()
                try:
                    metrics = await asyncio.get_running_loop().run_in_executor(
                        self._updates, self._update, step, groups, maker
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
                loaded = time.perf_counter()
                metrics |= rollout_figures(groups) | {
                    "drawn": self._drawn(step),
                    "staleness": step - 1 - fmean(group.version for group in groups),
                    "seconds_rollouts": collected - started + made - updated,
                    "seconds_update": updated - collected,
                    "seconds_weights": loaded - made,
                    "seconds": loaded - started,
                }
                self._log(step, {name: round(value, 5) for name, value in metrics.items()})
                self._on_step(step, metrics)
                advance(1, f"reward {metrics['reward']:.3f}")
                due = self._is_due(step)
                if due or time.monotonic() - saved > self._train.checkpoint_seconds:
                    self._trainer.save(self._folder / CHECKPOINT)
                    saved = time.monotonic()
                if due:
                    await self._evaluate(step)
                self._guard.add(step, metrics["reward"])
                if self._guard.collapsed:
                    self._announce(f"step {step}: the reward has collapsed; the best model is kept")
                    return False
        return True

    async def _collect(self, maker: Maker, names: list[str], others: int, step: int) -> list[Group]:
        """The groups of a step, each stored as it ends."""
        config = self._config
        if self._stored is not None:
            return self._stored.of(step, self._trainer.model.config.vocab_size)

        async def make(drawn: tuple[int, str]) -> Group:
            draw, name = drawn
            stored = self._made.pop((step, draw), None)
            return stored or await maker.make(step, name, draw)

        def store(group: Group) -> None:
            line = group.to_json(step)
            if line["id"] not in self._rollouts.keys:
                self._opened.keep()
                self._rollouts.append(line)

        most = max(config.groups, round(config.groups * config.draws))
        drawn = order(names, config.seed, self._drawn(step - 1) - others)
        return await collect(drawn, most, config.groups, make, store, at_once=maker.at_once)

    def _update(self, step: int, groups: list[Group], maker: Maker) -> dict[str, float]:
        """Train on the selected rollouts of a step, which `maker` made."""
        config, trainer = self._config, self._trainer
        tagged = "</answer>" in maker.solver.environment.system
        by_turn = config.baseline == "turn"
        chosen: list[list[Weighted]] = []
        for group in groups:
            seed = derive(config.seed, "keep", step, group.draw)
            if kept := select(group, self._algorithm, config.keep, seed, tagged=tagged, by_turn=by_turn):
                chosen.append(kept)
        figures: dict[str, float] = {"groups_trained": len(chosen)}
        if not chosen:  # the weights stay; the step counts
            trainer.steps_done += 1
            return figures | update_figures(Figures())
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

    async def _evaluate(self, step: int) -> None:
        await self._evaluations.evaluate(step, self._model())
        self._opened.keep()

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

    def _drawn(self, step: int) -> int:
        """Problems drawn up to a step."""
        return max((drawn for at, drawn in self._draws if at <= step), default=0)

    def _history(self, done: int) -> list[tuple[int, int]]:
        """Problems drawn up to each of the first `done` steps; also takes up their rewards."""
        draws: list[tuple[int, int]] = []
        file = self._folder / METRICS
        for line in read_lines(file, "step") if done and file.exists() else ():
            if line["step"] <= done:
                draws.append((line["step"], int(line["drawn"])))
                self._guard.add(line["step"], line["reward"])
        return draws

    def _restarted(self) -> Trainer[Decoder]:
        """The same weights with a fresh optimizer."""
        fresh = self._new_trainer(self._model())
        fresh.steps_done = self._trainer.steps_done
        return fresh
