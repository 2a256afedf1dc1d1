"""The one way to ask a model for text: `Engine`.

Invariants, held by every engine:

* Tokens in, tokens out. A `Context` carries the token ids that the model will see; a `Completion` carries the ids it
  produced; `Context.extend` concatenates them. Text is never re-tokenised where the engine knows ids. An engine that
  cannot know ids (a server that does not offer them) leaves `ids` empty and works on `text`.
* A completion depends on its request alone (context, settings, seed), not on what else is in the batch.
* A completion's text ends with its stop string when `stop_reason` is ``"stop"``.
* Failures of the model or its server raise `rstar.errors.EngineError`; they never come back as text. A context that is
  full is told apart (`ContextFullError`): it is the end of one text, not of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from rstar.models.decoder import Decoder

StopReason = Literal["stop", "eos", "length"]

Weights: TypeAlias = "Decoder | Path"
"""New weights: a decoder in this process's memory, or a model folder. Of the shape that the engine was opened with."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much an engine can work on at once.

    Attributes:
        samples: that it generates together, or requests that its server is sent at once.
        tokens: contexts and completions together that its cache holds; None: unknown.
    """

    samples: int
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model produced for one sample.

    Attributes:
        text: decoded text, up to and with the stop string; without an end-of-sequence token.
        ids: token ids produced, in order; with the tokens of the stop string, without end-of-sequence. Empty when
            the engine does not know ids.
        logprobs: natural log-probability of each id under the model's untempered distribution, same length as
            `ids` (or, when ids are unknown, one per server token); empty when not offered.
        stop_reason: ``stop`` (a stop string), ``eos`` (the model ended the text), ``length`` (max_tokens, or no room).
        stop: the stop string that ended it, or None.
        counted: number of generated tokens as a server counted them, for one that tells neither ids nor log-probs.
        prompted: number of the context's tokens as a server counted them, 0 where it does not say.
        version: of the weights that produced it (see `Engine.load`).
    """

    text: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop_reason: StopReason
    stop: str | None = None
    counted: int = field(default=0, compare=False)
    prompted: int = field(default=0, compare=False)
    version: int = 0

    @property
    def n_tokens(self) -> int:
        """Number of generated tokens, as far as the engine knows it."""
        return len(self.ids) or len(self.logprobs) or self.counted


@dataclass(frozen=True, slots=True)
class Context:
    """Everything the model has been shown so far: text, and the exact ids where the engine knows them."""

    text: str
    ids: tuple[int, ...] = ()

    def extend(self, completion: Completion) -> Context:
        """The context after the model itself produced `completion`."""
        return Context(self.text + completion.text, self.ids + completion.ids)


@dataclass(frozen=True, slots=True)
class Request:
    """`n` samples that continue `context`.

    Attributes:
        context: what the model sees.
        max_tokens: limit of generated tokens per sample, > 0.
        temperature: 0 is greedy; else the logits are divided by it.
        top_p: nucleus mass in (0, 1].
        n: number of samples, > 0. Sample i is drawn from a random stream of (seed, i).
        stop: generation ends after the first of these strings to be completed.
        seed: any non-negative integer.
    """

    context: Context
    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    n: int = 1
    stop: tuple[str, ...] = ()
    seed: int = 0


@runtime_checkable
class Engine(Protocol):
    """A model behind some way of running it. Used as ``async with engine:``; safe for many concurrent requests."""

    name: str
    """What the run folder says of the model: a spec such as ``tiny`` or ``hf:/models/qwen``."""

    max_context: int
    """Largest number of tokens, prompt and completion together."""

    @property
    def version(self) -> int:
        """Of the weights with which new samples begin; 0 until `load`."""
        ...

    def context(self, text: str) -> Context:
        """The start of a conversation: `text` tokenised as this model expects a prompt (with BOS where it has one)."""
        ...

    def append(self, context: Context, text: str) -> Context:
        """`context` followed by text that the model did not produce (a tool's output), tokenised on its own."""
        ...

    async def complete(self, request: Request) -> Sequence[Completion]:
        """`request.n` completions, in order.

        Raises:
            ContextFullError: the context leaves no room for another token.
            EngineError: the model or its server failed.
        """
        ...

    async def load(self, weights: Weights, version: int) -> None:
        """Take new weights. Samples under way end with the weights they began with; `Completion.version` tells.

        Raises:
            EngineError: the engine is not open, already takes others, or cannot take such weights.
        """
        ...

    def capacity(self) -> Capacity:
        """How much it can work on at once."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
