"""Several engines with the same weights, as one `Engine`.

All contexts grown from one `context` call have a home replica, whose cache holds their common prefix. They move when
another replica is clearly less busy. The choice of replica does not change completions, to the extent that the engines
themselves guarantee this.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from rstar.lifecycle import Shared, together
from rstar.models.engine import Capacity, Completion, Context, Engine, Request, Weights

SLACK = 16
"""A context moves when its home has at least this many more samples in flight than another replica."""


@dataclass(slots=True, eq=False)
class _Home:
    """Home replica of all contexts grown from one start."""

    engine: Engine | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Housed(Context):
    """A context that knows its home; compares equal to a plain one with the same text and ids."""

    home: _Home = field(default_factory=_Home)

    def extend(self, completion: Completion) -> Context:
        return _Housed(self.text + completion.text, self.ids + completion.ids, self.home)


class Replicas(Shared):
    """An `Engine` over replicas of one model.

    Args:
        engines: at least one; opened and closed together.
        name: name of the model in run folders; default: that of the first.
    """

    def __init__(self, engines: Sequence[Engine], name: str | None = None) -> None:
        super().__init__()
        self._engines = list(engines)
        self.name = name or engines[0].name
        self.max_context = min(engine.max_context for engine in engines)
        self._under_way: dict[int, int] = {}
        """Samples in flight, keyed by the replica's `id`."""
        self._stack = AsyncExitStack()

    @property
    def version(self) -> int:
        """Oldest version among the replicas."""
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
        """See `Engine.load`. All replicas load the weights concurrently."""
        await together(engine.load(weights, version) for engine in self._engines)

    def capacity(self) -> Capacity:
        """The sum over all replicas."""
        parts = [engine.capacity() for engine in self._engines]
        tokens = [part.tokens for part in parts if part.tokens is not None]
        return Capacity(sum(part.samples for part in parts), sum(tokens) if len(tokens) == len(parts) else None)

    def _ready(self) -> Sequence[Engine]:
        """Replicas that can take requests now; at least one."""
        return self._engines

    def _busy(self, engine: Engine) -> int:
        return self._under_way.get(id(engine), 0)

    def _choose(self, context: Context) -> Engine:
        """Replica for the next request on `context`."""
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
            self.max_context = min(engine.max_context for engine in self._engines)  # servers report theirs on opening
            self._stack = stack.pop_all()

    async def _close(self) -> None:
        await self._stack.aclose()
