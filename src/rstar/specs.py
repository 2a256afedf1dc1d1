"""Names of models and values (``--policy``, ``--value``), parsed once into typed values.

`str` of a parsed name parses to an equal value. Nothing is opened here: `rstar.models.spec` opens models,
`rstar.search.value` opens values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import PlainSerializer, PlainValidator

MODEL_FORMS = {
    "tiny": "the bundled policy; tiny:actions and tiny:peer are those for mutual reasoning, tiny:agent the one for "
    "agents, and tiny:agent-start the agent before reinforcement learning",
    "hf:PATH": "a folder with a Llama, Qwen2 or Qwen3 model",
    "openai:URL#MODEL": "an OpenAI-compatible server, or several (URL,URL#MODEL); append ?tokenizer=FOLDER for token "
    "ids, ?api=chat for chat",
    "fake:KIND": "no model: steps, noise or fail",
}
"""The forms of a model name, with their meaning."""

FakeKind = Literal["steps", "noise", "fail"]


BundledPart = Literal["policy", "actions", "peer", "agent", "agent-start"]
BUNDLED = ("tiny", *(f"tiny:{part}" for part in get_args(BundledPart)[1:]))
"""Names of the bundled models."""


@dataclass(frozen=True, slots=True)
class Bundled:
    """``tiny``: a bundled model.

    Attributes:
        part: which one. ``policy`` (named ``tiny``) writes code steps; ``actions`` and ``peer`` (``tiny:actions``,
            ``tiny:peer``) know the actions of mutual reasoning. ``agent`` calls tools; ``agent-start`` is the model
            from which its reinforcement learning began.
    """

    part: BundledPart = "policy"

    def __str__(self) -> str:
        return "tiny" if self.part == "policy" else f"tiny:{self.part}"


AGENTS = (Bundled("agent"), Bundled("agent-start"))
"""The bundled models that are agents."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """``hf:PATH``: a local model folder. `path_as_given` is the path as written, not empty, perhaps with ``~``."""

    path_as_given: str

    def __post_init__(self) -> None:
        if not self.path_as_given:
            raise ValueError("hf:PATH: the path is empty")

    @property
    def path(self) -> Path:
        """The path with ``~`` expanded."""
        return Path(self.path_as_given).expanduser()

    def __str__(self) -> str:
        return f"hf:{self.path_as_given}"


@dataclass(frozen=True, slots=True)
class Server:
    """``openai:URL#MODEL``: a model behind an OpenAI-compatible server.

    Attributes:
        url: base URL; several replicas of the model are separated by commas.
        model: model name on the server.
        tokenizer: folder with the model's tokenizer; None: the engine works on text, without token ids.
        api: API of the server; auto: the server is asked.
        continues: whether its chat API continues the assistant's turn; auto: it is tested.

    Raises:
        ValueError: the URL has credentials or is not one of HTTP, the name cannot be parsed again, or options exclude
            each other.
    """

    url: str
    model: str
    tokenizer: str | None = None
    api: Literal["auto", "completions", "chat"] = "auto"
    continues: Literal["auto", "yes", "no"] = "auto"

    def __post_init__(self) -> None:
        for url in self.urls:
            try:
                parts = urlsplit(url)
                parts.port  # noqa: B018  (raises for a port that is not a number)
            except ValueError as error:
                raise ValueError(f"{self}: {error}") from error
            if parts.username or parts.password:
                raise ValueError(
                    "openai: the URL must not contain credentials, because it is stored in run folders; use "
                    "engine.key_file"
                )
            if parts.scheme not in ("http", "https") or not parts.hostname or not self.model:
                raise ValueError(f"{self}: expected openai:URL#MODEL, such as openai:http://127.0.0.1:8000/v1#my-model")
        if "#" in self.url or "?" in self.model:
            raise ValueError(f"{self}: expected a URL without '#' and a model name without '?'")
        for name, kinds in (("api", ("auto", "completions", "chat")), ("continues", ("auto", "yes", "no"))):
            if getattr(self, name) not in kinds:
                raise ValueError(f"{self}: {name}: expected {', '.join(kinds)}")
        if self.api == "chat" and self.tokenizer is not None:
            raise ValueError(f"{self}: api=chat has no token ids, so tokenizer cannot be used with it")

    @property
    def urls(self) -> list[str]:
        """The base URL of each replica."""
        return self.url.split(",")

    def __str__(self) -> str:
        options = {one.name: value for one in fields(self)[2:] if (value := getattr(self, one.name)) != one.default}
        return f"openai:{self.url}#{self.model}" + (f"?{urlencode(options, safe='/~:')}" if options else "")


@dataclass(frozen=True, slots=True)
class Fake:
    """``fake:KIND?OPTION=VALUE&…``: no model, but deterministic text for tests (`rstar.models.fake`).

    Attributes:
        kind: what it generates.
        seed: each seed is a different model; in [0, 2**64).
        latency: seconds per request, at least 0.
        rate: share of requests that fail, in [0, 1]; for kind ``fail``.
        max_context: tokens (bytes) of prompt and completion together, above 0.

    Raises:
        ValueError: an option is out of range.
    """

    kind: FakeKind = "steps"
    seed: int = 0
    latency: float = 0.0
    rate: float = 0.1
    max_context: int = 16384

    def __post_init__(self) -> None:
        ranges = {
            "seed": 0 <= self.seed < 2**64,
            "latency": 0 <= self.latency < float("inf"),
            "rate": 0 <= self.rate <= 1,
            "max_context": self.max_context > 0,
        }
        if wrong := [name for name, holds in ranges.items() if not holds]:
            raise ValueError(f"option {wrong[0]!r}: {getattr(self, wrong[0])} is out of range")

    def __str__(self) -> str:
        changed = {one.name: value for one in fields(self)[1:] if (value := getattr(self, one.name)) != one.default}
        return f"fake:{self.kind}" + (f"?{urlencode(changed)}" if changed else "")


Model = Bundled | LocalModel | Server | Fake


@dataclass(frozen=True, slots=True)
class Ppm:
    """``ppm:tiny`` or ``ppm:PATH``: a process preference model. Raises `ValueError` for a folder given as ``tiny``."""

    model: Bundled | LocalModel

    def __post_init__(self) -> None:
        if self.model == LocalModel("tiny"):
            raise ValueError("ppm:tiny is the bundled PPM; write ppm:./tiny for a folder of that name")

    def __str__(self) -> str:
        return "ppm:tiny" if isinstance(self.model, Bundled) else f"ppm:{self.model.path_as_given}"


Rule = Literal["agreement", "grounded", "logprob"]
"""Values computed without a model."""

Value = Rule | Ppm | Literal["auto"]


def parse_model(text: str) -> Model:
    """Parse the name of a model. Raises `ValueError` for an unknown form."""
    kind, colon, rest = text.partition(":")
    if text == "tiny":
        return Bundled()
    if kind == "tiny" and rest in (parts := get_args(BundledPart)[1:]):
        return Bundled(parts[parts.index(rest)])
    if kind == "hf" and rest:
        return LocalModel(rest)
    if kind == "openai" and rest:
        return _parse_server(text, rest)
    if kind == "fake" and rest:
        return _parse_fake(text, rest)
    if kind == "vllm" and colon:
        raise ValueError(f"{text}: vLLM does not run inside this process; serve the model and use openai:URL#MODEL")
    if kind == "tiny":
        raise ValueError(f"model {text!r} is not one of the bundled {', '.join(BUNDLED)}{_nearest(text, BUNDLED)}")
    forms = [*BUNDLED, *(form for form in MODEL_FORMS if form not in BUNDLED)]
    hint = _nearest(kind, [form.partition(":")[0] for form in MODEL_FORMS])
    raise ValueError(f"model {text!r} is not one of {', '.join(forms)}{hint}")


def _parse_server(text: str, rest: str) -> Server:
    url, _, fragment = rest.partition("#")
    model, _, options = fragment.partition("?")
    known = dict(parse_qsl(options, keep_blank_values=True))
    names = [one.name for one in fields(Server)[2:]]
    if unknown := sorted(set(known) - set(names)):
        raise ValueError(f"{text}: unknown option {', '.join(unknown)}; the options are {', '.join(names)}")
    return Server(url, model, **known)  # type: ignore[arg-type]


def _parse_fake(text: str, rest: str) -> Fake:
    kind, _, options = rest.partition("?")
    kinds = get_args(FakeKind)
    if kind not in kinds:
        raise ValueError(f"{text}: fake model {kind!r} is not one of {', '.join(kinds)}{_nearest(kind, kinds)}")
    types: dict[str, Callable[[str], Any]] = {"seed": int, "latency": float, "rate": float, "max_context": int}
    values: dict[str, Any] = {}
    for name, value in parse_qsl(options, keep_blank_values=True):
        if name not in types:
            raise ValueError(f"{text}: unknown option {name!r}{_nearest(name, list(types))}")
        try:
            values[name] = types[name](value)
        except ValueError:
            raise ValueError(f"{text}: option {name!r}: {value!r} is not a number") from None
    try:
        return Fake(kind, **values)  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def parse_value(text: str) -> Value:
    """Parse the name of a value. Raises `ValueError` for an unknown name."""
    kind, _, rest = text.partition(":")
    if kind == "ppm" and rest:
        return Ppm(Bundled() if rest == "tiny" else LocalModel(rest))
    rules: tuple[Rule, ...] = get_args(Rule)
    if found := next((rule for rule in rules if rule == text), None):
        return found
    if text == "auto":
        return "auto"
    raise ValueError(
        f"value {text!r} is not one of auto, {', '.join(rules)}, ppm:PATH, ppm:tiny{_nearest(text, rules)}"
    )


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _validator(parse: Callable[[str], Any], kinds: Any) -> PlainValidator:
    def validate(value: Any) -> Any:
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, kinds):
            return value
        raise ValueError("expected a name, as a string")

    return PlainValidator(validate)


ModelSetting = Annotated[Model, _validator(parse_model, Model), PlainSerializer(str)]
"""A setting that names a model: text in files and on the command line, a `Model` in Python."""

ValueSetting = Annotated[Value, _validator(parse_value, Ppm), PlainSerializer(str)]
"""A setting that names a value: text in files and on the command line, a `Value` in Python."""
