"""The configuration of a run: settings, their meaning, and the combinations that are rejected.

`resolve` combines the layers (`rstar.sections`). Each run folder holds the resolved configuration and a digest of the
settings that decide the results. Each search method has its own settings; keys of other methods are rejected. Imports
nothing heavy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from rstar.sections import Section, Tree, checked, flatten, override, read_toml
from rstar.specs import AGENTS, BUNDLED, Bundled, ModelSetting, ValueSetting

Method = Literal["greedy", "sample", "best-of-n", "beam", "mcts", "mutual", "agent"]
Choice = Literal["best", "majority", "weighted"]
Level = Literal["full", "no-namespaces", "limits"]
Schedule = Literal["constant", "linear", "exponential"]
ActionName = Literal["step", "finish", "question", "reanswer", "rephrase"]

_METHODS = " | ".join(get_args(Method))

MOST_SAMPLES = 10_000
"""Most samples or rollouts of a problem: all are requested at once, and kept in memory."""


class MethodConfig(Section):
    """Settings shared by all methods."""

    method: Method = Field("mcts", description=_METHODS)
    concurrency: int | None = Field(
        None,
        ge=1,
        description="number of problems solved concurrently; unset: 64, or 16 if a local model samples, or fewer if an "
        "agent makes many rollouts of each problem",
    )
    keep_trees: bool = Field(True, description="write trees.jsonl")
    record_tokens: bool = Field(False, description="keep token ids and log-probabilities in trees.jsonl")


class SearchConfig(MethodConfig):
    """Settings shared by all methods that search."""

    max_depth: int = Field(16, ge=1, description="maximum number of steps in a solution")
    max_step_tokens: int = Field(256, ge=1, description="maximum number of tokens in a step")
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="budget of generated tokens per problem; once it is spent, only what is under way is completed",
    )
    errors_threshold: int = Field(0, ge=0, description="number of consecutive failed steps that a branch survives")


class StepsConfig(SearchConfig):
    """Settings shared by all methods that search over steps with code (arXiv 2501.04519, section 3)."""

    format: Literal["auto", "code-steps", "fenced"] = Field(
        "auto",
        description="how steps are written: code-steps (rStar-Math, and the bundled model) | fenced (instruct models); "
        "auto: fenced for a server with chat completions only, else code-steps",
    )
    shots: int = Field(
        0, ge=0, le=4, description="number of worked examples in the prompt, for models not trained on the step format"
    )


class GreedyConfig(StepsConfig):
    """One program by greedy decoding."""

    method: Literal["greedy"] = Field("greedy", description=_METHODS)


class SamplingConfig(StepsConfig):
    """Settings shared by all methods that sample."""

    temperature: float = Field(1.0, ge=0, description="sampling temperature, above 0")
    top_p: float = Field(1.0, gt=0, le=1, description="probability mass of nucleus sampling")
    choose: Choice | None = Field(
        None,
        description="rule for choosing the answer: best (highest value) | majority | weighted (majority weighted by "
        "value); unset: majority for sample, weighted for a tree with a PPM, else best",
    )
    top_k: int | None = Field(
        None, ge=1, description="number of solutions that vote: those with the highest values; unset: all"
    )

    @field_validator("temperature")
    @classmethod
    def _samples_differ(cls, temperature: float) -> float:
        if temperature == 0:
            raise ValueError("all samples would be the same: use method greedy")
        return temperature


class SampleConfig(SamplingConfig):
    """Independent programs, each sampled and run as a whole."""

    method: Literal["sample"] = Field("sample", description=_METHODS)
    samples: int = Field(16, ge=1, le=MOST_SAMPLES, description="number of programs sampled per problem")
    expansions: int = Field(8, ge=1, description="with a token budget: number of programs sampled together")


class EarlyStopConfig(SamplingConfig):
    """Settings shared by all methods that can stop once an answer is settled."""

    early_stop: bool = Field(
        False, description="stop when the leading answer reaches `settled_share` and `settled_votes`"
    )
    settled_share: float = Field(
        0.75, gt=0, le=1, description="early stop: minimum share of the mass that the leading answer must have"
    )
    settled_votes: int = Field(3, ge=1, description="early stop: minimum number of votes for the leading answer")


class BestOfNConfig(EarlyStopConfig):
    """Independent programs whose steps run as they are sampled."""

    method: Literal["best-of-n"] = Field("best-of-n", description=_METHODS)
    samples: int = Field(16, ge=1, le=MOST_SAMPLES, description="number of programs sampled per problem")
    expansions: int = Field(
        8, ge=1, description="with a token budget or early stop: number of programs sampled together"
    )


class BeamConfig(EarlyStopConfig):
    """Step beam search."""

    method: Literal["beam"] = Field("beam", description=_METHODS)
    expansions: int = Field(8, ge=1, description="number of steps sampled at each partial solution of the beam")
    beam_width: int = Field(8, ge=1, description="number of partial solutions kept after each step")


class MctsConfig(EarlyStopConfig):
    """Monte Carlo tree search."""

    method: Literal["mcts"] = Field("mcts", description=_METHODS)
    rollouts: int = Field(
        12, ge=1, description="maximum number of MCTS rollouts (descents from the root to a terminal node)"
    )
    expansions: int = Field(8, ge=1, description="maximum number of steps sampled at a node at a time")
    root_expansions: int | None = Field(
        None, ge=1, description="number of steps sampled at the root; unset: same as `expansions`"
    )
    c: float = Field(2.0, ge=0, description="exploration constant of UCT")


AnySearch = GreedyConfig | SampleConfig | BestOfNConfig | BeamConfig | MctsConfig


class MutualConfig(SearchConfig):
    """Mutual reasoning: a search over five actions, whose solutions a second model checks (arXiv 2408.06195)."""

    method: Literal["mutual"] = Field("mutual", description=_METHODS)
    peer: ModelSetting | None = Field(
        None, description="the model that checks solutions: a name as for `policy`; unset: the policy itself"
    )
    domain: str = Field(
        "auto",
        description="prompts of the actions: word-problems | competition | yes-no | programs | a folder of your own, "
        "relative to the current folder; auto: programs for a bundled model, word-problems otherwise",
    )
    actions: tuple[ActionName, ...] = Field(
        get_args(ActionName), description=f"list of the actions in use: {' | '.join(get_args(ActionName))}"
    )
    rollouts: int = Field(32, ge=1, description="number of rollouts (descents from the root to an answer)")
    children: int = Field(3, ge=1, description="maximum number of children of a node for each of step and question")
    votes: int = Field(
        8, ge=1, description="samples that vote on the answer to a sub-question and on the rest of a solution"
    )
    c: float = Field(2.0, ge=0, description="exploration constant of UCT")
    schedule: Schedule = Field(
        "constant", description="exploration over the rollouts: constant | linear | exponential (both down to c / 10)"
    )
    max_depth: int = Field(
        5, ge=1, description="maximum number of actions in a solution; the paper uses 8 for competition mathematics"
    )
    shots: int = Field(
        4,
        ge=0,
        description="maximum number of worked examples in a prompt; 0: no instruction either, for models trained on "
        "the actions; bundled models always get 0",
    )
    temperature: float = Field(0.8, gt=0, description="sampling temperature of both models")
    top_p: float = Field(0.95, gt=0, le=1, description="probability mass of nucleus sampling")
    discriminate: bool = Field(True, description="let the peer check the solutions; false: generator alone")
    cuts: int = Field(4, ge=1, description="number of places at which a solution is cut for the peer to complete it")
    agreement: Literal["strict", "mid", "loose", "majority"] = Field(
        "mid",
        description="how many completions must agree with a solution's answer: strict (all) | mid (at least half) | "
        "loose (one) | majority (their most frequent answer)",
    )
    final: Literal["product", "sum"] = Field(
        "product",
        description="choice of the answer: product (of the mean values along a solution) | sum (of an answer's values, "
        "plus the share of its solutions that the peer kept)",
    )

    @field_validator("actions", mode="before")
    @classmethod
    def _is_list(cls, actions: Any) -> Any:
        if isinstance(actions, str):
            raise ValueError('expected a list, such as ["step", "finish"]')
        return actions

    @field_validator("actions")
    @classmethod
    def _can_end(cls, actions: tuple[str, ...]) -> tuple[str, ...]:
        if "finish" not in actions and not {"step", "question"} & set(actions):
            raise ValueError("no action can reach an answer: finish, step or question is needed")
        if "reanswer" in actions and "question" not in actions:
            raise ValueError("reanswer follows only question, which is not among the actions")
        return actions

    @model_validator(mode="after")
    def _peer_is_asked(self) -> Self:
        if self.peer is not None and not self.discriminate:
            raise ValueError(f"search.peer {str(self.peer)!r}: not asked with search.discriminate = false")
        return self


class AgentConfig(MethodConfig):
    """Rollouts of an agent that calls tools (arXiv 2508.20722)."""

    method: Literal["agent"] = Field("agent", description=_METHODS)
    environment: str = Field(
        "auto",
        description="tools and reward: mathematics | puzzles | programs | workup | verifiers:NAME | module:Class (your "
        "own); auto: puzzles for the bundled agents, otherwise mathematics",
    )
    turns: Literal["auto", "code", "chat"] = Field(
        "auto",
        description="how turns are written: code (the bundled agent) | chat (the model's chat template); auto: chat if "
        "the model has a template",
    )
    samples: int = Field(1, ge=1, le=MOST_SAMPLES, description="number of rollouts per problem")
    temperature: float = Field(1.0, ge=0, description="sampling temperature; 0: greedy")
    top_p: float = Field(1.0, gt=0, le=1, description="probability mass of nucleus sampling")
    max_turns: int | None = Field(
        None,
        ge=1,
        description="maximum number of turns, including the one with the answer; unset: the environment's limit",
    )
    max_calls: int = Field(4, ge=1, description="maximum number of tool calls in a turn; further calls are refused")
    max_turn_tokens: int = Field(1024, ge=1, description="maximum number of tokens in a turn")
    max_response_tokens: int = Field(
        8192, ge=1, description="maximum number of tokens after the prompt, including tool responses"
    )
    max_repeats: int | None = Field(
        None,
        ge=0,
        description="maximum number of calls in a rollout that fail as they failed before in the same state, where the "
        "tools tell (puzzles); unset: no limit",
    )
    tool_characters: int = Field(
        1000,
        ge=20,
        description="maximum number of characters in a tool response; longer responses are cut in the middle",
    )
    tool_seconds: float = Field(60.0, gt=0, description="time limit for a tool call outside the sandbox, seconds")
    rollout_seconds: float = Field(
        600.0,
        gt=0,
        description="time limit for a rollout, seconds, from the end of its first turn on; calls in the sandbox do not "
        "count",
    )


def _method_of(search: Any) -> Any:
    """The method of the given settings; MCTS if they name none."""
    return search.get("method", "mcts") if isinstance(search, Mapping) else getattr(search, "method", None)


class SandboxConfig(Section):
    """Where a step's code runs, and its limits."""

    place: str = Field("local", description="where code runs: local | http://HOST:PORT of a judge service")
    token_file: Path | None = Field(None, description="file with the token for the judge service")
    level: Level = Field("full", description="required isolation level: full | no-namespaces | limits")
    workers: int | None = Field(None, ge=1, description="number of concurrent runs; unset: number of processors")
    seconds: float = Field(5.0, gt=0, description="limit on a step's wall time, seconds")
    memory_mb: int = Field(256, ge=16, description="maximum memory that a step may add, MiB")
    output_bytes: int = Field(8_000, ge=100, description="maximum size of stdout and of stderr, bytes each")
    budget_mb: int = Field(
        2_000,
        ge=64,
        description="memory for frozen interpreter states, MiB; when it is full, the least recently used states are "
        "dropped, and replayed when needed",
    )
    total_mb: int | None = Field(
        None,
        ge=64,
        description="memory limit for all programs and states together, MiB; unset: 60% of this machine's memory",
    )

    def identity(self) -> Tree:
        """The settings that decide what a program does, not where or how fast."""
        return self.model_dump(mode="json", exclude={"place", "token_file", "workers", "budget_mb", "total_mb"})


