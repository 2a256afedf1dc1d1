"""Several engines with the same weights, as one `Engine`.

Contexts that grow from one call of `context` have one home, whose cache holds what they begin with. They move when
another replica is clearly less busy. Which replica computes a request does not change its completions, as far as the
engines themselves keep that promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from rstar.lifecycle import Shared, together
from rstar.models.engine import Capacity, Completion, Context, Engine, Request, Weights

SLACK = 16
"""A context moves when another replica has this many samples under way less than its home."""


@dataclass(slots=True, eq=False)
class _Home:
    """The replica that computes the texts that grow from one beginning."""

    engine: Engine | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Housed(Context):
    """A context that knows its home; equal to any other of the same text and ids."""

    home: _Home = field(default_factory=_Home)

    def extend(self, completion: Completion) -> Context:
        return _Housed(self.text + completion.text, self.ids + completion.ids, self.home)


class Replicas(Shared):
    """An `Engine` over engines of one model.

    Args:
        engines: at least one; opened and closed together.
        name: what run folders call the model; default: the name of the first.
    """

    def __init__(self, engines: Sequence[Engine], name: str | None = None) -> None:
        super().__init__()
        self._engines = list(engines)
        self.name = name or engines[0].name
        self.max_context = min(engine.max_context for engine in engines)
        self._under_way: dict[int, int] = {}
        """Samples, by the identity of the replica."""
        self._stack = AsyncExitStack()

    @property
    def version(self) -> int:
        """The oldest of the replicas' versions."""
        return min(engine.version for engine in self._engines)

    def context(self, text: str) -> Context:
        """See `Engine.context`."""
        start = self._engines[0].context(text)
        return _Housed(start.text, start.ids)

    def append(self, context: Context, text: str) -> Context:
        """See `Engine.append`."""
        longer = self._engines[0].append(context, text)
        return _Housed(longer.text, longer.ids, context.home) if isinstance(context, _Housed) else longer

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`."""
        engine = self._choose(request.context)
        self._under_way[id(engine)] = self._busy(engine) + request.n
        try:
            return await engine.complete(request)
        finally:
            self._under_way[id(engine)] -= request.n

    async def load(self, weights: Weights, version: int) -> None:
        """See `Engine.load`. All replicas take the weights at the same time."""
        await together(engine.load(weights, version) for engine in self._engines)

    def capacity(self) -> Capacity:
        """The sum over all replicas."""
        parts = [engine.capacity() for engine in self._engines]
        tokens = [part.tokens for part in parts if part.tokens is not None]
        return Capacity(sum(part.samples for part in parts), sum(tokens) if len(tokens) == len(parts) else None)

    def _ready(self) -> Sequence[Engine]:
        """The replicas that can be asked now; at least one."""
        return self._engines

    def _busy(self, engine: Engine) -> int:
        return self._under_way.get(id(engine), 0)

    def _choose(self, context: Context) -> Engine:
        """The replica that computes what follows `context`."""
        ready = self._ready()
        least = min(ready, key=self._busy)
        if not isinstance(context, _Housed):
            return least
        home = context.home
        if home.engine is None or home.engine not in ready or self._busy(home.engine) >= self._busy(least) + SLACK:
            home.engine = least
        return home.engine

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            for engine in self._engines:
                await stack.enter_async_context(engine)
            self.max_context = min(engine.max_context for engine in self._engines)  # a server tells its own only now
            self._stack = stack.pop_all()

    async def _close(self) -> None:
        await self._stack.aclose()
