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
from rstar.models.replicas import YOUNG, Replicas
from rstar.prompts.code_steps import STOPS, prompt
from rstar.specs import Fake


class Spy(FakeEngine):
    """Counts what it is asked, can be held back, and can refuse new weights."""

    def __init__(self, capacity: Capacity = Capacity(16, None), max_context: int = 16384, broken: bool = False) -> None:  # noqa: B008
        super().__init__(Fake(max_context=max_context))
        self.asked: list[Request] = []
        self.overloads = 0
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
        return replace(self._capacity, overloads=self.overloads)

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
    if asked:
        assert all(spy.asked for spy in spies[: len(asked)]), "no replica is left out"


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


def holding(count: int, capacity: Capacity = Capacity(16, None)) -> tuple[Replicas, list[Spy]]:  # noqa: B008
    """Replicas that answer only when they are told to."""
    spies = [Spy(capacity) for _ in range(count)]
    for spy in spies:
        spy.go_on.clear()
    return Replicas(spies), spies


async def ask(engine: Engine, context: Context, n: int) -> asyncio.Task[Sequence[Completion]]:
    """A request that is under way."""
    task = asyncio.create_task(engine.complete(Request(context, n=n)))
    await asyncio.sleep(0)
    return task


def test_a_conversation_stays_at_its_home() -> None:
    async def scenario() -> None:
        engine, spies = Replicas([Spy(), Spy()]), None
        spies = [one for one in engine.engines if isinstance(one, Spy)]
        async with engine:
            context = engine.context("Add 1 and 2.")
            for turn in range(3):
                others = [await ask(engine, engine.context("x"), turn) for turn in range(1, turn + 2)]
                (completion,) = await engine.complete(Request(context))
                context = engine.append(context.extend(completion), "more")
                await asyncio.gather(*others)
        homes = {number for number, spy in enumerate(spies) for one in spy.asked if one.context.text.startswith("Add")}
        assert len(homes) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("tokens", [YOUNG // 2, 2 * YOUNG])
def test_a_young_conversation_moves_to_a_replica_that_does_far_less(tokens: int) -> None:
    async def scenario() -> None:
        engine, (home, other) = holding(2)
        async with engine:
            context = engine.context("Add 1 and 2." + "x" * tokens)
            tasks = [await ask(engine, context, 1)]
            assert (len(home.asked), len(other.asked)) == (1, 0)
            home.go_on.set()
            (completion,) = await tasks.pop()
            home.go_on.clear()
            busy = [await ask(engine, engine.context("y"), 3) for _ in range(4)]  # two on each
            other.go_on.set()
            await asyncio.sleep(0.01)
            assert [task.done() for task in busy].count(True) == 2
            longer = engine.append(context.extend(completion), "more")
            task = await ask(engine, longer, 1)
            asked = other.asked if tokens < YOUNG else home.asked
            assert asked[-1].context == longer
            for spy in (home, other):
                spy.go_on.set()
            await asyncio.gather(*busy, task)

    asyncio.run(scenario())


def test_new_contexts_go_where_least_is_under_way() -> None:
    async def scenario() -> None:
        engine, spies = holding(3)
        async with engine:
            tasks = [await ask(engine, engine.context(str(n)), n) for n in (5, 2, 4, 1, 1, 1)]
            assert [[request.n for request in spy.asked] for spy in spies] == [[5], [2, 1, 1], [4, 1]]
            tasks.append(await ask(engine, Context("bare"), 1))  # of nobody's making
            assert spies[1].asked[-1].context.text == "bare"
            for spy in spies:
                spy.go_on.set()
            await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_requests_wait_until_a_replica_has_room_and_not_for_a_certain_one() -> None:
    async def scenario() -> None:
        engine, (first, second) = holding(2)
        async with engine:
            tasks = [await ask(engine, engine.context(str(n)), 8) for n in range(6)]
            assert (len(first.asked), len(second.asked)) == (2, 2)
            second.go_on.set()
            await asyncio.sleep(0.01)
            assert (len(first.asked), len(second.asked)) == (2, 4), "the second does what has waited"
            assert [task.done() for task in tasks].count(True) == 4
            first.go_on.set()
            await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_the_ledger_of_a_replica_with_known_capacity_limits_what_starts() -> None:
    async def scenario() -> None:
        engine, (spy,) = holding(1, Capacity(64, 40_000))
        async with engine:
            contexts = [engine.context("x" * 10_000) for _ in range(6)]
            tasks = [await ask(engine, context, 1) for context in contexts]
            started = len(spy.asked)
            assert 1 <= started < 4, "four of them alone would hold 40,000 tokens"
            spy.go_on.set()
            await asyncio.gather(*tasks)
            assert len(spy.asked) == 6
            for context in contexts:
                context.end()
            assert engine._scheduler is not None
            assert not engine._scheduler._rollouts

    asyncio.run(scenario())


def test_contexts_that_nobody_ends_keep_no_others_waiting() -> None:
    async def scenario() -> None:
        engine = Replicas([Spy(Capacity(64, 40_000))])
        async with engine:
            for _ in range(20):
                await asyncio.wait_for(engine.complete(Request(engine.context("x" * 10_000))), 60)

    asyncio.run(scenario())


def test_forks_go_on_apart() -> None:
    async def scenario() -> None:
        engine = Replicas([Spy(), Spy()])
        spies = [one for one in engine.engines if isinstance(one, Spy)]
        async with engine:
            start = engine.context("start")
            completions = await engine.complete(Request(start, n=8))
            for spy in spies:
                spy.asked.clear()
                spy.go_on.clear()
            forks = [start.fork().extend(completion) for completion in completions]
            tasks = [await ask(engine, fork, 1) for fork in forks]
            assert all(len(spy.asked) >= 2 for spy in spies)
            for spy in spies:
                spy.go_on.set()
            await asyncio.gather(*tasks)
            for context in (start, *forks):
                context.end()
            assert engine._scheduler is not None
            assert not engine._scheduler._rollouts

    asyncio.run(scenario())


def test_concurrent_requests_of_one_conversation_run_in_one_place() -> None:
    async def scenario() -> None:
        engine, spies = holding(2)
        async with engine:
            context = engine.context("a")
            tasks = [await ask(engine, context, n) for n in (1, 2, 3)]
            await asyncio.sleep(0.01)
            assert [[request.n for request in spy.asked] for spy in spies] == [[1, 2, 3], []]
            spies[0].go_on.set()
            await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_a_server_that_is_overloaded_gets_less() -> None:
    async def scenario() -> None:
        engine, (spy,) = holding(1)
        async with engine:
            spy.go_on.set()
            await engine.complete(Request(engine.context("a")))
            spy.overloads = 1
            await engine.complete(Request(engine.context("b")))
            spy.asked.clear()
            spy.go_on.clear()
            tasks = [await ask(engine, engine.context(str(n)), 1) for n in range(20)]
            assert 6 <= len(spy.asked) <= 9
            spy.go_on.set()
            await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_cancelled_requests_hold_nothing() -> None:
    async def scenario() -> None:
        engine, (spy,) = holding(1)
        async with engine:
            running, waiting = await ask(engine, engine.context("x"), 16), await ask(engine, engine.context("y"), 16)
            assert len(spy.asked) == 1
            waiting.cancel()
            running.cancel()
            await asyncio.gather(waiting, running, return_exceptions=True)
            spy.go_on.set()
            await asyncio.wait_for(engine.complete(Request(engine.context("z"), n=16)), 60)

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
            assert engine.under_way(failing) == 0
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
