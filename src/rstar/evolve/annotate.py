"""Search with verified ends, for training data (arXiv 2501.04519, section 3.3).

Only here does a search learn, through a reward, whether a trajectory ended correctly. The search itself is unchanged
and still knows no gold answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rstar.config import Config
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError
from rstar.evals.rewards import Reward, verified
from rstar.evals.run import FinishedRun, solve_run
from rstar.evolve.trees import VERIFIED_ENDS
from rstar.jsonl import Record
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.solver import Solver
from rstar.search.value import Value, open_value, ppm_folder
from rstar.trajectories import Trajectory


class Annotation:
    """A value that scores ends with a reward.

    Terminal-guided (rounds 1 and 2): partial solutions have no value; their Q comes from back-propagation alone.
    PPM-augmented (rounds 3 and 4): the Q of partial solutions starts at the value `partial`.
    """

    name = "annotation"

    def __init__(self, reward: Reward, partial: Value | None = None) -> None:
        self._reward, self._partial = reward, partial

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `rstar.search.value.Value.score`. Raises what the reward raises."""
        values: list[float | None] = [
            None if t.answer is None else self._reward(problem, t.answer) for t in trajectories
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
    extra_identity: Mapping[str, str] | None = None,
) -> FinishedRun:
    """Search problems for training data: trees with verified ends, in a run folder that can be resumed.

    Args:
        config: of the search, by MCTS. With a value ``ppm:PATH`` the Q of partial solutions starts at the PPM's score
            (rounds 3 and 4); any other value is not used (rounds 1 and 2).
        problems: all with gold answers.
        folder: the run folder.
        on_result: see `rstar.evals.run.solve_run`, also for `extra_identity`.

    Raises:
        ConfigError: the method is not MCTS.
        DataError: a problem has no gold answer.
        And all that `solve_run` raises.
    """
    if config.search.method != "mcts":
        raise ConfigError(f"search.method = {config.search.method!r}: training data comes from mcts")
    problems.require_gold("training data")
    partial = None
    if ppm_folder(config.value) is not None:
        partial = open_value(config.value, config.engine.device)
    else:  # no value is used, so none belongs in the identity
        config = config.model_copy(update={"value": "agreement"})
    solver = Solver(config, value=Annotation(verified(problems.keys), partial))
    identity = dict(extra_identity or {}) | VERIFIED_ENDS
    return await solve_run(config, problems, folder, on_result, solver, extra_identity=identity)


def is_solved(record: Record) -> bool:
    """Whether a result has a verified solution."""
    return any(trajectory["correct"] for trajectory in record["trajectories"])
