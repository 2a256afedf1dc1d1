"""Settings of self-evolution. One TOML file per run, `recipes/*/evolve.toml`; unknown keys are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, field_validator, model_validator

from rstar.config import EngineConfig, MctsConfig, SandboxConfig
from rstar.errors import ConfigError
from rstar.evolve.extract import ExtractConfig
from rstar.models.spec import is_local
from rstar.sections import Section, checked, merged, override, read_toml
from rstar.specs import ModelSetting
from rstar.tiny.family import Split
from rstar.tiny.generate import parse_levels
from rstar.train.ppm import PPMConfig
from rstar.train.settings import TrainConfig

C = TypeVar("C", bound=TrainConfig)


class Problems(Section):
    """Source of problems: a file, or draws from the families of the bundled model."""

    file: Path | None = Field(None, description="problem file with gold answers; or, instead:")
    n: int | None = Field(None, ge=1, description="how many to draw")
    seed: int = Field(0, ge=0, description="seed of the set")
    levels: str = Field("1-5", description="difficulty, such as 3 or 1-5")
    family: list[str] = Field([], description="families, or kinds of families; empty: all")
    split: Split = Field("train", description="train; held out: numbers or templates")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.n is None):
            raise ValueError("give either `file`, or `n` to draw that many problems")
        if self.file is not None and (others := sorted(self.model_fields_set - {"file"})):
            raise ValueError(f"a file's problems are taken as they are; {', '.join(others)}: of drawn ones only")
        return self


class Bootstrap(Section):
    """A base model trained from scratch on reference solutions."""

    problems: list[Problems] = Field(min_length=1, description="drawn sets, the stages of a curriculum")
    train: TrainConfig = Field(description="how it is trained: `rstar train settings`")
    replay: bool = Field(False, description="policies are trained on these solutions, too, beside their own")

    @model_validator(mode="after")
    def _drawn(self) -> Self:
        if any(problems.n is None for problems in self.problems):
            raise ValueError("bootstrap.problems: only drawn problems have reference solutions: set `n`")
        return self


class Round(Section):
    """One round: search, then training on the results."""

    rollouts: int = Field(16, ge=1, description="MCTS rollouts of each problem")
    take: int | None = Field(None, ge=1, description="that many problems nobody has searched yet; unset: all problems")
    levels: str = Field("", description="only problems of these difficulties, such as 1-3; unset: of any")
    value: Literal["terminal", "ppm"] = Field(
        "terminal", description="Q of partial solutions: from verified ends alone, or begun by the last round's PPM"
    )
    unsolved: list[int] = Field(
        [], description="rollouts of further searches, each with another seed, of what has no verified solution yet"
    )
    most: int | None = Field(None, ge=1, description="of those, search again at most so many, evenly spread")
    policy: dict[str, Any] = Field({}, description="settings of the policy's training that differ in this round")
    ppm: dict[str, Any] = Field({}, description="settings of the PPM's training that differ in this round")

    @field_validator("levels")
    @classmethod
    def _are_levels(cls, levels: str) -> str:
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
        None, description="model that every round fine-tunes: tiny | hf:PATH; or `bootstrap`"
    )
    bootstrap: Bootstrap | None = Field(None, description="train the base from nothing instead")
    first_policy: ModelSetting | None = Field(None, description="model that searches in round 1; unset: the base")
    first_shots: int = Field(
        0, ge=0, le=4, description="worked examples in round 1, for models not trained on the step format"
    )
    seed: int = Field(0, ge=0, description="every random choice of the searches derives from it")
    problems: Problems = Field(description="to learn from: questions and gold answers")
    held_out: Problems = Field(description="to evaluate on")
    accumulate: bool = Field(False, description="a round trains on the trees of all rounds so far, not on its own only")
    search: MctsConfig = Field(MctsConfig(), description="how problems are searched: `rstar info --settings`")
    sandbox: SandboxConfig = Field(SandboxConfig(), description="where and how code runs: `rstar info --settings`")
    engine: EngineConfig = Field(EngineConfig(), description="how models are run or reached: `rstar info --settings`")
    extract: ExtractConfig = ExtractConfig()
    policy: TrainConfig = Field(description="how policies are trained, each from the base: `rstar train settings`")
    ppm: PPMConfig = Field(description="how PPMs are trained, each from its round's policy: `rstar train settings`")
    rounds: list[Round] = Field(alias="round", min_length=1)
    entries: list[dict[str, Any]] = Field(
        alias="entry", min_length=1, description="what is measured after each round, as for `rstar compare`"
    )
    launcher: list[str] = Field(
        [], description="starts a training on several processes, such as torchrun --nproc-per-node 8; unset: one"
    )
    serve: list[str] = Field(
        [], description="command that serves a model, with {model} and {port} in it; unset: it runs in this process"
    )
    serve_port: int = Field(8765, ge=1, le=65535, description="where it listens")
    serve_seconds: float = Field(600.0, gt=0, description="how long a server may take to be ready")

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        if (self.base is None) == (self.bootstrap is None):
            raise ValueError("give either `base`, a model, or `bootstrap`")
        if self.base is not None and not is_local(self.base):
            raise ValueError(f"base = {str(self.base)!r}: expected tiny or hf:PATH, a model that can be trained")
        if self.rounds[0].value == "ppm":
            raise ValueError("round 1: there is no PPM yet; its value must be terminal")
        if not self.search.keep_trees:
            raise ValueError("search.keep_trees = false: training data comes from trees")
        if any(rollouts < 1 for one in self.rounds for rollouts in one.unsolved):
            raise ValueError("round.unsolved: searches have at least one rollout")
        if odd := sorted({key for entry in self.entries for key in ("policy", "seed") if key in entry}):
            raise ValueError(f"entry.{odd[0]}: an entry measures the policies of the rounds, with the run's seed")
        for part in ("{model}", "{port}"):
            if self.serve and not any(part in word for word in self.serve):
                raise ValueError(f"serve: {part} must be in the command")
        models = [self.policy, self.ppm]
        for number, one in enumerate(self.rounds, 1):
            models.append(_varied(self.policy, one.policy, f"round {number}: policy"))
            models.append(_varied(self.ppm, one.ppm, f"round {number}: ppm"))
        if any(model.base is not None for model in models):
            raise ValueError("policy.base, ppm.base: policies begin from the recipe's base, PPMs from their policy")
        return self

    def identity(self) -> dict[str, Any]:
        """The settings that decide the results (not where or how fast they are computed), nested."""
        free = ("launcher", "serve", "serve_port", "serve_seconds", "sandbox", "engine")
        return self.model_dump(mode="json", exclude=dict.fromkeys(free, True) | {"search": {"concurrency"}})


def _varied(config: C, own: dict[str, Any], where: str) -> C:
    try:
        return checked(type(config), config.model_dump() | own, where)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def varied(config: C, own: dict[str, Any]) -> C:
    """A training configuration with a round's own settings."""
    return _varied(config, own, "round")


def read_recipe(file: Path, smoke: bool = False, overrides: Sequence[str] = ()) -> EvolveConfig:
    """Read the configuration from a TOML file.

    Args:
        file: the recipe. Its paths are relative to the working directory.
        smoke: apply the recipe's table ``smoke``: a small run that tests every stage. ``false`` in it removes a table.
        overrides: applied last, see `rstar.sections.override`.

    Raises:
        ConfigError: the file cannot be read, or has bad keys; names all of them.
    """
    tree = read_toml(file)
    small = tree.pop("smoke", None)
    if smoke:
        if not isinstance(small, dict):
            raise ConfigError(f"{file}: it has no table [smoke]")
        tree = {key: value for key, value in merged(tree, small).items() if small.get(key) is not False}
    override(tree, overrides)
    return checked(EvolveConfig, tree, str(file))
