"""What a (partial) solution is worth at inference time.

A reward sees the problem, the solution and the answers that the search has found so far. It never sees a gold answer:
`Problem` has none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rstar.config import Config
from rstar.errors import ConfigError, EngineError
from rstar.models.spec import check_folder, tiny_folder
from rstar.problems import Problem
from rstar.prompts.numbers import IN_CODE, IN_TEXT, numbers
from rstar.prompts.steps import prompt
from rstar.search.choose import Votes
from rstar.trajectories import Trajectory

if TYPE_CHECKING:
    from rstar.models.ppm_scorer import Scorer

_COMMENT = re.compile(r"""("[^"\n]*"|'[^'\n]*')|#.*""")


class Reward(Protocol):
    """Scores solutions."""

    name: str

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """One value in [-1, 1] for each trajectory (higher is better), None where it has no opinion.

        Args:
            problem: what is being solved.
            trajectories: partial solutions, and finished ones whose `answer` is set.
            votes: the answers found so far, those of `trajectories` included.
        """
        ...


class Agreement:
    """The share of the answers so far, by mass, that agree with a solution's answer: self-consistency in [0, 1].

    It says nothing of partial solutions.
    """

    name = "agreement"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Reward.score`."""
        return [None if t.answer is None else await votes.share(t.answer) for t in trajectories]


class Grounded(Agreement):
    """Agreement, divided by four for every number of the question that the solution's code does not use (25 is used
    also by who writes 0.25).

    Who misreads a question often leaves something out. A question may hold numbers that nobody needs: all solutions pay
    for those alike. It says nothing of partial solutions.
    """

    name = "grounded"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Reward.score`."""
        shares = await super().score(problem, trajectories, votes)
        wanted = set(numbers(IN_TEXT, problem.question))
        unused = [len(wanted - _used(t)) for t in trajectories]
        return [None if share is None else share / 4**n for share, n in zip(shares, unused, strict=True)]


def _used(trajectory: Trajectory) -> set[Decimal]:
    code = "\n".join(_COMMENT.sub(r"\1", step.text) for step in trajectory.steps)
    used = set(numbers(IN_CODE, code))
    return used | {100 * number for number in used if number < 1}


class LogProb:
    """The policy's own confidence: 1 / (1 − log p(solution)), which orders solutions as the sum of log-probabilities
    does and lies in (0, 1].
    """

    name = "logprob"

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Reward.score`. Raises `EngineError` when the policy tells no log-probabilities."""
        if any(step.text and not step.logprobs for t in trajectories for step in t.steps):
            raise EngineError("reward 'logprob' needs log-probabilities, and this model does not tell them")
        return [1 / (1 - t.logprob) for t in trajectories]


class Preference:
    """A process preference model: how good a solution is up to its last step, in [-1, 1] (see `rstar.models.ppm`).

    Args:
        folder: the model's; it is loaded when the first solution is scored.
        device: where it computes; ``auto`` is an accelerator where there is one.

    Raises:
        ConfigError: it is no model's folder.
    """

    name = "ppm"

    def __init__(self, folder: Path, device: str = "auto") -> None:
        check_folder(folder, f"reward ppm:{folder}")
        self._folder, self._device = folder, device
        self._scorer: Scorer | None = None
        self._loading = asyncio.Lock()

    async def score(self, problem: Problem, trajectories: Sequence[Trajectory], votes: Votes) -> Sequence[float | None]:
        """See `Reward.score`. A solution that is too long for the model gets no opinion."""
        async with self._loading:
            if self._scorer is None:
                self._scorer = await asyncio.to_thread(_load_scorer, self._folder, self._device)
        if self._scorer.reads_logprobs and any(
            step.text and not step.logprobs for t in trajectories for step in t.steps
        ):
            raise EngineError("this PPM reads the policy's log-probabilities, and this model does not tell them")
        return await self._scorer.score(prompt(problem.question), [trajectory.steps for trajectory in trajectories])


def _load_scorer(folder: Path, device: str) -> Scorer:
    try:
        from rstar.models.ppm_scorer import Scorer  # torch is imported only where a model scores
    except ImportError as error:
        raise ConfigError(f"reward ppm:{folder}: needs {error.name}; install rstar[local]") from error
    return Scorer(folder, device=device)


def reward_spec(config: Config, given: bool = False) -> str:
    """What `config.reward` means: ``auto`` becomes a reward with a name, any other stays.

    Args:
        config: of a run.
        given: its policy is an object of the caller's, so nobody knows whether the bundled PPM can read it.
    """
    if config.reward != "auto":
        return config.reward
    judged = config.search.method not in ("greedy", "sample")
    return "ppm:tiny" if config.policy == "tiny" and judged and not given else "agreement"


def ppm_folder(spec: str) -> Path | None:
    """The folder of a reward ``ppm:FOLDER`` or ``ppm:tiny``; None for any other.

    Raises:
        ConfigError: ``ppm:tiny`` in an installation without it.
    """
    kind, _, rest = spec.partition(":")
    if kind != "ppm" or not rest:
        return None
    return tiny_folder("ppm") if rest == "tiny" else Path(rest).expanduser()


def open_reward(spec: str, device: str = "auto") -> Reward:
    """The reward that a ``--reward`` SPEC names; a model computes on `device`. Raises `ConfigError` for a bad SPEC."""
    if (folder := ppm_folder(spec)) is not None:
        return Preference(folder, device)
    rewards: dict[str, type[Agreement] | type[LogProb]] = {kind.name: kind for kind in (Agreement, Grounded, LogProb)}
    if spec not in rewards:
        raise ConfigError(f"reward {spec!r}: expected one of auto, {', '.join(rewards)}, ppm:FOLDER, ppm:tiny")
    return rewards[spec]()
