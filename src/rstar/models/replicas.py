"""Several engines with the same weights, as one `Engine`.

All contexts grown from one `context` call have a home replica, whose cache holds their common prefix. They move when
another replica is clearly less busy. The choice of replica does not change completions, to the extent that the engines
themselves guarantee this.

Replicas never serve different weights: one whose `load` failed or was cancelled takes no requests until a later `load`
succeeds. Weights that every replica refuses change nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rstar.errors import EngineError
from rstar.lifecycle import SharedContext, gather_or_cancel
from rstar.models.engine import Capacity, Completion, Context, Engine, Request, Weights

REBALANCE_THRESHOLD = 16
"""A context moves when its home has at least this many more samples in flight than another replica."""


class Replica(Protocol):
    """What completes requests: an engine, or a worker process."""

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`."""
        ...


R = TypeVar("R", bound=Replica)


@dataclass(slots=True, eq=False)
class _Home:
    """Home replica of all contexts grown from one start."""

    replica: Replica | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _PlacedContext(Context):
    """A context that knows its home; compares equal to a plain one with the same text and ids."""

    home: _Home = field(default_factory=_Home)

    def extend(self, completion: Completion) -> Context:
        return _PlacedContext(self.text + completion.text, self.ids + completion.ids, self.home)


class Replicas(SharedContext):
    """An `Engine` over replicas of one model.

    Args:
        engines: at least one; opened and closed together.
        name: name of the model in run folders; default: that of the first.

    Attributes:
        engines: the replicas.
    """

    def __init__(self, engines: Sequence[Engine], name: str | None = None) -> None:
        super().__init__()
        self.engines = list(engines)
        self.name = name or engines[0].name
        self.max_context = min(engine.max_context for engine in engines)
        self._in_flight: Counter[Replica] = Counter()
        """Samples in flight."""
        self._outdated: set[Replica] = set()
        """Replicas whose last load failed: their weights may differ."""
        self._stack = AsyncExitStack()

    @property
    def version(self) -> int:
        """Oldest version among the replicas."""
        return min(engine.version for engine in self.engines)

    def context(self, text: str) -> Context:
        """See `Engine.context`."""
        start = self.engines[0].context(text)
        return _PlacedContext(start.text, start.ids)

    def append(self, context: Context, text: str) -> Context:
        """See `Engine.append`."""
        longer = self.engines[0].append(context, text)
        return _PlacedContext(longer.text, longer.ids, context.home) if isinstance(context, _PlacedContext) else longer

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`. Raises `EngineError` also if the last `load` failed on every replica."""
        replica = self._choose(request.context)
        self._in_flight[replica] += request.n
        try:
            return await replica.complete(request)
        finally:
            self._in_flight[replica] -= request.n

    async def load(self, weights: Weights, version: int) -> None:
        """See `Engine.load`. All replicas load concurrently; see the module docstring for failures."""
        await self._load_each(self.engines, lambda engine: engine.load(weights, version))

    async def _load_each(
        self, replicas: Sequence[R], load: Callable[[R], Awaitable[None]], changed: bool = False
    ) -> None:
        """Load replicas concurrently. On a failure, those that may now differ from the others become outdated.

        `changed` tells that another replica has loaded these weights already.
        """
        loaded: set[Replica] = set()
        errors: list[EngineError] = []

        async def load_one(replica: R) -> None:
            try:
                await load(replica)
                loaded.add(replica)
            except EngineError as error:
                errors.append(error)

        try:
            await gather_or_cancel(map(load_one, replicas))
        finally:
            if changed or len(errors) < len(replicas):  # else all refused the weights, and none has changed
                self._outdated = (self._outdated | set(replicas)) - loaded
        if errors:
            raise errors[0]

    def capacity(self) -> Capacity:
        """The sum over all replicas."""
        parts = [engine.capacity() for engine in self.engines]
        tokens = [part.tokens for part in parts if part.tokens is not None]
        return Capacity(sum(part.samples for part in parts), sum(tokens) if len(tokens) == len(parts) else None)

    def _ready(self) -> Sequence[Replica]:
        """Replicas that can take requests now."""
        return [engine for engine in self.engines if engine not in self._outdated]

    def _choose(self, context: Context) -> Replica:
        """Replica for the next request on `context`."""
        ready, in_flight = self._ready(), self._in_flight
        if not ready:
            raise EngineError(f"{self.name}: loading weights failed on every replica; load weights again")
        least_busy = min(ready, key=in_flight.__getitem__)
        if not isinstance(context, _PlacedContext):
            return least_busy
        home = context.home.replica
        if home is None or home not in ready or in_flight[home] >= in_flight[least_busy] + REBALANCE_THRESHOLD:
            home = context.home.replica = least_busy
        return home

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            for engine in self.engines:
                await stack.enter_async_context(engine)
            self.max_context = min(engine.max_context for engine in self.engines)  # servers report theirs on opening
            self._stack = stack.pop_all()

    async def _close(self) -> None:
        await self._stack.aclose()