class EngineConfig(Section):
    """How a model is run or reached. The first group is for local engines, the second for servers."""

    batch: int = Field(64, ge=1, description="local: number of sequences decoded together")
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="local: data type; auto: float32 on CPU")
    device: str = Field(
        "auto", description="local models and PPMs: cpu, cuda, cuda:1 …; auto: an accelerator if available"
    )
    threads: int | None = Field(
        None, ge=1, description="local: number of threads; unset: number of processors, or one for a small model"
    )
    processes: int | None = Field(
        None,
        ge=0,
        description="local: number of worker processes; 0: none; unset: as many as speed up a small model on a CPU",
    )
    max_context: int = Field(2048, ge=64, description="maximum number of tokens in prompt and completion together")
    concurrency: int = Field(64, ge=1, description="server: number of concurrent requests")
    timeout: float = Field(120.0, gt=0, description="server: time limit for a request, seconds")
    retries: int = Field(5, ge=0, description="server: number of retries after 429, 5xx and lost connections")
    key_file: Path | None = Field(
        None, description="server: file with the API key; unset: the key is in OPENAI_API_KEY"
    )

    def identity(self) -> Tree:
        """The settings that decide what a model writes, not where or how fast."""
        return self.model_dump(mode="json", include={"dtype", "max_context"})


