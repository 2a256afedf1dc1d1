"""Supervised traces that teach a policy the form of an agent's turns, from its own whole programs.

Reinforcement learning needs a start that calls tools, sees errors and can recover. Here the policy's sampled programs
become cells: programs that failed are attempts, with the error that they raised; a correct one ends the trace. Some
traces give up after a failed attempt instead, so the start does both, and the reward can decide between them. As the
paper's first stage (arXiv 2508.20722, section 4), this teaches form, and nothing about how to reason.

Only the correct cell, the answer and the decision to give up are trained on. Failed cells are context, or the policy
would be taught to fail.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rstar.agent.environment import GIVEN_UP
from rstar.agent.turns import CodeTurns
from rstar.answers import AnswerKey
from rstar.datasets import ProblemSet
from rstar.errors import DataError
from rstar.grading import verify
from rstar.jsonl import atomic_write, read_lines
from rstar.prompts import code_steps as markers
from rstar.runs import TREES
from rstar.seeds import derive
from rstar.trees import Tree


@dataclass(frozen=True, slots=True)
class Attempt:
    """A program that the policy wrote: its code as a cell, what the notebook shows, and its answer, if correct."""

    cell: str
    shown: str
    answer: str | None


@dataclass(frozen=True, slots=True)
class StartConfig:
    """How traces are made.

    Attributes:
        per_problem: maximum number of traces per problem.
        failures: maximum number of failed attempts in a trace.
        give_up: share of the traces with a failure that give up.
        seed: for all random choices.
    """

    per_problem: int = 3
    failures: int = 4
    give_up: float = 0.5
    seed: int = 0


def write_traces(runs: Iterable[Path], problems: ProblemSet, file: Path, config: StartConfig) -> dict[str, int]:
    """Write the traces of all problems of run folders (method ``sample``, with trees) as training data for SFT.

    Returns:
        Number of problems, of those without a correct program, of traces, and of traces that give up.

    Raises:
        DataError: a folder has no trees, or a problem of it is not among `problems`.
    """
    counts = dict.fromkeys(("problems", "unsolved", "traces", "given_up"), 0)
    questions = {problem.id: problem.question for problem in problems.problems}
    with atomic_write(file) as out:
        for run in runs:
            if not (run / TREES).is_file():
                raise DataError(f"{run / TREES} is missing: run `rstar solve --method sample` with search.keep_trees")
            for line in read_lines(run / TREES):
                name = line["id"]
                if name not in questions or name not in problems.keys:
                    raise DataError(
                        f"{run / TREES}: problem {name!r} is not in the problem file, or has no gold answer"
                    )
                attempts = list(_attempts(Tree.from_json(line), problems.keys[name]))
                rng = random.Random(derive(config.seed, "start", name))
                counts["problems"] += 1
                counts["unsolved"] += not any(one.answer is not None for one in attempts)
                for number, (pieces, given_up) in enumerate(_traces(questions[name], attempts, config, rng)):
                    out.write(json.dumps({"id": f"{name}/{number}", "pieces": pieces}, ensure_ascii=False).encode())
                    out.write(b"\n")
                    counts["traces"] += 1
                    counts["given_up"] += given_up
    return counts


def _attempts(tree: Tree, key: AnswerKey) -> Iterator[Attempt]:
    """The distinct programs that the policy wrote for one problem and that ended with a correct answer or an error."""
    seen: set[str] = set()
    for node in tree.nodes[1:]:
        step = node.step
        if step is None or not step.written.text.endswith(markers.END_CODE) or step.written.text in seen:
            continue
        seen.add(step.written.text)
        code = step.written.text.removesuffix(markers.END_CODE).replace(f"{markers.END_STEP}\n", "")
        cell = f"{markers.CODE}\n{code.replace(markers.END_STEP, '').strip()}\n{markers.END_CODE}"
        if step.error is not None:
            yield Attempt(cell, step.error, None)
        elif node.answer is not None and verify(key, node.answer).correct:
            output = step.shown.partition(markers.OUTPUT)[2].partition(markers.END_OUTPUT)[0]
            yield Attempt(cell, output, node.answer)


def _traces(
    question: str, attempts: list[Attempt], config: StartConfig, rng: random.Random
) -> Iterator[tuple[list[str], bool]]:
    """Traces as pieces, alternately shown and written, and whether each gives up."""
    turns = CodeTurns()
    right = [one for one in attempts if one.answer is not None]
    wrong = [one for one in attempts if one.answer is None]
    made: set[str] = set()
    for _ in range(config.per_problem if right else 0):
        one = rng.choice(right)
        failed = rng.sample(wrong, min(len(wrong), rng.randint(0, config.failures)))
        shown = turns.prompt(question, "", ())
        for attempt in failed:
            shown += attempt.cell + turns.responses([attempt.shown])
        given_up = bool(failed) and rng.random() < config.give_up
        if given_up:
            pieces = [shown, _answer(GIVEN_UP)]
        else:
            assert one.answer is not None
            pieces = [shown, one.cell, turns.responses([one.shown]), _answer(one.answer)]
        if (text := "".join(pieces)) not in made:
            made.add(text)
            yield pieces, given_up


def _answer(text: str) -> str:
    return markers.ANSWER + markers.answer(text)


def counts_text(counts: Mapping[str, int]) -> str:
    """One line about what was written."""
    return (
        f"{counts['traces']:,} traces for {counts['problems']:,} problems; {counts['given_up']:,} traces give up; "
        f"{counts['unsolved']:,} problems had no correct program"
    )
