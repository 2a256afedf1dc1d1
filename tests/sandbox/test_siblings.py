"""Many runs from one state at the same time, as an expansion of a search tree makes them."""

import asyncio
import os
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from rstar.sandbox import Limits, LocalSandbox

from .conftest import QUICK, Box


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


WRITES_ELSEWHERE = """
import os
def changes(folder):
    try:
        os.chmod(folder, 0o777)
        names = os.listdir(folder)
    except OSError:
        names = []
    for name in ["helper.py", *names]:
        try:
            open(f"{folder}/{name}", "w").write("x = 'hostile'")
            return True
        except OSError:
            pass
    return False
"""


def test_nobody_changes_the_folder_of_another_state() -> None:
    """Of the state that both come from, whose path is known, and of a sibling that runs, whose path is not."""
    hostile = WRITES_ELSEWHERE + textwrap.dedent("""
        room = os.path.dirname(os.getcwd())
        try:
            others = [f"{room}/{name}" for name in os.listdir(room)]
        except OSError:
            others = []
        numbers = [f"{room}/{number}" for number in range(100)]
        print([place for place in [before, *others, *numbers] if place != os.getcwd() and changes(place)])
    """)

    async def work() -> tuple[str, list[str]]:
        async with LocalSandbox(limits=Limits(seconds=20)) as sandbox:
            write = "import os\nbefore = os.getcwd()\n_ = open('helper.py', 'w').write('x = 1')"
            parent, _ = await sandbox.start().run(write)
            assert parent is not None
            sibling = asyncio.create_task(parent.run("import time\ntime.sleep(1)\nprint(open('helper.py').read())"))
            await asyncio.sleep(0.3)
            _, attack = await parent.run(hostile)
            _, later = await parent.run("import helper\nprint(open('helper.py').read(), helper.x)")
            return attack.stdout, [(await sibling)[1].stdout, later.stdout]

    assert asyncio.run(work()) == ("[]\n", ["x = 1\n", "x = 1 1\n"])


def test_a_folder_that_cannot_be_sealed_is_not_copied_from(box: Box) -> None:
    """A private map keeps its file open for writing, without a descriptor that could be seen."""
    keeps = """
import ctypes, os
handle = os.open("f", os.O_RDWR | os.O_CREAT)
os.write(handle, bytes(4096))
call = ctypes.CDLL(None).mmap
call.restype, call.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
kept = call(None, 4096, 1, 2, handle, 0)
os.close(handle)
"""

    async def work() -> bool:
        state, result = await box.sandbox.start().run(keeps)
        assert state is not None, result
        return state._node.unforkable

    assert box.do(work())


FINDS_FOLDERS = """
import gc, os, re
own = os.getcwd()
names = set()
for found in [*gc.get_objects(), *(inner for each in gc.get_objects() for inner in gc.get_referents(each))]:
    if isinstance(found, (str, bytes)):
        text = found if isinstance(found, str) else found.decode(errors="replace")
        names |= set(re.findall(r"\\d+-[0-9a-f]{16}|marker[ ]of a sibling", text))
print(names - {os.path.basename(own)})
"""

READS_MEMORY = """
import ctypes, os, re
own = os.path.basename(os.getcwd())
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
end, found = libc.sbrk(0), set()
size = 4096
vector = ctypes.create_string_buffer(1)
place = end - size
while libc.mincore(ctypes.c_void_p(place), ctypes.c_size_t(size), vector) == 0:
    found |= set(re.findall(rb"(?<!\\w)\\d{1,4}-[0-9a-f]{16}(?!\\w)", ctypes.string_at(place, size)))
    place -= size
print({name.decode() for name in found} - {own})
"""


@pytest.mark.parametrize("code", [FINDS_FOLDERS, READS_MEMORY], ids=["objects", "heap"])
def test_a_first_step_knows_nothing_of_another(box: Box, code: str) -> None:
    """Neither its folder nor its code, whether the other one still runs or has ended."""

    async def work() -> list[str]:
        start = box.sandbox.start()
        resting, _ = await start.run("x = 1")
        other = asyncio.create_task(start.run("import time\nx = 'marker' + ' of a sibling'\ntime.sleep(1)"))
        await asyncio.sleep(0.3)
        found = [await start.run(code) for _ in range(2)]
        await other
        assert resting is not None
        return [result.stdout + result.stderr for _, result in found]

    assert box.do(work()) == ["set()\n"] * 2


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder, while others write and remove them."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.lstat(f"{place}/{name}").st_size
    return size


WRITES_BEFORE = {
    "new files": "for n in range(40):\n    open(f'{here}/{n}', 'wb').write(bytes(1 << 20))\n    time.sleep(0.05)",
    "a file of its own": "open(f'{here}/helper.py', 'w').write('x = 2')",
    "the folder of a step that has ended": (
        "os.rename(here, here + '-away')\nos.makedirs(here + '/inner')\n"
        "for n in range(40):\n    open(f'{here}/inner/{n}', 'wb').write(bytes(1 << 20))\n    time.sleep(0.05)"
    ),
}


@pytest.mark.parametrize("name", WRITES_BEFORE)
def test_what_a_step_writes_before_it_reaches_no_sibling(name: str, tmp_path: Path) -> None:
    """Without namespaces a step can write to the folder of the step before it, whose name it knows."""
    tmp_path.chmod(0o755)

    async def work() -> None:
        async with LocalSandbox("no-namespaces", limits=QUICK, folder=tmp_path) as sandbox:
            code = "import os, time\nhere = os.getcwd()\nopen('helper.py', 'w').write('x = 1')\nNone"
            state, _ = await sandbox.start().run(code)
            assert state is not None
            most = 0
            hostile = asyncio.create_task(state.run(WRITES_BEFORE[name]))
            while not hostile.done():
                await asyncio.sleep(0.02)
                most = max(most, size_of(tmp_path))
            await hostile
            assert most <= 30 << 20
            for _ in range(2):
                _, result = await state.run("import helper\nprint(sorted(os.listdir()), helper.x)")
                assert result.stdout == "['helper.py'] 1\n", result

    asyncio.run(work())
