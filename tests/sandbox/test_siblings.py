"""Many runs from one state at the same time, as an expansion of a search tree makes them."""

import asyncio

from rstar.sandbox import LocalSandbox


def test_siblings_run_at_once_and_see_their_parent_alone() -> None:
    async def run() -> None:
        async with LocalSandbox() as sandbox:
            parent, _ = await sandbox.start().run("x = 100")
            assert parent is not None
            for _ in range(8):
                found = await asyncio.gather(*(parent.run(f"x += {k}\nprint(x)") for k in range(8)))
                assert [(r.status, r.stdout) for _, r in found] == [("ok", f"{100 + k}\n") for k in range(8)]
                children = [child for child, _ in found]
                deeper = await asyncio.gather(*(child.run("print(x)") for child in children if child for _ in range(2)))
                assert [r.stdout for _, r in deeper] == [f"{100 + k}\n" for k in range(8) for _ in range(2)]
                for child in children:
                    assert child is not None
                    child.release()

    asyncio.run(run())
