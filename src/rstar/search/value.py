"""Values: estimates of (partial) solutions during search, without a gold answer.

A value sees the problem, the solution and the answers found so far. A *reward* knows the gold answer; only training and
evaluation have one (`rstar.evals.rewards`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rstar.config import Config
from rstar.errors import EngineError
from rstar.models.spec import check_folder, local_extra, local_folder
from rstar.problems import Problem
from rstar.prompts.code_steps import prompt
from rstar.prompts.numbers import IN_CODE, IN_TEXT, numbers
from rstar.search.choose import Votes
from rstar.specs import Bundled, Ppm
from rstar.specs import Value as ValueName
from rstar.trajectories import Trajectory

if TYPE_CHECKING:
    from rstar.models.ppm.scorer import Scorer

_COMMENT = re.compile(r"""("[^"\n]*"|'[^'\n]*')|#.*""")


class Value(Protocol):
    """Scores solutions."""

    name: str

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """One value in [-1, 1] per trajectory (higher is better); None if it has no opinion.

        Args:
            problem: the problem.
            trajectories: partial solutions, and finished ones with `answer` set.
            votes: the answers found so far, including those of `trajectories`.
        """
        ...


class Agreement:
    """Self-consistency: the share by mass, in [0, 1], of the answers so far that agree with a solution's answer.

    Partial solutions get no value.
    """

    name = "agreement"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Value.score`."""
        return [None if t.answer is None else await votes.share(t.answer) for t in trajectories]


class Grounded(Agreement):
    """Agreement, divided by four for every number of the question that the solution's code does not use.

    0.25 counts as a use of 25. A solution that misreads the question often leaves out a number. A number that no
    solution needs lowers all values alike. Partial solutions get no value.
    """

    name = "grounded"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Value.score`."""
        shares = await super().score(problem, trajectories, votes)
        wanted = set(numbers(IN_TEXT, problem.question))
        unused = [len(wanted - _used(t)) for t in trajectories]
        return [None if share is None else share / 4**n for share, n in zip(shares, unused, strict=True)]


def _used(trajectory: Trajectory) -> set[Decimal]:
    code = "\n".join(_COMMENT.sub(r"\1", step.written.text) for step in trajectory.steps)
    used = set(numbers(IN_CODE, code))
    return used | {100 * number for number in used if number < 1}


class LogProb:
    """The policy's confidence 1 / (1 − log p(solution)), in (0, 1]; ranks solutions by sum of log-probabilities."""

    name = "logprob"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Value.score`. Raises `EngineError` if the policy reports no log-probabilities."""
        if any(t.lacks_logprobs for t in trajectories):
            raise EngineError("value 'logprob' needs log-probabilities, but this model does not report them")
        return [1 / (1 - t.logprob) for t in trajectories]


class Preference:
    """A process preference model: the value of a solution up to its last step, in [-1, 1] (`rstar.models.ppm.model`).

    Args:
        folder: model folder; loaded when the first solution is scored.
        device: where the model runs; ``auto``: an accelerator if there is one.

    Raises:
        ConfigError: `folder` is not a model folder.
    """

    name = "ppm"

    def __init__(self, folder: Path, device: str = "auto") -> None:
        check_folder(folder, f"value ppm:{folder}")
        self._folder, self._device = folder, device
        self._scorer: Scorer | None = None
        self._loading = asyncio.Lock()

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Value.score`. A solution too long for the model gets None."""
        async with self._loading:
            if self._scorer is None:
                self._scorer = await asyncio.to_thread(_load_scorer, self._folder, self._device)
        if self._scorer.encoder.reads_logprobs and any(t.lacks_logprobs for t in trajectories):
            raise EngineError("this PPM reads the policy's log-probabilities, but this model does not report them")
        return await self._scorer.score(prompt(problem.question), [trajectory.steps for trajectory in trajectories])


def _load_scorer(folder: Path, device: str) -> Scorer:
    with local_extra(f"value ppm:{folder}"):
        from rstar.models.ppm.scorer import Scorer  # imports torch: only if a PPM scores
    return Scorer(folder, device=device)


def value_name(config: Config, *, own_policy: bool = False) -> ValueName:
    """The value that a run uses: ``auto`` is resolved, any other value stays.

    Args:
        config: of the run.
        own_policy: the caller supplied the policy, so the bundled PPM may be unable to read it.
    """
    if config.value != "auto":
        return config.value
    # Only a beam needs values of partial solutions. Elsewhere the bundled PPM is no better than agreement.
    bundled = config.policy == Bundled() and not own_policy
    return Ppm(Bundled()) if bundled and config.search.method == "beam" else "agreement"


def ppm_folder(name: ValueName) -> Path | None:
    """The folder of a PPM; None for any other value. Raises `ConfigError` if the bundled PPM is not installed."""
    return local_folder(name.model, "ppm") if isinstance(name, Ppm) else None


def open_value(name: ValueName, device: str = "auto") -> Value:
    """Open the value of that name (not ``auto``); a PPM runs on `device`. Raises `ConfigError` for a missing model."""
    if (folder := ppm_folder(name)) is not None:
        return Preference(folder, device)
    rules: dict[str, type[Agreement] | type[LogProb]] = {kind.name: kind for kind in (Agreement, Grounded, LogProb)}
    return rules[str(name)]()
