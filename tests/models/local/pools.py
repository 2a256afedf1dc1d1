"""Pools and requests for the tests of `rstar.models.local.pool`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from rstar.models.engine import Completion, Engine, Request
from rstar.models.local.engine import LocalEngine
from rstar.models.local.pool import LocalPool
from rstar.models.replicas import Replica

LONG = {"max_tokens": 240, "n": 8, "temperature": 2.0}


def pool(folder: Path, workers: int = 2, start_delay: float = 0.0) -> LocalPool:
    return LocalPool(LocalEngine(folder, batch=8, threads=1), workers, start_delay)


def texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("abc 12.\n", k=rng.randrange(1, 60))) for _ in range(count)]


def requests(engine: Engine, count: int) -> list[Request]:
    shapes = [(i % 4 + 1, i % 3 * 0.5, 5 + 3 * (i % 5)) for i in range(count)]
    return [
        Request(engine.context(text), max_tokens=tokens, n=n, temperature=heat, seed=i, stop=("ab",))
        for i, (text, (n, heat, tokens)) in enumerate(zip(texts(count), shapes, strict=True))
    ]


async def all_of(engine: Replica, some: list[Request]) -> list[list[Completion]]:
    return [list(found) for found in await asyncio.gather(*map(engine.complete, some))]


async def until(true: Callable[[], bool]) -> None:
    """Wait; what never comes true ends with the test's own time limit."""
    while not true():
        await asyncio.sleep(0.01)


async def warm(engine: LocalPool) -> None:
    """Have the workers started, and wait until they have loaded the model."""
    await all_of(engine, requests(engine, 2))

    def ready() -> bool:
        for worker in engine.workers:
            worker.check()
        return all(worker.ready for worker in engine.workers)

    assert engine.workers
    await until(ready)


def using(engine: LocalPool, use: Callable[[], Awaitable[None]], *, warmed: bool = True) -> None:
    async def opened() -> None:
        async with engine:
            if warmed:
                await warm(engine)
            await use()

    asyncio.run(opened())
