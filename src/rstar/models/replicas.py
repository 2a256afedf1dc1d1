"""Several engines with the same weights, as one `Engine`.

All contexts grown from one `context` call, or from one fork, have a home: the replica whose cache holds their common
prefix. `rstar.models.scheduler` decides when a home's turn may start, and where. A home's turn lasts while requests for
its contexts are under way. The choice of replica does not change completions, to the extent that the engines themselves
guarantee this.

Replicas never serve different weights: one whose `load` failed or was cancelled takes no requests until a later `load`
succeeds. Weights that every replica refuses change nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeVar

from rstar.errors import EngineError
from rstar.lifecycle import SharedContext, gather_or_cancel
from rstar.models.engine import Capacity, Completion, Context, Engine, Request, Weights
from rstar.models.growth import Growth
from rstar.models.scheduler import Scheduler

YOUNG = 1_024
"""A home of fewer tokens may move to a replica that is less busy: what it has there is soon computed again."""
TURNS, FIRST_GUESS = 16, 2_500
"""What `Growth` expects at first: number of turns, tokens per turn."""
CHARACTERS = 4
"""Characters per token, where the engine knows no ids."""


class Replica(Protocol):
    """What completes requests: an engine, or a worker process."""

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`."""
        ...


R = TypeVar("R", bound=Replica)


class _Home:
    """The common home of contexts: a rollout of the scheduler, from its first request to its end.

    Attributes:
        owner: the replicas.
        group: homes of one group have similar lengths: the forks of a context.
        number: of the rollout; None before the first request, and after the end.
        scheduler: that knows the rollout.
        replica: where its turn runs.
        requests: number of requests under way, or that wait for their start.
        started: done when the turn that waits has started; None if none waits.
        added: tokens sampled in the turn so far.
        appended: tokens that others have appended since.
        ended: whether no context is continued.
    """

    __slots__ = (
        "added",
        "appended",
        "ended",
        "group",
        "number",
        "owner",
        "replica",
        "requests",
        "scheduler",
        "started",
    )

    def __init__(self, owner: Replicas, group: int) -> None:
        self.owner, self.group = owner, group
        self.number: int | None = None
        self.scheduler: Scheduler | None = None
        self.replica: int | None = None
        self.requests = self.added = self.appended = 0
        self.started: asyncio.Future[None] | None = None
        self.ended = False

    def __del__(self) -> None:
        if self.number is not None:  # nobody has told that it ends
            self.owner.abandoned.append((self.scheduler, self.number))


@dataclass(frozen=True, slots=True, eq=False)
class _PlacedContext(Context):
    """A context that knows its home; compares equal to a plain one with the same text and ids."""

    home: _Home = field(kw_only=True)

    def extend(self, completion: Completion) -> Context:
        return _PlacedContext(self.text + completion.text, self.ids + completion.ids, home=self.home)

    def fork(self) -> Context:
        return _PlacedContext(self.text, self.ids, home=self.home.owner.fork(self.home, _length(self)))

    def end(self) -> None:
        self.home.owner.end(self.home)


