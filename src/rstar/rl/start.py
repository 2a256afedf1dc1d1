"""Supervised traces that teach a policy the form of an agent's turns, from its own whole programs.

Reinforcement learning needs a start that calls tools, sees errors and can recover. Here the steps of a correct program
become cells, one or several a cell. Before some of them, the trace has attempts: what programs that failed do at this
point. The attempts are those that the policy sampled before it sampled the correct program, each once. So an attempt
in a trace succeeds as often as a sample of the policy does, and none is repeated. At a lower temperature of the order,
frequent samples come earlier, and attempts succeed more often. Where the environment has no tool to take cells back,
the problem is set up again. Some traces give up after their first attempt instead, so the start does both, and the
reward can decide between them. As the paper's first stage (arXiv 2508.20722, section 4), this teaches form, and nothing
about how to reason.

Every cell runs in the environment while the trace is made, so the trace shows what an agent would see. The first
attempt, and attempts that fail at once, are context, or the policy would be taught to fail. Everything else is trained
on: the cells of the correct program, the way back to it, the answer, the decision to give up, and further attempts that
run step by step. From these the policy learns to go on after a failure, and with what has not failed yet.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from rstar.agent.calls import Call
from rstar.agent.environment import GIVEN_UP, Environment
from rstar.agent.tools import NOTEBOOK, Session, Tool, ToolResult
from rstar.agent.trial import UNDO
from rstar.agent.turns import CodeTurns
from rstar.answers import AnswerKey
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError, DataError
from rstar.grading import verify
from rstar.jsonl import atomic_write, read_lines
from rstar.lifecycle import run_bounded
from rstar.problems import Problem
from rstar.prompts import code_steps as markers
from rstar.runs import TREES
from rstar.sandbox.api import Limits, Sandbox
from rstar.sandbox.once import OnceSandbox
from rstar.seeds import derive
from rstar.tiny.source import ProgressBar
from rstar.trees import Tree

_AT_ONCE = 8
"""Problems at a time. The states of each are kept: tens of processes."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that the policy wrote, as the code of its steps, and its answer, if correct; None if it failed."""

    steps: tuple[str, ...]
    answer: str | None


@dataclass(frozen=True, slots=True)
class StartConfig:
    """How traces are made.

    Attributes:
        per_problem: maximum number of traces per problem.
        failures: maximum number of failed attempts in a trace.
        give_up: of the traces with a failed attempt, the share that give up after it.
        cell_steps: maximum number of steps in a cell.
        whole: share of the traces without this limit, where all that is left of a program is one cell.
        temperature: of the order of the attempts, relative to that of the samples; at least 0.05. The lower it is, the
            earlier the programs come that the policy sampled often.
        seed: for all random choices.
    """

    per_problem: int = 3
    failures: int = 8
    give_up: float = 0.5
    cell_steps: int = 2
    whole: float = 0.5
    temperature: float = 1.0
    seed: int = 0


