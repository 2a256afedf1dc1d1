"""Settings of reinforcement learning. One TOML file per run, `recipes/*/agent.toml`; unknown keys are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from rstar.config import AgentConfig, EngineConfig, SandboxConfig
from rstar.models.spec import is_local
from rstar.rl.algorithms import ALGORITHMS
from rstar.sections import Section
from rstar.specs import ModelSetting
from rstar.tiny.source import ProblemSource
from rstar.train.settings import TrainConfig

_NOT_IN_TRAIN = frozenset(
    [
        "base",
        "tokenizer",
        "shape",
        "tokens",
        "epochs",
        "curriculum",
        "batch_tokens",
        "packing",
        "warmup_tokens",
        "decay",
        "tensorboard",
        "wandb",
    ]
)
"""Settings of supervised training that mean nothing here: the recipe's own settings decide what they would."""


class Stage(Section):
    """Consecutive steps under the same conditions (arXiv 2508.20722, section 4)."""

    steps: int = Field(ge=1, description="number of updates")
    problems: ProblemSource | None = Field(None, description="training problems of this stage; unset: `problems`")
    environment: str | None = Field(
        None,
        description="environment of the training rollouts of this stage; unset: `search.environment`, which "
        "evaluations always have",
    )
    max_response_tokens: int | None = Field(
        None,
        ge=1,
        description="token limit for the training rollouts of this stage; unset: `search.max_response_tokens`, which "
        "evaluations always have",
    )
    max_repeats: int | None = Field(
        None,
        ge=0,
        description="maximum number of repeated failures in a training rollout of this stage, as `search.max_repeats`; "
        "unset: that one",
    )
    skip_solved: int | None = Field(
        None,
        ge=1,
        description="before the stage, make this many rollouts per problem, and drop the problems that all of them "
        "solve; unset: keep all problems",
    )
    reset_optimizer: bool = Field(False, description="start the stage with a fresh optimizer")

    def limits(self) -> dict[str, int]:
        """The limits of a rollout that this stage changes, by the names of their settings."""
        found = {name: getattr(self, name) for name in ("max_response_tokens", "max_repeats")}
        return {name: limit for name, limit in found.items() if limit is not None}


class RLConfig(Section):
    """Agentic reinforcement learning from verified answers (GRPO-RoC, arXiv 2508.20722, section 3)."""

    model_config = ConfigDict(populate_by_name=True)

    policy: ModelSetting = Field(description="model to train: a bundled one (tiny, tiny:agent-start …) | hf:PATH")
    seed: int = Field(0, ge=0, description="seed for the order of the problems, the rollouts and their selection")
    problems: ProblemSource = Field(description="training problems: questions and gold answers")
    held_out: ProblemSource = Field(description="evaluation problems")
    search: AgentConfig = Field(AgentConfig(), description="rollout settings: `rstar info --settings`, method agent")
    sandbox: SandboxConfig = Field(SandboxConfig(), description="sandbox settings: `rstar info --settings`")
    engine: EngineConfig = Field(EngineConfig(), description="engine settings: `rstar info --settings`")
    train: TrainConfig = Field(TrainConfig(), description="optimizer settings: `rstar train settings`")
    algorithm: str = Field("grpo-roc", description=" | ".join(ALGORITHMS))
    reward: Literal["verified", "majority"] = Field(
        "verified",
        description="verified: 1 for a correct answer | majority: 1 for the answer of most of the problem's rollouts, "
        "without gold answers (TTRL)",
    )
    baseline: Literal["group", "turn"] = Field(
        "group",
        description="what a rollout's reward is compared with. group: the rewards of its group | turn: at each turn, "
        "the rewards of those rollouts of its group that reached it",
    )
    groups: int = Field(16, ge=1, description="number of groups per step: problems whose rollouts differ in reward")
    draws: float = Field(
        3.0,
        ge=1,
        description="a step tries at most this many times `groups` problems; if too few of them have rollouts that "
        "differ in reward, the step has fewer groups",
    )
    rollouts: int = Field(32, ge=2, description="number of rollouts per problem")
    keep: int = Field(16, ge=2, description="number of rollouts per problem that are trained on")
    minibatches: int = Field(1, ge=1, description="number of updates into which the groups of a step are divided")
    clip_low: float = Field(0.2, gt=0, lt=1, description="lower bound on the ratio: 1 - clip_low")
    clip_high: float = Field(0.28, gt=0, description="upper bound on the ratio: 1 + clip_high")
    clip_dual: float | None = Field(None, gt=1, description="bound on the ratio for negative advantages; unset: none")
    correct_most: float | None = Field(
        2.0,
        gt=0,
        description="maximum weight of a token; the weights correct for the difference between sampler and trainer; "
        "unset: no weights",
    )
    correct_band: float | None = Field(
        None, gt=1, description="leave out sequences whose mean weight is above this, or below its inverse; unset: none"
    )
    ahead: int = Field(
        0,
        ge=0,
        le=1,
        description="1: make the rollouts of the next step during the update, with weights one version behind",
    )
    warmup_steps: int = Field(5, ge=0, description="number of steps in the linear warmup of the learning rates")
    decay: float = Field(
        1.0, ge=0, le=1, description="share of the steps in the final, linear decay of the learning rates to 0"
    )
    evaluate_every: int = Field(20, ge=1, description="number of steps between evaluations")
    evaluate_rollouts: int = Field(8, ge=1, description="number of rollouts per held-out problem")
    collapse: float = Field(
        0.5, ge=0, lt=1, description="stop if the mean reward over ten steps falls below this share of its best value"
    )
    stored: Path | None = Field(
        None,
        description="train on stored rollouts, the file `rollouts.jsonl` of another training run, and make none; "
        "unset: make them",
    )
    stages: list[Stage] = Field(alias="stage", min_length=1)

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        if not is_local(self.policy):
            expected = "expected a trainable model: a bundled one (tiny, tiny:agent-start …) or hf:PATH"
            raise ValueError(f"policy = {str(self.policy)!r}: {expected}")
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm = {self.algorithm!r}: expected one of {', '.join(ALGORITHMS)}")
        if self.keep > self.rollouts:
            raise ValueError(f"keep = {self.keep}: there are only {self.rollouts} rollouts per problem")
        if self.stored is not None:
            if self.ahead:
                raise ValueError("ahead: has no effect on stored rollouts; set it to 0")
            if any(stage.skip_solved is not None for stage in self.stages):
                raise ValueError("stage.skip_solved: has no effect on stored rollouts")
        for name in ("temperature", "top_p"):  # the update knows the policy's own probabilities alone
            if (value := getattr(self.search, name)) != 1:
                raise ValueError(f"search.{name} = {value}: training needs rollouts sampled with {name} = 1")
        if unused := sorted(_NOT_IN_TRAIN & self.train.model_fields_set):
            raise ValueError(f"train.{unused[0]}: has no effect here; `rstar rl settings` lists the settings that have")
        for name, instead in (("samples", "rollouts"), ("concurrency", "groups")):
            if name in self.search.model_fields_set:
                raise ValueError(f"search.{name}: has no effect here; set `{instead}`")
        return self

    def identity(self) -> dict[str, Any]:
        """The settings that decide the results (not where or how fast they are computed), nested."""
        plain = self.model_dump(mode="json", exclude={"sandbox", "engine", "train", "stored"})
        del plain["search"]["concurrency"]
        return plain | {name: getattr(self, name).identity() for name in ("sandbox", "engine", "train")}

    @property
    def steps(self) -> int:
        """Number of updates in all stages."""
        return sum(stage.steps for stage in self.stages)
