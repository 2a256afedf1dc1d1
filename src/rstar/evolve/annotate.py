"""Generating training data: search whose ends are verified (arXiv 2501.04519, section 3.3).

Here, and nowhere else, search learns how a trajectory really ended: through a function from an answer to a value. The
search itself does not change, and still knows no gold answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rstar.answers import AnswerKey
from rstar.config import Config
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError
from rstar.evals.solve import Finished, Record, solve_run
from rstar.evolve.trees import RIGHT, VERIFIED_ENDS, WRONG
from rstar.grading import verify
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.reward import Reward, open_reward, ppm_folder
from rstar.search.solver import Solver
from rstar.trajectories import Trajectory

TerminalValue = Callable[[Problem, str], float]
"""What an answer to a problem is worth, in [-1, 1]."""


def verified(keys: Mapping[str, AnswerKey]) -> TerminalValue:
    """+1 for an answer that the key of its problem accepts, -1 for any other; every problem must have one."""

    def value(problem: Problem, answer: str) -> float:
        return RIGHT if verify(keys[problem.id], answer).correct else WRONG

    return value


class Annotation:
    """A reward whose ends are verified.

    Terminal-guided (rounds 1 and 2): nothing is said of partial solutions, whose Q comes from back-propagation alone.
    PPM-augmented (rounds 3 and 4): with `partial`, their Q starts at that reward's prediction.
    """

    name = "annotation"

    def __init__(self, terminal_value: TerminalValue, partial: Reward | None = None) -> None:
        self._terminal_value = terminal_value
        self._partial = partial

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `rstar.search.reward.Reward.score`. Raises what the terminal value raises."""
        values: list[float | None] = [
            None if t.answer is None else self._terminal_value(problem, t.answer) for t in trajectories
        ]
        open_ones = [place for place, t in enumerate(trajectories) if t.answer is None]
        if self._partial is not None and open_ones:
            said = await self._partial.score(problem, [trajectories[place] for place in open_ones], votes)
            for place, value in zip(open_ones, said, strict=True):
                values[place] = value
        return values


async def generate(
    config: Config,
    problems: ProblemSet,
    folder: Path,
    on_result: Callable[[Record], None] = lambda record: None,
    further: Mapping[str, str] | None = None,
) -> Finished:
    """Search problems for training data: trees with verified ends, in a run folder, which is continued.

    Args:
        config: of the search, by MCTS. A reward ``ppm:FOLDER`` begins the Q of partial solutions (rounds 3 and 4); any
            other, and ``auto``, is not used (rounds 1 and 2).
        problems: all with gold answers.
        folder: the run folder.
        on_result: see `rstar.evals.solve.solve_run`; so is `further`.

    Raises:
        ConfigError: another method than MCTS.
        DataError: a problem without a gold answer.
        And all that `solve_run` raises.
    """
    if config.search.method != "mcts":
        raise ConfigError(f"search.method = {config.search.method!r}: training data comes from mcts")
    problems.need_gold("training data")
    partial = None
    if ppm_folder(config.reward) is not None:
        partial = open_reward(config.reward, config.engine.device)
    else:  # no reward takes part, and none, such as the one that `auto` means, belongs to the run's identity
        config = config.model_copy(update={"reward": "agreement"})
    solver = Solver(config, reward=Annotation(verified(problems.keys), partial))
    return await solve_run(config, problems, folder, on_result, solver, further=dict(further or {}) | VERIFIED_ENDS)


def is_solved(record: Record) -> bool:
    """Whether a result has a verified solution."""
    return any(trajectory["correct"] for trajectory in record["trajectories"])