class TraceWriter:
    """Makes traces in an environment.

    Args:
        environment: runs the cells.
        sandbox: for the environment; open.
        limits: of a cell.
        config: how traces are made.

    Raises:
        ConfigError: the environment has no notebook.
    """

    def __init__(self, environment: Environment, sandbox: Sandbox, limits: Limits, config: StartConfig) -> None:
        if NOTEBOOK.name not in {tool.name for tool in environment.tools}:
            name = type(environment).__name__
            raise ConfigError(f"traces are made of notebook cells, and the environment {name} has no notebook")
        self._environment, self._sandbox, self._limits, self._config = environment, sandbox, limits, config

    async def write(self, runs: Iterable[Path], problems: ProblemSet, file: Path, bar: ProgressBar) -> dict[str, int]:
        """Write the traces of all problems of run folders (method ``sample``, with trees) as training data for SFT.

        Args:
            runs: the run folders.
            problems: those of the runs, with gold answers.
            file: JSONL file to write.
            bar: shows how many problems are done.

        Returns:
            Number of problems, of those without a correct program, of traces, and of traces that give up.

        Raises:
            DataError: a folder has no trees, a problem of it is not among `problems`, or no problem has a correct
                program.
            SandboxError: the sandbox failed.
        """
        counts = dict.fromkeys(("problems", "unsolved", "traces", "given_up"), 0)
        work = list(_programs_of_all(runs, problems))
        if not any(program.answer is not None for _, programs in work for program in programs):
            raise DataError(f"no traces: none of the {len(work):,} problems has a correct program in these runs")
        jobs = ((number, self._of_problem(*one)) for number, one in enumerate(work))
        done: dict[int, list[list[str]]] = {}
        with bar(len(work), "traces") as advance:
            async for number, task in run_bounded(jobs, _AT_ONCE):
                done[number] = task.result()
                advance(1)
        with atomic_write(file) as out:
            for number, (problem, programs) in enumerate(work):
                counts["problems"] += 1
                counts["unsolved"] += not any(program.answer is not None for program in programs)
                for index, pieces in enumerate(done[number]):
                    line = {"id": f"{problem.id}/{index}", "pieces": pieces}
                    out.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
                    counts["traces"] += 1
                    counts["given_up"] += pieces[-1] == _answer(GIVEN_UP)
        return counts

    async def _of_problem(self, problem: Problem, programs: Mapping[Program, int]) -> list[list[str]]:
        """Distinct traces of a problem, as pieces that alternate between shown and written."""
        config, rng = self._config, random.Random(derive(self._config.seed, "start", problem.id))
        is_solved = any(program.answer is not None for program in programs)
        traces: list[list[str]] = []
        async with OnceSandbox(self._sandbox) as sandbox:  # most cells are in several traces
            for _ in range(config.per_problem if is_solved else 0):
                *failed, chosen = self._attempts(programs, rng)
                session = self._environment.start(problem, sandbox, self._limits)
                trace = _Trace(problem, self._environment.tools, session)
                try:
                    made = await self._fill(trace, chosen, failed, rng)
                finally:
                    trace.session.release()
                if made and trace.pieces not in traces:
                    traces.append(trace.pieces)
        return traces

    def _attempts(self, programs: Mapping[Program, int], rng: random.Random) -> list[Program]:
        """The programs of one trace, in the order of their attempts; only the last one is correct."""
        order = _sampled(programs, self._config.temperature, rng)
        right = next(program for program in order if program.answer is not None)
        before = list(takewhile(lambda program: program is not right, order))
        if UNDO in self._environment.tools:  # the set-up is never taken back
            before = [program for program in before if program.steps[:1] == right.steps[:1]]
        return [*before[max(0, len(before) - self._config.failures) :], right]

    async def _fill(self, trace: _Trace, right: Program, failed: Sequence[Program], rng: random.Random) -> bool:
        """Write a trace. Returns whether it is of use: the cells of the correct program must run."""
        config = self._config
        size = sys.maxsize if rng.random() < config.whole else rng.randint(1, config.cell_steps)
        gives_up = rng.random() < config.give_up
        anew = self._dead_ends if rng.random() < 2 / 3 else self._side_steps
        attempts = self._one_by_one if trace.can_undo else anew
        if not await attempts(trace, right, failed[:1] if gives_up else failed, size):
            return False
        if trace.attempted and gives_up:
            trace.end(GIVEN_UP)
            return True
        if not await trace.go_to(right.steps, len(right.steps), size):
            return False
        assert right.answer is not None
        trace.end(right.answer)
        return True

    @staticmethod
    async def _one_by_one(trace: _Trace, right: Program, failed: Sequence[Program], size: int) -> bool:
        """Attempts that each go back no further than to where they leave the one before.

        Returns whether the set-up succeeded.
        """
        for program in failed:
            if not await trace.go_to(program.steps, 1, 1):
                return False
            await trace.run_into(program.steps, size)
        return True

    @staticmethod
    async def _side_steps(trace: _Trace, right: Program, failed: Sequence[Program], size: int) -> bool:
        """Attempts that leave the correct program at some step, and fail at once; then it goes on from there.

        Returns whether its steps succeeded.
        """
        for program in sorted(failed, key=lambda program: _common(program.steps, right.steps)):
            common = _common(program.steps, right.steps)
            if not await trace.go_to(right.steps, common, size):
                return False
            await trace.attempt(program.steps[common:])
        return True

    @staticmethod
    async def _dead_ends(trace: _Trace, right: Program, failed: Sequence[Program], size: int) -> bool:
        """Attempts whose first cells succeed, until one fails; each begins where it leaves what holds.

        Returns whether what they have in common with the correct program succeeded.
        """
        for program in failed:
            common = _common(program.steps, right.steps)
            if not common:
                await trace.attempt(program.steps)
            elif not await trace.go_to(program.steps, 1, 1):  # it has the set-up of the correct program
                return False
            else:
                await trace.run_into(program.steps, size)
        return True


