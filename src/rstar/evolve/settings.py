"""Settings of self-evolution. One TOML file per run, `recipes/*/evolve.toml`; unknown keys are rejected."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from rstar.config import EngineConfig, MctsConfig, SandboxConfig
from rstar.errors import ConfigError
from rstar.evolve.extract import ExtractConfig
from rstar.models.spec import is_local
from rstar.sections import Section, checked
from rstar.specs import ModelSetting
from rstar.tiny.generate import parse_levels
from rstar.tiny.source import ProblemSource
from rstar.train.ppm import PPMConfig
from rstar.train.settings import C, TrainConfig


def _drawn(sources: list[ProblemSource]) -> list[ProblemSource]:
    if any(source.n is None for source in sources):
        raise ValueError("only drawn problems have reference solutions: set `n`")
    return sources


References = Annotated[list[ProblemSource], AfterValidator(_drawn)]
"""Problems to draw, with their reference solutions."""


class Bootstrap(Section):
    """A base model trained from scratch on reference solutions."""

    problems: References = Field(min_length=1, description="sets of problems to draw: the stages of a curriculum")
    train: TrainConfig = Field(description="training settings: `rstar train settings`")


class Round(Section):
    """One round: search, then training on the results."""

    rollouts: int = Field(16, ge=1, description="number of MCTS rollouts per problem")
    take: int | None = Field(None, ge=1, description="number of new problems in this round; unset: all problems")
    levels: str = Field("", description="difficulty levels of the problems, such as 1-3; unset: all")
    value: Literal["terminal", "ppm"] = Field(
        "terminal",
        description="initial Q of partial solutions: terminal (none) | ppm (score of the previous round's PPM)",
    )
    unsolved: list[int] = Field(
        [],
        description="number of rollouts in each further search for solutions to the unsolved problems, such as "
        "[64, 128]; every search uses a new seed",
    )
    most: int | None = Field(
        None, ge=1, description="maximum number of unsolved problems per further search, picked at even intervals"
    )
    policy: dict[str, Any] = Field({}, description="policy training settings that differ in this round")
    ppm: dict[str, Any] = Field({}, description="PPM training settings that differ in this round")

    @field_validator("levels")
    @classmethod
    def _valid_levels(cls, levels: str) -> str:
        try:
            if levels:
                parse_levels(levels)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return levels


class EvolveConfig(Section):
    """Self-evolution of a policy and a process preference model (arXiv 2501.04519, section 3.4)."""

    model_config = ConfigDict(populate_by_name=True)

    base: ModelSetting | None = Field(
        None, description="model that every round fine-tunes: tiny | hf:PATH; cannot be combined with `bootstrap`"
    )
    bootstrap: Bootstrap | None = Field(None, description="train the base from scratch; cannot be combined with `base`")
    replay: References = Field(
        [], description="problems to draw; every policy is also trained on their reference solutions"
    )
    first_policy: ModelSetting | None = Field(None, description="model that searches in round 1; unset: the base")
    first_shots: int = Field(
        0, ge=0, le=4, description="number of worked examples in round 1, for models not trained on the step format"
    )
    seed: int = Field(0, ge=0, description="seed for all searches")
    problems: ProblemSource = Field(description="training problems: questions and gold answers")
    held_out: ProblemSource = Field(description="evaluation problems")
    accumulate: bool = Field(
        False, description="true: train on the trees of all rounds so far; false: only on those of the current round"
    )
    search: MctsConfig = Field(MctsConfig(), description="search settings: `rstar info --settings`")
    sandbox: SandboxConfig = Field(SandboxConfig(), description="sandbox settings: `rstar info --settings`")
    engine: EngineConfig = Field(EngineConfig(), description="engine settings: `rstar info --settings`")
    extract: ExtractConfig = ExtractConfig()
    policy: TrainConfig = Field(description="policy training, starting from the base: `rstar train settings`")
    ppm: PPMConfig = Field(description="PPM training, starting from the round's policy: `rstar train settings`")
    rounds: list[Round] = Field(alias="round", min_length=1)
    entries: list[dict[str, Any]] = Field(
        alias="entry", min_length=1, description="evaluations after each round, as for `rstar compare`"
    )
    launcher: list[str] = Field(
        [],
        description="command that starts training processes, such as torchrun --nproc-per-node 8; empty: one process",
    )
    serve: list[str] = Field(
        [], description="command that serves a model, with {model} and {port} in it; empty: models run in this process"
    )
    serve_port: int = Field(8765, ge=1, le=65535, description="port of the server")
    serve_seconds: float = Field(600.0, gt=0, description="time limit for the start of the server, seconds")

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        if (self.base is None) == (self.bootstrap is None):
            raise ValueError("set either `base` (a model) or `bootstrap`")
        if self.base is not None and not is_local(self.base):
            raise ValueError(f"base = {str(self.base)!r}: expected a trainable model: tiny or hf:PATH")
        if self.rounds[0].value == "ppm":
            raise ValueError("round 1: value must be terminal, because there is no PPM yet")
        if not self.search.keep_trees:
            raise ValueError("search.keep_trees: must be true, because training data comes from trees")
        if any(rollouts < 1 for one in self.rounds for rollouts in one.unsolved):
            raise ValueError("round.unsolved: every search needs at least one rollout")
        if odd := sorted({key for entry in self.entries for key in ("policy", "seed") if key in entry}):
            raise ValueError(f"entry.{odd[0]}: not allowed; entries evaluate each round's policy with the run's seed")
        for part in ("{model}", "{port}"):
            if self.serve and not any(part in word for word in self.serve):
                raise ValueError(f"serve: the command must contain {part}")
        models = [self.policy, self.ppm]
        try:
            for number, settings in enumerate(self.rounds, 1):
                models.append(with_overrides(self.policy, settings.policy, f"round {number}: policy"))
                models.append(with_overrides(self.ppm, settings.ppm, f"round {number}: ppm"))
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if any(model.base is not None for model in models):
            raise ValueError("policy.base, ppm.base: not allowed; policies start from `base`, PPMs from their policy")
        return self

    def identity(self) -> dict[str, Any]:
        """The settings that decide the results (not where or how fast they are computed), nested."""
        excluded = ("launcher", "serve", "serve_port", "serve_seconds", "sandbox", "engine")
        return self.model_dump(mode="json", exclude=dict.fromkeys(excluded, True) | {"search": {"concurrency"}})


def with_overrides(config: C, own: dict[str, Any], where: str = "round") -> C:
    """A training configuration with a round's `own` settings. Raises `ConfigError` that starts with `where`."""
    return checked(type(config), config.model_dump() | own, where)
