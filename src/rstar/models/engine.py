"""The interface to every model: `Engine`.

Invariants of every engine:

* Tokens in, tokens out. A `Context` carries the token ids that the model will see, a `Completion` the ids it produced,
  and `Context.extend` concatenates them. Text is never re-tokenised where the engine knows ids. An engine that cannot
  know ids (a server that does not return them) leaves `ids` empty and works on `text`.
* A completion depends on its request alone (context, settings, seed), not on the rest of the batch.
* A completion's text ends with its stop string when `stop_reason` is ``"stop"``.
* Failures of the model or its server raise `rstar.errors.EngineError`; they are never returned as text. A full context
  raises `ContextFullError`: it ends one text, not the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from rstar.models.decoder import Decoder

StopReason = Literal["stop", "eos", "length"]

Weights: TypeAlias = "Decoder | Path"
"""New weights, in memory or as a model folder, of the shape that the engine was opened with."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much an engine can process concurrently.

    Attributes:
        samples: samples generated at once, or concurrent requests to its server.
        tokens: total tokens of contexts and completions that fit its cache; None if unknown.
        overloads: how often it has refused work until now, because it had too much.
    """

    samples: int
    tokens: int | None
    overloads: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One sample of the model's output.

    Attributes:
        text: decoded text, including the stop string, without end-of-sequence.
        ids: token ids in order, including those of the stop string, without end-of-sequence. Empty when the engine does
            not know ids.
        logprobs: natural log-probability of each id under the untempered distribution, same length as `ids` (one per
            server token if ids are unknown); empty if not offered.
        stop_reason: ``stop`` (a stop string), ``eos`` (the model ended the text), ``length`` (max_tokens, or no room).
        stop: the stop string that ended it, or None.
        reported_tokens: number of generated tokens reported by a server that returns neither ids nor log-probabilities.
        prompt_tokens: number of context tokens reported by a server, 0 if not reported.
        version: version of the weights that produced it (see `Engine.load`).
        end: the sampled end-of-sequence token and its log-probability, if `stop_reason` is ``eos`` and the engine knows
            ids. A trainer needs them: the model decided to end here.
    """

    text: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop_reason: StopReason
    stop: str | None = None
    reported_tokens: int = field(default=0, compare=False)
    prompt_tokens: int = field(default=0, compare=False)
    version: int = 0
    end: tuple[int, float] | None = None

    @property
    def n_tokens(self) -> int:
        """Number of generated tokens, as far as the engine knows."""
        return len(self.ids) or len(self.logprobs) or self.reported_tokens

    def followed_by(self, rest: Completion) -> Completion:
        """This completion and the next one as one, which ends as the next one does."""
        return replace(
            rest,
            text=self.text + rest.text,
            ids=self.ids + rest.ids,
            logprobs=self.logprobs + rest.logprobs if self.logprobs and rest.logprobs else (),
            reported_tokens=self.n_tokens + rest.n_tokens,
        )


@dataclass(frozen=True, slots=True)
class Context:
    """The model's input so far: text, and the exact ids where the engine knows them."""

    text: str
    ids: tuple[int, ...] = ()

    def extend(self, completion: Completion) -> Context:
        """Append a completion that the model produced."""
        return Context(self.text + completion.text, self.ids + completion.ids)

    def fork(self) -> Context:
        """The same context, which goes on apart from its siblings: with several replicas, each may go elsewhere."""
        return self

    def end(self) -> None:
        """Tell the engine that nothing grown from the same start, or the same fork, will be continued."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for `n` samples that continue `context`.

    Attributes:
        context: the model's input.
        max_tokens: limit of generated tokens per sample, > 0.
        temperature: divides the logits; 0 is greedy.
        top_p: nucleus mass in (0, 1].
        n: number of samples, > 0. Sample i is drawn from the random stream (seed, first + i).
        stop: generation ends at the first of these strings to be completed.
        seed: any non-negative integer.
        first: number of the first sample. Samples asked for in several requests equal those of one request.
        known: completions of this context that are not wanted again, with their ids and log-probabilities. The local
            engine then samples from all others, in proportion to their probabilities (only at temperature 1 and top_p
            1). Other engines ignore the field.
    """

    context: Context
    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    n: int = 1
    stop: tuple[str, ...] = ()
    seed: int = 0
    first: int = 0
    known: tuple[Completion, ...] = ()


@runtime_checkable
class Engine(Protocol):
    """A model that completes text. Used as ``async with engine:``; safe for concurrent requests."""

    name: str
    """Name of the model in run folders: a spec such as ``tiny`` or ``hf:/models/qwen``."""

    max_context: int
    """Maximum number of tokens, prompt plus completion."""

    @property
    def version(self) -> int:
        """Version of the weights that new samples start with; 0 until `load`."""
        ...

    def context(self, text: str) -> Context:
        """Tokenise `text` as the start of a context (with BOS if the model has one)."""
        ...

    def append(self, context: Context, text: str) -> Context:
        """Append text that the model did not produce (a tool's output), tokenised on its own."""
        ...

    async def complete(self, request: Request) -> Sequence[Completion]:
        """Generate `request.n` completions, in order.

        Raises:
            ContextFullError: the context leaves no room for another token.
            EngineError: the model or its server failed.
        """
        ...

    async def load(self, weights: Weights, version: int) -> None:
        """Replace the weights. Samples in flight finish with the weights they started with (`Completion.version`).

        Raises:
            EngineError: the engine is not open, is already loading, or does not accept these weights.
        """
        ...

    def capacity(self) -> Capacity:
        """How much the engine can process concurrently."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...
