"""Opening and closing the local sandbox; what runs in it is tested beside."""

import asyncio

import pytest

from rstar.errors import SandboxError
from rstar.sandbox import LocalSandbox


def test_opened_again_while_it_closes() -> None:
    async def run() -> str:
        sandbox = LocalSandbox()
        await sandbox.__aenter__()
        closing = asyncio.create_task(sandbox.__aexit__(None, None, None))
        await asyncio.sleep(0)
        async with sandbox:
            await closing
            return (await sandbox.run("1 + 1")).stdout

    assert asyncio.run(run()) == "2\n"


def test_it_closes_with_its_last_user_and_belongs_to_one_event_loop() -> None:
    async def run() -> None:
        sandbox = LocalSandbox()
        async with sandbox:
            async with sandbox:
                pass
            assert (await sandbox.run("1 + 1")).ok
            with pytest.raises(SandboxError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, sandbox.__aenter__())

    asyncio.run(run())
