"""Several engines as one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import EngineError
from rstar.models.engine import Capacity, Completion, Context, Engine, Request, Weights
from rstar.models.fake import FakeEngine
from rstar.models.replicas import REBALANCE_THRESHOLD, Replicas
from rstar.prompts.code_steps import STOPS, prompt
from rstar.specs import Fake


class Spy(FakeEngine):
    """Counts what it is asked, can be held back, and can refuse new weights."""

    def __init__(self, capacity: Capacity = Capacity(3, 100), max_context: int = 16384, broken: bool = False) -> None:  # noqa: B008
        super().__init__(Fake(max_context=max_context))
        self.asked: list[Request] = []
        self.opened = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._capacity, self._broken = capacity, broken

    async def complete(self, request: Request) -> Sequence[Completion]:
        self.asked.append(request)
        await asyncio.sleep(0)  # others are asked meanwhile
        await self.go_on.wait()
        return await super().complete(request)

    async def load(self, weights: Weights, version: int) -> None:
        if self._broken:
            raise EngineError("no new weights here")
        await super().load(weights, version)

    def capacity(self) -> Capacity:
        return self._capacity

    async def __aenter__(self) -> Spy:
        if self._broken and self.opened < 0:
            raise EngineError("does not open")
        self.opened += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.opened -= 1


def test_is_an_engine() -> None:
    engine = Replicas([Spy(max_context=90), Spy(max_context=70)])
    assert isinstance(engine, Engine)
    assert (engine.name, engine.max_context, engine.version) == ("fake:steps?max_context=90", 70, 0)
    assert Replicas([Spy()], name="two of them").name == "two of them"


async def texts_of(engine: Engine, seed: int, questions: Sequence[str]) -> list[list[list[Completion]]]:
    """Some conversations at once, each of three requests."""

    async def conversation(question: str) -> list[list[Completion]]:
        context, found = engine.context(prompt(question)), []
        for turn in range(3):
            samples = list(await engine.complete(Request(context, n=turn + 1, stop=STOPS, seed=seed + turn)))
            context = engine.append(context.extend(samples[-1]), "\n")
            found.append(samples)
        return found

    async with engine:
        return list(await asyncio.gather(*map(conversation, questions)))


@given(count=st.integers(1, 6), seed=st.integers(0, 2**40), asked=st.lists(st.text("12 +", max_size=9), max_size=12))
def test_completions_do_not_depend_on_the_number_of_replicas(count: int, seed: int, asked: list[str]) -> None:
    spies = [Spy() for _ in range(count)]
    found = asyncio.run(texts_of(Replicas(spies), seed, asked))
    assert found == asyncio.run(texts_of(FakeEngine(), seed, asked))
    assert sum(bool(spy.asked) for spy in spies) == min(count, len(asked))


def test_contexts_are_those_of_the_engines() -> None:
    engine, one = Replicas([Spy(), Spy()]), FakeEngine()
    first, same = engine.context("abc"), engine.context("abc")
    assert first == same
    assert hash(first) == hash(same)
    assert engine.append(first, "d") != first
    for found, wanted in ((first, one.context("abc")), (engine.append(first, "d"), one.append(first, "d"))):
        assert (found.text, found.ids) == (wanted.text, wanted.ids)
    bare = Context("abc", first.ids)
    assert engine.append(bare, "d") == one.append(bare, "d")


def holding(count: int) -> tuple[Replicas, list[Spy]]:
    """Replicas that answer only when they are told to."""
    spies = [Spy() for _ in range(count)]
    for spy in spies:
        spy.go_on.clear()
    return Replicas(spies), spies


async def ask(engine: Engine, context: Context, n: int) -> asyncio.Task[Sequence[Completion]]:
    """A request that is under way."""
    task = asyncio.create_task(engine.complete(Request(context, n=n)))
    await asyncio.sleep(0)
    return task


@given(load=st.integers(0, 2 * REBALANCE_THRESHOLD))
def test_a_context_keeps_its_home_until_the_loads_differ(load: int) -> None:
    async def scenario() -> None:
        engine, (home, other) = holding(2)
        async with engine:
            context = engine.context("Add 1 and 2.")
            tasks = [await ask(engine, context, 1)]
            assert (len(home.asked), len(other.asked)) == (1, 0)
            home.go_on.set()
            (completion,) = await tasks.pop()
            home.go_on.clear()
            if load:
                engine._in_flight[home] = load
            longer = engine.append(context.extend(completion), "more")
            tasks.append(await ask(engine, longer, 1))
            assert len(other.asked) == (load >= REBALANCE_THRESHOLD)
            engine._in_flight[home] = 0
            tasks.append(await ask(engine, longer, 1))
            assert len(other.asked) == 2 * (load >= REBALANCE_THRESHOLD)  # the new home is kept just so
            for spy in (home, other):
                spy.go_on.set()
            await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_new_contexts_go_where_least_is_under_way() -> None:
    async def scenario() -> None:
        engine, spies = holding(3)
        async with engine:
            tasks = [await ask(engine, engine.context(str(n)), n) for n in (5, 2, 4, 1, 1, 1)]
            assert [[request.n for request in spy.asked] for spy in spies] == [[5], [2, 1, 1, 1], [4]]
            tasks.append(await ask(engine, Context("bare"), 1))  # of nobody's making
            assert spies[2].asked[-1].context.text == "bare"
            for spy in spies:
                spy.go_on.set()
            await asyncio.gather(*tasks)
            assert [engine._in_flight[spy] for spy in spies] == [0, 0, 0]

    asyncio.run(scenario())


def test_cancelled_requests_are_not_under_way() -> None:
    async def scenario() -> None:
        engine, (spy,) = holding(1)
        async with engine:
            task = await ask(engine, engine.context("x"), 7)
            assert engine._in_flight[spy] == 7
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert engine._in_flight[spy] == 0

    asyncio.run(scenario())


def test_new_weights_reach_all() -> None:
    spies = [Spy() for _ in range(3)]
    engine, alone = Replicas(spies), FakeEngine()

    async def scenario() -> list[list[Completion]]:
        await engine.load(Path("new"), 4)
        await alone.load(Path("new"), 4)
        assert [spy.version for spy in spies] == [4, 4, 4]
        assert engine.version == 4
        spies[1].version = 3
        assert engine.version == 3
        spies[1].version = 4
        requests = [Request(engine.context(prompt(str(n))), seed=n) for n in range(9)]
        expected = [
            list(await alone.complete(replace(one, context=alone.context(one.context.text)))) for one in requests
        ]
        found = [list(one) for one in await asyncio.gather(*map(engine.complete, requests))]
        assert found == expected
        return found

    found = asyncio.run(scenario())
    assert {completion.version for some in found for completion in some} == {4}
    assert all(spy.asked for spy in spies)


def test_capacities_add_up() -> None:
    known = [Capacity(3, 100), Capacity(5, 50)]
    assert Replicas([Spy(one) for one in known]).capacity() == Capacity(8, 150)
    assert Replicas([Spy(one) for one in (*known, Capacity(2, None))]).capacity() == Capacity(10, None)


def test_the_error_of_a_replica_passes() -> None:
    failing = FakeEngine(Fake("fail", rate=1))
    engine = Replicas([failing, Spy()])

    async def scenario() -> None:
        async with engine:
            context = engine.context("x")
            with pytest.raises(EngineError, match="failed on purpose"):
                await engine.complete(Request(context))
            assert engine._in_flight[failing] == 0
        with pytest.raises(EngineError, match="no new weights here"):
            await Replicas([Spy(), Spy(broken=True)]).load(Path("new"), 1)

    asyncio.run(scenario())


def test_a_replica_whose_load_failed_takes_no_requests_until_the_next_load() -> None:
    spies = [Spy(), Spy(broken=True), Spy()]
    engine = Replicas(spies)

    async def scenario() -> set[int]:
        with pytest.raises(EngineError, match="no new weights here"):
            await engine.load(Path("new"), 1)
        requests = [Request(engine.context(prompt(str(n)))) for n in range(9)]
        found = await asyncio.gather(*map(engine.complete, requests))
        assert not spies[1].asked
        spies[1]._broken = False
        await engine.load(Path("new"), 2)
        await asyncio.gather(*(engine.complete(Request(engine.context(str(n)))) for n in range(9)))
        assert all(spy.asked for spy in spies)
        return {completion.version for completions in found for completion in completions}

    assert asyncio.run(scenario()) == {1}


def test_weights_refused_by_all_replicas_change_nothing() -> None:
    engine = Replicas([Spy(broken=True), Spy(broken=True)])

    async def scenario() -> None:
        with pytest.raises(EngineError, match="no new weights here"):
            await engine.load(Path("new"), 1)
        assert (await engine.complete(Request(engine.context("x"))))[0].version == 0

    asyncio.run(scenario())


def test_a_cancelled_load_leaves_no_replica_ready() -> None:
    class Slow(Spy):
        async def load(self, weights: Weights, version: int) -> None:
            await asyncio.sleep(3600)

    engine = Replicas([Slow(), Slow()])

    async def scenario() -> None:
        loading = asyncio.create_task(engine.load(Path("new"), 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        with pytest.raises(EngineError, match="loading weights failed on every replica"):
            await engine.complete(Request(engine.context("x")))

    asyncio.run(scenario())


def test_all_are_opened_and_closed_together() -> None:
    spies = [Spy() for _ in range(3)]

    async def scenario() -> None:
        engine = Replicas(spies)
        async with engine, engine:
            assert [spy.opened for spy in spies] == [1, 1, 1]
        assert [spy.opened for spy in spies] == [0, 0, 0]
        shut = Spy(broken=True)
        shut.opened = -1
        with pytest.raises(EngineError, match="does not open"):
            async with Replicas([*spies, shut]):
                pass
        assert [spy.opened for spy in spies] == [0, 0, 0]

    asyncio.run(scenario())
