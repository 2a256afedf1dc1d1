"""Configuration: what can be set, what it means, and how the layers are put together.

A configuration is a tree of pydantic models. Layers, later ones win: defaults, a TOML file (``--config``), dotted
overrides (``--set search.rollouts=64``), the command line's own options. Unknown keys are refused with the nearest
valid name, combinations that cannot work are refused when the configuration is resolved, and the resolved tree with
its digest lies in every run folder. Recipes of trainings and of self-evolution are read likewise. Imports nothing
heavy.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from rstar.errors import ConfigError

Method = Literal["greedy", "sample", "best-of-n", "beam", "mcts"]
Choice = Literal["best", "majority", "weighted"]
Level = Literal["full", "no-namespaces", "limits"]
S = TypeVar("S", bound="Section")


class Section(BaseModel):
    """A group of settings: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch(cls, value: Any, field: ValidationInfo) -> Any:
        """Python takes true for 1."""
        kind = cls.model_fields[field.field_name or ""].annotation
        values = value if isinstance(value, list) else [value]
        if any(isinstance(one, bool) for one in values) and bool not in (kind, *get_args(kind)):
            raise ValueError("this is no switch, which could be true or false")
        return value


class SearchConfig(Section):
    """How a problem is searched (arXiv 2501.04519, section 3)."""

    method: Method = Field("mcts", description="greedy | sample | best-of-n | beam | mcts")
    samples: int = Field(16, ge=1, description="solutions drawn by sample and best-of-n")
    rollouts: int = Field(12, ge=1, description="MCTS: descents from the root to a terminal node")
    expansions: int = Field(8, ge=1, description="MCTS, beam: steps sampled of a node; else: programs of a wave")
    root_expansions: int | None = Field(None, ge=1, description="the same at the root; unset: as `expansions`")
    c: float = Field(2.0, ge=0, description="MCTS: exploration constant of UCT")
    beam_width: int = Field(8, ge=1, description="beam: partial solutions kept after each step")
    max_depth: int = Field(16, ge=1, description="most steps of a solution")
    max_step_tokens: int = Field(256, ge=1, description="most tokens of one step")
    max_tokens: int | None = Field(
        None, ge=1, description="generated tokens per problem after which nothing new starts"
    )
    errors_threshold: int = Field(0, ge=0, description="failed steps in a row that a branch survives")
    temperature: float = Field(1.0, ge=0, description="sampling temperature (greedy ignores it)")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus mass")
    choose: Choice | None = Field(
        None, description="answer choice: best value | majority | weighted majority; unset: the method's own"
    )
    top_k: int | None = Field(None, ge=1, description="vote only among the K solutions of highest value")
    early_stop: bool = Field(False, description="stop when the answer is settled (see `settled_share`)")
    settled_share: float = Field(0.75, gt=0, le=1, description="early stop: share, by mass, that settles an answer")
    settled_votes: int = Field(3, ge=1, description="early stop: votes that the leading answer must have")
    shots: int = Field(
        0, ge=0, le=4, description="worked examples before the question, for models not trained on steps"
    )
    concurrency: int | None = Field(
        None, ge=1, description="problems searched at the same time; unset: 64, or 16 where a local model samples"
    )
    keep_trees: bool = Field(True, description="write trees.jsonl")
    record_tokens: bool = Field(False, description="keep token ids and log-probs in trees.jsonl")


class SandboxConfig(Section):
    """Where and under which limits a step's code runs."""

    place: str = Field("local", description="local | http://HOST:PORT of a judge service")
    token_file: Path | None = Field(None, description="judge service: file with its token")
    level: Level = Field("full", description="isolation that is required: full | no-namespaces | limits")
    workers: int | None = Field(None, ge=1, description="runs at the same time; unset: number of processors")
    seconds: float = Field(5.0, gt=0, description="wall time of one step")
    memory_mb: int = Field(256, ge=16, description="memory a step may add, MiB")
    output_bytes: int = Field(8_000, ge=100, description="most bytes of stdout and of stderr")
    budget_mb: int = Field(2_000, ge=64, description="memory for frozen interpreter states; colder ones are replayed")
    total_mb: int | None = Field(
        None, ge=64, description="memory of all programs and states together, MiB; unset: 60% of this machine's"
    )


class EngineConfig(Section):
    """How a model is run or reached. Local engines read the first group, servers the second."""

    batch: int = Field(64, ge=1, description="local: sequences decoded together")
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="local: arithmetic; auto: fp32 on CPU")
    device: str = Field(
        "auto", description="local, and reward models: cpu, cuda, cuda:1 …; auto: an accelerator where there is one"
    )
    threads: int | None = Field(
        None, ge=1, description="local: processor threads; unset: all, or one for a small model"
    )
    processes: int | None = Field(
        None, ge=0, description="local: worker processes; 0: none; unset: as many as help a small model on a CPU"
    )
    max_context: int = Field(2048, ge=64, description="most tokens of prompt and completion together")
    concurrency: int = Field(64, ge=1, description="server: requests under way at once")
    timeout: float = Field(120.0, gt=0, description="server: seconds for one request")
    retries: int = Field(5, ge=0, description="server: tries again after 429, 5xx and lost connections")
    key_file: Path | None = Field(None, description="server: file with the API key (else OPENAI_API_KEY)")


