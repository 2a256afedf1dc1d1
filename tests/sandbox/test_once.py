"""Equal code from equal states runs once; the results are those of the sandbox beneath."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from rstar.sandbox.api import Limits, Sandbox
from rstar.sandbox.once import OnceSandbox
from tests.search.plain import PlainSandbox

CELLS = ("x = 1", "x = 2", "x = x * 2 + 1", "print(x)", "1 / 0")


async def results(sandbox: Sandbox, programs: list[list[str]]) -> list[tuple[str, str]]:
    """Status and output of every cell."""
    found: list[tuple[str, str]] = []
    for cells in programs:
        state = sandbox.start()
        for cell in cells:
            after, result = await state.run(cell, Limits())
            state.release()
            found.append((result.status, result.stdout))
            assert after is not None
            state = after
        state.release()
    return found


@given(st.lists(st.lists(st.sampled_from(CELLS), max_size=4), max_size=6))
def test_results_are_those_of_the_sandbox_and_nothing_runs_twice(programs: list[list[str]]) -> None:
    plain, beneath = PlainSandbox(), PlainSandbox()

    async def shared() -> list[tuple[str, str]]:
        async with OnceSandbox(beneath) as sandbox:
            return await results(sandbox, programs)

    assert asyncio.run(shared()) == asyncio.run(results(plain, programs))
    assert len(beneath.runs) == len({tuple(cells[: n + 1]) for cells in programs for n in range(len(cells))})
    assert beneath.live == 0, "all states are released at the end"


def test_limits_are_part_of_what_is_equal() -> None:
    beneath = PlainSandbox()

    async def twice() -> None:
        async with OnceSandbox(beneath) as sandbox:
            await sandbox.start().run("x = 1", Limits(seconds=1))
            await sandbox.start().run("x = 1", Limits(seconds=2))
            await sandbox.run("x = 1")
            await sandbox.run("x = 1")

    asyncio.run(twice())
    assert len(beneath.runs) == 4
