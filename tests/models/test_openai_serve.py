"""The client against a real server: ``transformers serve`` on loopback with a tiny random model.

Needs the packages of ``transformers[serving]`` (fastapi, uvicorn, openai); skipped without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from rstar.models.engine import Completion, Request
from rstar.models.local.engine import LocalEngine
from rstar.models.openai import OpenAIEngine
from tests.models.real_servers import transformers_serve
from tests.models.tiny_models import SPECIALS, write_model

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("fastapi", "uvicorn", "openai")), reason="needs transformers[serving]"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A model folder, and the base URL under which it is served."""
    folder = tmp_path_factory.mktemp("served")
    write_model(folder, seed=4)
    with transformers_serve(folder) as url:
        yield folder, url


def requests(engine: LocalEngine | OpenAIEngine) -> list[Request]:
    """Greedy requests that end by a stop string within, at the edge of, and across tokens, or by length."""
    first = engine.context("Add 12 and 30.")
    texts = [("x = ", ()), ("abc", ("1", "2")), ("Add", tuple("abcdefghijklmnopqrstuvwxyz")), ("éa", ("never",))]
    return [Request(first, 12, temperature=0)] + [
        Request(engine.context(text), 24, temperature=0, stop=stop, n=2) for text, stop in texts
    ]


async def _complete(engine: LocalEngine | OpenAIEngine) -> list[list[Completion]]:
    async with engine:
        return [list(await engine.complete(request)) for request in requests(engine)]


def test_greedy_text_equals_the_local_engine(served: tuple[Path, str]) -> None:
    folder, url = served
    local = asyncio.run(_complete(LocalEngine(folder, threads=1)))
    remote = asyncio.run(_complete(OpenAIEngine(url, str(folder), retries=0)))

    def seen(samples: list[list[Completion]]) -> list[list[tuple[str, str, str | None]]]:
        # transformers serve leaves special tokens out of the text
        return [[(_plain(sample.text), sample.stop_reason, sample.stop) for sample in group] for group in samples]

    assert seen(remote) == seen(local)
    assert {sample.stop_reason for group in local for sample in group} >= {"stop", "length"}


def _plain(text: str) -> str:
    for marker in SPECIALS:
        text = text.replace(marker, "")
    return text


def test_many_requests_at_once(served: tuple[Path, str]) -> None:
    folder, url = served

    async def many() -> list[str]:
        async with OpenAIEngine(url, str(folder), retries=0, concurrency=4) as engine:
            wanted = [Request(engine.context("abc"), 5, temperature=0) for _ in range(12)]
            return [(await task)[0].text for task in [asyncio.create_task(engine.complete(r)) for r in wanted]]

    assert len(set(asyncio.run(many()))) == 1