class Config(Section):
    """Everything a run needs to be repeated."""

    policy: str = Field("tiny", description="the model: tiny | hf:PATH | openai:URL#MODEL | fake:KIND")
    reward: str = Field(
        "auto",
        description="what a trajectory is worth: agreement | grounded | logprob | ppm:FOLDER | ppm:tiny, the bundled "
        "PPM; auto: ppm:tiny where a tree or several programs of the bundled policy are judged, else agreement",
    )
    seed: int = Field(0, ge=0, description="every random choice of the run derives from it")
    search: SearchConfig = SearchConfig()
    sandbox: SandboxConfig = SandboxConfig()
    engine: EngineConfig = EngineConfig()

    @model_validator(mode="after")
    def _combinations(self) -> Self:
        search = self.search
        if search.method in ("sample", "best-of-n", "mcts", "beam") and search.temperature == 0:
            raise ValueError(f"search.temperature = 0 gives {search.method} nothing but copies: use method greedy")
        if self.sandbox.place != "local" and not self.sandbox.place.startswith(("http://", "https://")):
            raise ValueError(f"sandbox.place {self.sandbox.place!r}: expected local or http://HOST:PORT")
        if search.early_stop and search.method in ("greedy", "sample"):
            raise ValueError(f"search.early_stop: {search.method} asks for all its programs at once; use best-of-n")
        return self

    def digest(self) -> str:
        """A short hash of the settings that decide the results (not of where or how fast they are computed)."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:16]

    def identity(self) -> dict[str, Any]:
        """The settings that decide the results, flat: dotted key to value."""
        free = (
            {f"sandbox.{key}" for key in ("place", "token_file", "workers", "budget_mb", "total_mb")}
            | {"search.concurrency"}
            | {f"engine.{key}" for key in EngineConfig.model_fields if key not in ("dtype", "max_context")}
        )
        return {key: value for key, value in flatten(self.model_dump(mode="json")).items() if key not in free}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level of dotted keys, in order."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def resolve(
    file: Path | str | None = None, overrides: Sequence[str] = (), options: Mapping[str, Any] | None = None
) -> Config:
    """The configuration from its layers.

    Args:
        file: TOML file, or None.
        overrides: see `override`.
        options: dotted key to value, of the command line's own options; None values are skipped.

    Raises:
        ConfigError: names the file or override, the key, the reason, and the nearest valid key.
    """
    tree: dict[str, Any] = {}
    if file is not None:
        tree = read_toml(Path(file))
    override(tree, overrides)
    for key, value in (options or {}).items():
        if value is not None:
            _put(tree, key, value, "option")
    return build(tree, where=str(file) if file is not None and not overrides else "configuration")


def build(tree: Mapping[str, Any], where: str = "configuration") -> Config:
    """A `Config` from nested plain data. Raises `ConfigError` that names every bad key."""
    return checked(Config, tree, where)


def override(tree: dict[str, Any], overrides: Sequence[str]) -> None:
    """Put settings into nested plain data: ``key.path=value``, the value as TOML where it can be, else as text.

    Raises:
        ConfigError: names what is no such setting.
    """
    for one in overrides:
        key, equals, text = one.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {one!r}: expected KEY=VALUE, for example search.rollouts=64")
        _put(tree, key.strip(), _value(text), f"--set {one!r}")


def read_toml(file: Path) -> dict[str, Any]:
    """What a TOML file says. Raises `ConfigError` that names the file and the reason."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error


def checked(kind: type[S], tree: Mapping[str, Any], where: str) -> S:
    """A group of settings from nested plain data. Raises `ConfigError`: `where`, and every bad key."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {_explain(item, kind)}" for item in error.errors())) from error


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _put(tree: dict[str, Any], key: str, value: Any, where: str) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{where}: {parent!r} is a value, not a group of settings")
    tree[last] = value


def _explain(item: Any, kind: type[Section]) -> str:
    key = ".".join(part for part in item["loc"] if isinstance(part, str))
    shown = re.sub(r"\.(\d+)", lambda place: f" {int(place[1]) + 1}", ".".join(map(str, item["loc"])))  # counted from 1
    known = [key for key, _ in settings_of(kind)]
    if item["type"] != "extra_forbidden":
        message = "missing" if item["type"] == "missing" else item["msg"].removeprefix("Value error, ")
        if item["type"] == "model_type" and (own := [one for one in known if one.startswith(f"{key}.")]):
            message = f"a group of settings, such as {own[0]}"
        if item["type"] == "literal_error":
            choices = re.findall(r"'([^']*)'", item["ctx"]["expected"])
            if near := difflib.get_close_matches(str(item["input"]), choices, n=1):
                message += f"; did you mean {near[0]!r}?"
        return f"{shown} = {item['input']!r}: {message}" if key and item["type"] != "missing" else _join(shown, message)
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5) or [
        full for full in known if full.rpartition(".")[2] == key.rpartition(".")[2]
    ]
    return f"unknown key {shown!r}" + (f", did you mean {near[0]!r}?" if near else "")


def _join(key: str, message: str) -> str:
    return f"{key}: {message}" if key else message


def settings_of(
    kind: type[Section], whole: Sequence[type[Section]] = (), prefix: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    """Dotted keys of all settings; the elements of a list of groups have those of the group.

    Args:
        kind: a group of settings.
        whole: kinds of groups in it that are one setting each.
        prefix: of the keys.
    """
    for name, field in kind.model_fields.items():
        key = prefix + (field.alias or name)
        parts = (field.annotation, *get_args(field.annotation))
        group = next((part for part in parts if isinstance(part, type) and issubclass(part, Section)), None)
        if group is None or group in whole:
            yield key, field
        else:
            yield from settings_of(group, whole, f"{key}.")