class Config(Section):
    """Everything needed to repeat a run."""

    policy: ModelSetting = Field(
        Bundled(),
        description=f"the model: {' | '.join(BUNDLED)} | hf:PATH | openai:URL#MODEL | fake:KIND; unset: tiny:agent for "
        "method agent, otherwise tiny",
    )
    value: ValueSetting = Field(
        "auto",
        description="how solutions are scored: agreement | grounded | logprob | ppm:PATH | ppm:tiny (the bundled PPM); "
        "auto: ppm:tiny for a beam of the bundled policy, agreement otherwise",
    )
    seed: int = Field(0, ge=0, description="seed for all random choices")
    search: Annotated[
        Annotated[GreedyConfig, Tag("greedy")]
        | Annotated[SampleConfig, Tag("sample")]
        | Annotated[BestOfNConfig, Tag("best-of-n")]
        | Annotated[BeamConfig, Tag("beam")]
        | Annotated[MctsConfig, Tag("mcts")]
        | Annotated[MutualConfig, Tag("mutual")]
        | Annotated[AgentConfig, Tag("agent")],
        Discriminator(_method_of),
    ] = MctsConfig()
    sandbox: SandboxConfig = SandboxConfig()
    engine: EngineConfig = EngineConfig()

    @model_validator(mode="before")
    @classmethod
    def _policy_of_agents(cls, tree: Any) -> Any:
        if isinstance(tree, Mapping) and "policy" not in tree and _method_of(tree.get("search", {})) == "agent":
            return {**tree, "policy": Bundled("agent")}
        return tree

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        if self.sandbox.place != "local" and not self.sandbox.place.startswith(("http://", "https://")):
            raise ValueError(f"sandbox.place {self.sandbox.place!r}: expected local or http://HOST:PORT")
        if self.policy in AGENTS and self.search.method != "agent":
            raise ValueError(f"policy {str(self.policy)!r}: solves problems only with method agent")
        if self.value != "auto" and self.search.method in ("mutual", "agent"):
            raise ValueError(f"value {str(self.value)!r}: method {self.search.method!r} does not use a value")
        return self

    def digest(self) -> str:
        """A short hash of `identity`."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:16]

    def identity(self) -> Tree:
        """The settings that decide the results (not where or how fast they are computed): dotted key → value."""
        plain = self.model_dump(mode="json") | {"sandbox": self.sandbox.identity(), "engine": self.engine.identity()}
        del plain["search"]["concurrency"]
        return flatten(plain)


def resolve(
    file: Path | str | None = None, overrides: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> Config:
    """Resolve a configuration from its layers.

    Args:
        file: TOML file, or None.
        overrides, options: of the command line; see `rstar.sections.override`.

    Raises:
        ConfigError: names the file or override, the key, the reason and the nearest valid key.
    """
    tree: Tree = {} if file is None else read_toml(Path(file))
    override(tree, overrides, options)
    return build(tree, where=str(file) if file is not None and not overrides else "configuration")


def build(tree: Mapping[str, Any], where: str = "configuration") -> Config:
    """Build a `Config` from nested plain data. Raises `ConfigError` that names every bad key."""
    return checked(Config, tree, where)
