"""The value of nodes while training data is generated (arXiv 2501.04519, section 3.3).

Here, and nowhere else, search learns how a trajectory really ended: through a function from an answer to a value. The
search itself does not change, and still knows no gold answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rstar.answers import AnswerKey
from rstar.errors import DataError
from rstar.grading import verify
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.reward import Reward
from rstar.trajectories import Trajectory

RIGHT, WRONG = 1.0, -1.0

TerminalValue = Callable[[Problem, str], float]
"""What an answer to a problem is worth, in [-1, 1]."""


def verified(keys: Mapping[str, AnswerKey]) -> TerminalValue:
    """+1 for an answer that the key of its problem accepts, -1 for any other. Raises `DataError` without a key."""

    def value(problem: Problem, answer: str) -> float:
        key = keys.get(problem.id)
        if key is None:
            raise DataError(f"problem {problem.id!r} has no gold answer: it cannot be used for training data")
        return RIGHT if verify(key, answer).correct else WRONG

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
