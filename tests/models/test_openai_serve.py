"""The client and whole searches against a real server: ``transformers serve`` on loopback.

Needs the packages of ``transformers[serving]`` (fastapi, uvicorn, openai); skipped without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rstar.agent.solver import open_solver
from rstar.config import Config, EngineConfig, Method, MutualConfig
from rstar.errors import ConfigError
from rstar.models.check import check
from rstar.models.engine import Completion, Request
from rstar.models.export import export
from rstar.models.local.engine import LocalEngine
from rstar.models.openai import OpenAIEngine
from rstar.models.spec import local_folder, server_client
from rstar.problems import Problem
from rstar.search.solver import Solution
from rstar.specs import Bundled, Server
from tests.models.real_servers import transformers_serve
from tests.models.tiny_models import SPECIALS, write_model
from tests.search.scripted import METHODS, settings

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("fastapi", "uvicorn", "openai")), reason="needs transformers[serving]"
)


QUESTION, ANSWER = "Find the value of k when 167 = 9k + 14.", "17"
ENGINE = EngineConfig(retries=1, timeout=60)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of the server."""
    with transformers_serve(tmp_path_factory.mktemp("served")) as url:
        yield url


@pytest.fixture(scope="module")
def served(url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a random model, and the base URL under which it is served."""
    folder = tmp_path_factory.mktemp("random")
    write_model(folder, seed=4)
    return folder, url


@pytest.fixture(scope="module")
def bundled(url: str, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A copy of the bundled model, made by ``rstar models export``."""
    folder = tmp_path_factory.mktemp("bundled") / "model"
    export(local_folder(Bundled()), folder)
    return Server(url, str(folder))


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


def solve(server: Server, search: Any) -> Solution:
    config = Config(policy=server, search=search, engine=ENGINE)
    (solution,) = open_solver(config).solve([Problem("p", QUESTION)])
    return solution


@pytest.mark.parametrize("method", METHODS)
def test_every_method_by_completions(bundled: Server, method: Method) -> None:
    wanted = {"expansions": 2, "rollouts": 3, "samples": 2, "beam_width": 2, "max_tokens": 120}
    assert solve(bundled, settings(method, **wanted)).answer == ANSWER


def test_mutual_reasoning_by_completions(bundled: Server) -> None:
    config = MutualConfig(domain="programs", shots=0, rollouts=2, votes=2, cuts=2, actions=("step", "finish"))
    solution = solve(bundled, config)
    assert solution.answer == ANSWER
    assert solution.peer_tokens


def test_greedy_decoding_equals_the_local_engine(bundled: Server) -> None:
    local = Config(search={"method": "greedy"}, engine=EngineConfig(processes=0))
    (here,) = open_solver(local).solve([Problem("p", QUESTION)])
    there = solve(bundled, {"method": "greedy"})
    assert [t.text for t in there.trajectories] == [t.text for t in here.trajectories]


@pytest.mark.parametrize("method", ["greedy", "mcts", "mutual"])
def test_chat_requests_are_answered(bundled: Server, method: Method) -> None:
    """The bundled model knows no fenced blocks and no turns, so it finds nothing; but every request is served."""
    chat = Server(bundled.url, bundled.model, api="chat")
    search = {"method": method, "max_tokens": 40} | ({} if method == "greedy" else {"rollouts": 1})
    if method == "mutual":
        search |= {"votes": 2, "shots": 1, "max_step_tokens": 12, "actions": ["step", "finish"]}
    solution = solve(chat, search)
    assert solution.tokens_out > 0
    assert solution.answer is None or solution.trajectories


def test_an_agent_is_refused_with_the_reason(bundled: Server) -> None:
    with pytest.raises(ConfigError, match=r"needs the model's chat template; append \?tokenizer=FOLDER"):
        solve(bundled, {"method": "agent"})


def test_what_transformers_serve_can_do(bundled: Server) -> None:
    report = asyncio.run(check(bundled, server_client(bundled, ENGINE)))
    facts = {fact.name: fact.works for fact in report.facts}
    assert facts == {
        "context length": False,
        "completions": True,
        "chat": True,
        "temperature": True,
        "stop strings": True,
        "streams": True,
        "special tokens": False,
        "log-probabilities": False,
        "token ids": False,
        "several samples": False,
        "seed": False,
    }
    chat = Server(bundled.url, bundled.model, api="chat")
    by_chat = {fact.name: fact.works for fact in asyncio.run(check(chat, server_client(chat, ENGINE))).facts}
    assert by_chat["chat"]
    assert not by_chat["continuation"]


def test_export(tmp_path: Path) -> None:
    export(local_folder(Bundled()), tmp_path / "copy")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "copy")
    ids = tokenizer.encode("<code>\nx = 1\n<end_of_step>")
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<code>\nx = 1\n<end_of_step>"
    turns = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "A"},
    ]
    asked = tokenizer.apply_chat_template(turns[:2], tokenize=False, add_generation_prompt=True)
    assert asked == "S\n\n<|user|>:\nU\n<|assistant|>:\n"
    begun = tokenizer.apply_chat_template(turns, tokenize=False, continue_final_message=True)
    assert begun == asked + "A"
    with pytest.raises(ConfigError, match="already exists"):
        export(local_folder(Bundled()), tmp_path / "copy")
    with pytest.raises(ConfigError, match="not a model folder"):
        export(tmp_path, tmp_path / "other")