class _Trace:
    """A trace under way.

    Attributes:
        pieces: text so far, alternately shown and written.
        session: of the tools, after the cells so far.
        attempted: whether a cell has failed.
        can_undo: whether there is a tool to take cells back.
    """

    def __init__(self, problem: Problem, tools: Sequence[Tool], session: Session) -> None:
        self._turns, self.can_undo = CodeTurns(tools), UNDO in tools
        self.pieces = [self._turns.prompt(problem.question, "", tools)]
        self.session, self.attempted = session, False
        self._cells: list[Sequence[str]] = []  # steps of each cell that holds
        self._known: set[tuple[str, ...]] = set()  # what has failed: the steps that held, and the cell's

    async def go_to(self, steps: Sequence[str], count: int, size: int) -> bool:
        """Add cells, to be trained on, after which at least the first `count` steps hold, and no others than `steps`.

        Goes back first if others hold. Cells have at most `size` steps. Returns whether all succeeded.
        """
        while self._cells and _common(held := self._held(), steps) < len(held):
            if self.can_undo:
                self._add(*await self._call(Call(UNDO.name, {}), f"{UNDO.name}()"))
                self._cells.pop()
            else:
                self._cells = []
                if not await self._write(steps[:1]):
                    return False
        if self.can_undo and count and not self._cells and not await self._write(steps[:1]):  # alone: it stays
            return False
        for start in range(len(self._held()), count, size):
            if not await self._write(steps[start : min(start + size, count)]):
                return False
        return True

    async def attempt(self, steps: Sequence[str]) -> None:
        """Add a cell that fails, as context; nothing if there are no steps, or they succeed."""
        if not steps:
            return
        before = self.session
        cell, result = await self._run(steps, keep=True)
        if result.status == "ok":
            self.session.release()
            self.session = before
            return
        if self.session is not before:
            before.release()
        self._show(cell, result)
        self.attempted = True

    async def run_into(self, steps: Sequence[str], size: int) -> None:
        """Go on from what holds with cells of at most `size` steps, until one fails; none fails twice.

        They are context if nothing has failed so far.
        """
        add = self._add if self.attempted else self._show
        for start in range(len(self._held()), len(steps), size):
            tried = tuple(steps[: start + size])
            if tried in self._known:
                return
            cell, result = await self._run(steps[start : start + size])
            add(cell, result)
            if result.status != "ok":
                self._known.add(tried)
                self.attempted = True
                return
            self._cells.append(steps[start : start + size])

    def end(self, answer: str) -> None:
        """Add the answer."""
        self.pieces.append(_answer(answer))

    def _held(self) -> list[str]:
        return [step for cell in self._cells for step in cell]

    async def _write(self, steps: Sequence[str]) -> bool:
        cell, result = await self._run(steps)
        if result.status != "ok":
            return False
        self._add(cell, result)
        self._cells.append(steps)
        return True

    def _add(self, cell: str, result: ToolResult) -> None:
        self.pieces += [cell, self._turns.responses([result.text])]

    def _show(self, cell: str, result: ToolResult) -> None:
        self.pieces[-1] += cell + self._turns.responses([result.text])

    async def _run(self, steps: Sequence[str], keep: bool = False) -> tuple[str, ToolResult]:
        """Run a cell; with `keep`, the session before it is not released."""
        code = "\n".join(steps)
        return await self._call(Call(NOTEBOOK.name, {"code": code}), code, keep)

    async def _call(self, call: Call, code: str, keep: bool = False) -> tuple[str, ToolResult]:
        """Make the call that the cell `code` stands for."""
        before = self.session
        self.session, result = await before.call(call)
        if self.session is not before and not keep:
            before.release()
        return f"{markers.CODE}\n{code}\n{markers.END_CODE}", result


def _programs_of_all(runs: Iterable[Path], problems: ProblemSet) -> Iterable[tuple[Problem, dict[Program, int]]]:
    """The problems of all runs, each with its programs and their numbers of samples, in all runs together."""
    known = {problem.id: problem for problem in problems.problems}
    found: dict[str, Counter[Program]] = {}
    for run in runs:
        if not (run / TREES).is_file():
            raise DataError(f"{run / TREES} is missing: run `rstar solve --method sample` with search.keep_trees")
        is_empty = True
        for line in read_lines(run / TREES):
            name = line["id"]
            if name not in known or name not in problems.keys:
                raise DataError(f"{run / TREES}: problem {name!r} is not in the problem file, or has no gold answer")
            programs = _programs(Tree.from_json(line), problems.keys[name])
            found.setdefault(name, Counter()).update(programs)
            is_empty = is_empty and not programs
        if is_empty:
            raise DataError(f"{run / TREES} holds no whole programs: they come from `rstar solve --method sample`")
    for name, programs in found.items():
        yield known[name], programs


def _programs(tree: Tree, key: AnswerKey) -> Counter[Program]:
    """The programs that the policy wrote for one problem and that ended with a correct answer or an error."""
    programs: Counter[Program] = Counter()
    for node in tree.nodes[1:]:
        step = node.step
        if step is None or not step.written.text.endswith(markers.END_CODE):
            continue
        parts = step.written.text.removesuffix(markers.END_CODE).split(markers.END_STEP)
        steps = tuple(part.strip("\n") for part in parts if part.strip())
        if step.error is not None:
            programs[Program(steps, None)] += node.votes
        elif node.answer is not None and verify(key, node.answer).correct:
            programs[Program(steps, node.answer)] += node.votes
    return programs


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Number of first steps that two programs have in common."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _sampled(programs: Mapping[Program, int], temperature: float, rng: random.Random) -> list[Program]:
    """Programs in a random order: that in which the policy, at a temperature, would sample each for the first time.

    Args:
        programs: with their numbers of samples.
        temperature: relative to that of the samples.
        rng: for the order.
    """
    return sorted(programs, key=lambda program: rng.expovariate(programs[program] ** (1 / temperature)))


def _answer(text: str) -> str:
    return markers.ANSWER + markers.answer(text)


def counts_text(counts: Mapping[str, int]) -> str:
    """One line about what was written."""
    return (
        f"{counts['traces']:,} traces for {counts['problems']:,} problems; {counts['given_up']:,} traces give up; "
        f"{counts['unsolved']:,} problems had no correct program"
    )
