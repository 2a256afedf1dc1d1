"""Every method on the servers of llama.cpp and vLLM, which `make servers` installs.

Both serve a copy of the bundled model, made by ``rstar models export``. What is asserted here is what the table of
servers in docs/models.md says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rstar.agent.solver import open_solver
from rstar.config import Config, EngineConfig, Method, MutualConfig
from rstar.errors import EngineError
from rstar.models.check import Report, check
from rstar.models.export import export
from rstar.models.kv_capacity import ask_kv_tokens
from rstar.models.spec import local_folder, server_client
from rstar.problems import Problem
from rstar.search.solver import Solution
from rstar.specs import Bundled, Server
from tests.models.real_servers import llama_cpp, vllm
from tests.search.scripted import METHODS, settings

pytestmark = pytest.mark.servers

SERVERS = {"llama.cpp": llama_cpp, "vLLM": vllm}
QUESTION, ANSWER = "Find the value of k when 167 = 9k + 14.", "17"
ENGINE = EngineConfig(retries=1, timeout=120)
WANTED = {"expansions": 2, "rollouts": 3, "samples": 2, "beam_width": 2, "max_tokens": 120}
COMPLETIONS = {
    "llama.cpp": {
        "context length": False,
        "completions": True,
        "chat": True,
        "temperature": True,
        "stop strings": False,
        "streams": True,
        "special tokens": True,
        "log-probabilities": True,
        "token ids": False,
        "several samples": False,
        "seed": True,
    },
    "vLLM": {
        "context length": True,
        "completions": True,
        "chat": True,
        "temperature": True,
        "stop strings": True,
        "streams": True,
        "special tokens": True,
        "log-probabilities": True,
        "token ids": True,
        "several samples": True,
        "seed": True,
    },
}
"""What the report says of the completions API."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the copy of the bundled model."""
    folder = tmp_path_factory.mktemp("bundled") / "model"
    export(local_folder(Bundled()), folder)
    return folder


@pytest.fixture(scope="module", params=SERVERS)
def served(request: pytest.FixtureRequest, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server, in turn of each kind."""
    with SERVERS[request.param](model, tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of the server."""
    return str(request.node.callspec.params["served"])


def solve(server: Server, search: Any) -> Solution:
    (solution,) = open_solver(Config(policy=server, search=search, engine=ENGINE)).solve([Problem("p", QUESTION)])
    return solution


@pytest.mark.parametrize("method", METHODS)
def test_every_method_by_completions(served: Server, kind: str, method: Method) -> None:
    solution = solve(served, settings(method, **WANTED))
    assert solution.tokens_out > 0
    if (
        kind == "vLLM" and method == "greedy"
    ):  # llama.cpp splits numbers otherwise than the model's tokenizer, so the model errs more
        assert solution.answer == ANSWER


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_mutual_reasoning(served: Server, api: Any) -> None:
    search = MutualConfig(domain="programs", shots=1, rollouts=2, votes=2, cuts=2, actions=("step", "finish"))
    solution = solve(replace(served, api=api), search)
    assert solution.tokens_out > 0
    assert solution.answer is None or solution.trajectories


@pytest.mark.parametrize("method", METHODS)
def test_every_method_by_chat(served: Server, method: Method) -> None:
    """The bundled model knows no fenced blocks and no turns, so it finds nothing; but every request is served."""
    solution = solve(replace(served, api="chat"), settings(method, **WANTED))
    assert solution.tokens_out > 0


def test_an_agent_needs_token_ids(served: Server, kind: str, model: Path) -> None:
    with_tokenizer = replace(served, tokenizer=str(model))
    if kind == "vLLM":
        assert solve(with_tokenizer, {"method": "agent", "max_turns": 2}).tokens_out > 0
    else:
        with pytest.raises(EngineError, match=r"token ids.*this server may not accept"):
            solve(with_tokenizer, {"method": "agent"})


def test_the_size_of_the_cache(served: Server, kind: str) -> None:
    tokens = asyncio.run(ask_kv_tokens(served.url))
    assert (tokens or 0) >= 1024 if kind == "vLLM" else tokens is None


def checked(server: Server) -> Report:
    return asyncio.run(check(server, server_client(server, ENGINE)))


def test_what_the_server_can_do(served: Server, kind: str) -> None:
    assert {fact.name: fact.works for fact in checked(served).facts} == COMPLETIONS[kind]
    by_chat = {fact.name: fact.works for fact in checked(replace(served, api="chat")).facts}
    assert by_chat["chat"]
    assert by_chat["continuation"] == (kind == "vLLM")