class Replicas(SharedContext):
    """An `Engine` over replicas of one model.

    Args:
        engines: at least one; opened and closed together.
        name: name of the model in run folders; default: that of the first.
        migrate_below: maximum tokens of a home that may move to another replica.

    Attributes:
        engines: the replicas.
        abandoned: rollouts whose homes are gone; filled by the garbage collector at any time.
    """

    def __init__(self, engines: Sequence[Engine], name: str | None = None, migrate_below: float = YOUNG) -> None:
        super().__init__()
        self.engines = list(engines)
        self.name = name or engines[0].name
        self.max_context = min(engine.max_context for engine in engines)
        self.abandoned: deque[tuple[Scheduler | None, int]] = deque()
        self._migrate_below = migrate_below
        self._growth = Growth(TURNS, FIRST_GUESS)
        self._numbers = count()
        self._scheduler: Scheduler | None = None
        self._waiting: dict[int, _Home] = {}
        self._overloads: dict[int, int] = {}
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
        return _PlacedContext(start.text, start.ids, home=_Home(self, next(self._numbers)))

    def append(self, context: Context, text: str) -> Context:
        """See `Engine.append`."""
        longer = self.engines[0].append(context, text)
        if not isinstance(context, _PlacedContext):
            return longer
        context.home.appended += _length(longer) - _length(context)
        return _PlacedContext(longer.text, longer.ids, home=context.home)

    def fork(self, home: _Home, tokens: int) -> _Home:
        """A new home at the same place, for contexts of `tokens`."""
        fork = _Home(self, home.group)
        if self._rests(home):
            assert self._scheduler is not None
            assert home.number is not None
            fork.number, fork.scheduler = next(self._numbers), self._scheduler
            self._scheduler.fork(home.number, fork.number, tokens)
        return fork

    def end(self, home: _Home) -> None:
        """No context of this home is continued."""
        home.ended = True
        if self._rests(home):
            assert self._scheduler is not None
            assert home.number is not None
            self._scheduler.end(home.number)
            home.number = None
            self._dispatch(self._scheduler)

    def _rests(self, home: _Home) -> bool:
        """Whether the scheduler knows this home, and it has no turn now."""
        return home.number is not None and home.scheduler is self._scheduler and not home.requests

    async def complete(self, request: Request) -> Sequence[Completion]:
        """See `Engine.complete`. Raises `EngineError` also if the last `load` failed on every replica."""
        context = request.context
        home = context.home if isinstance(context, _PlacedContext) else _Home(self, next(self._numbers))
        scheduler = self._open_scheduler()
        number = await self._start(scheduler, home, request)
        # Looked up only now: meanwhile, a pool may have started workers.
        replica = self._places()[number]
        try:
            assert replica is not None
            completions = await replica.complete(request)
            home.added += sum(completion.n_tokens for completion in completions)
            return completions
        finally:
            self._finish(scheduler, home)

    def _open_scheduler(self) -> Scheduler:
        """The scheduler, told about what has changed."""
        if self._scheduler is None:
            self._scheduler = self._new_scheduler()
        while self.abandoned:
            scheduler, number = self.abandoned.popleft()
            if scheduler is self._scheduler:
                self._scheduler.drop(number)
        ready = self._ready()
        for number, replica in enumerate(self._places()):
            self._scheduler.set_available(number, replica in ready)
        if not ready:
            raise EngineError(f"{self.name}: loading weights failed on every replica; load weights again")
        return self._scheduler

    def _new_scheduler(self) -> Scheduler:
        capacities = [engine.capacity() for engine in self.engines]
        window = min(capacity.samples for capacity in capacities)
        return Scheduler([one.tokens for one in capacities], self._growth, self._migrate_below, window)

    async def _start(self, scheduler: Scheduler, home: _Home, request: Request) -> int:
        """Begin the home's turn, or join the one that runs. Returns the number of the replica."""
        while home.started is not None:  # another request waits for the start of this turn
            await asyncio.wait([home.started])
        home.requests += 1
        try:
            if home.replica is not None:
                assert home.number is not None
                scheduler.join(home.number, request.n)
            else:
                await self._wait_for_start(scheduler, home, request)
        except BaseException:
            home.requests -= 1
            raise
        assert home.replica is not None
        return home.replica

    async def _wait_for_start(self, scheduler: Scheduler, home: _Home, request: Request) -> None:
        home.started = asyncio.get_running_loop().create_future()
        if home.number is None or home.scheduler is not scheduler:
            home.number, home.scheduler = next(self._numbers), scheduler
            scheduler.submit(home.number, _length(request.context), home.group, request.n)
        else:
            scheduler.resume(home.number, home.appended, request.n)
        home.added = home.appended = 0
        home.ended = False
        self._waiting[home.number] = home
        try:
            self._dispatch(scheduler)
            await home.started
        except BaseException:
            self._waiting.pop(home.number, None)
            scheduler.drop(home.number)
            home.number = home.replica = None
            self._dispatch(scheduler)
            raise
        finally:
            if not home.started.done():
                home.started.cancel()
            home.started = None

    def _finish(self, scheduler: Scheduler, home: _Home) -> None:
        """A request of the home has ended; with the last, so has the turn."""
        home.requests -= 1
        if home.requests or home.number is None or home.replica is None:
            return
        replica, home.replica = home.replica, None
        if scheduler is self._scheduler:  # else the replicas were closed meanwhile
            self._note_overloads(scheduler, replica)
            scheduler.call_tool(home.number, home.added)
            if home.ended:
                self.end(home)
            else:
                self._dispatch(scheduler)

    def _note_overloads(self, scheduler: Scheduler, number: int) -> None:
        """Tell the scheduler if the server has refused work since the last look."""
        if number < len(self.engines):
            overloads = self.engines[number].capacity().overloads
            if overloads > self._overloads.get(number, 0):
                scheduler.overloaded(number)
            self._overloads[number] = overloads

    def _dispatch(self, scheduler: Scheduler) -> None:
        """Start the turns that may start now."""
        for number, replica, _ in scheduler.dispatch():
            home = self._waiting.pop(number)
            assert home.started is not None
            if not home.started.done():  # else its request was cancelled, and will drop it
                home.replica = replica
                home.started.set_result(None)

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
                self._fail_waiting()
        if errors:
            raise errors[0]

    def _fail_waiting(self) -> None:
        """If no replica can take requests, fail those that wait for one."""
        for home in [] if self._ready() else list(self._waiting.values()):
            if home.started is not None and not home.started.done():
                home.started.set_exception(EngineError(f"{self.name}: loading weights failed on every replica"))

    def under_way(self, replica: Replica) -> int:
        """Number of samples under way on a replica."""
        if self._scheduler is None or replica not in self._places():
            return 0
        return self._scheduler.samples(self._places().index(replica))

    def capacity(self) -> Capacity:
        """The sum over all replicas."""
        parts = [engine.capacity() for engine in self.engines]
        tokens = [part.tokens for part in parts if part.tokens is not None]
        return Capacity(
            sum(part.samples for part in parts),
            sum(tokens) if len(tokens) == len(parts) else None,
            sum(part.overloads for part in parts),
        )

    def _places(self) -> Sequence[Replica | None]:
        """All replicas, by the scheduler's numbers; None: not there yet."""
        return self.engines

    def _ready(self) -> Sequence[Replica]:
        """Replicas that can take requests now."""
        return [engine for engine in self.engines if engine not in self._outdated]

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            for engine in self.engines:
                await stack.enter_async_context(engine)
            self.max_context = min(engine.max_context for engine in self.engines)  # servers report theirs on opening
            self._stack = stack.pop_all()

    async def _close(self) -> None:
        self._scheduler = None
        self._waiting.clear()
        await self._stack.aclose()


def _length(context: Context) -> int:
    """Tokens of a context; an estimate, where the engine knows no ids."""
    return len(context.ids) or len(context.text) // CHARACTERS
