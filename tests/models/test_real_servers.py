"""Whole searches on real servers, with a copy of the bundled model made by ``rstar models export``."""

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
from rstar.models.export import export
from rstar.models.spec import local_folder, server_client
from rstar.problems import Problem
from rstar.search.solver import Solution
from rstar.specs import Bundled, Server
from tests.models.real_servers import transformers_serve
from tests.search.scripted import METHODS, settings

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("fastapi", "uvicorn", "openai")), reason="needs transformers[serving]"
)
QUESTION, ANSWER = "Find the value of k when 167 = 9k + 14.", "17"
ENGINE = EngineConfig(retries=1, timeout=60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served") / "model"
    export(local_folder(Bundled()), folder)
    with transformers_serve(folder) as url:
        yield Server(url, str(folder))


def solve(server: Server, search: Any) -> Solution:
    config = Config(policy=server, search=search, engine=ENGINE)
    (solution,) = open_solver(config).solve([Problem("p", QUESTION)])
    return solution


@pytest.mark.parametrize("method", METHODS)
def test_every_method_by_completions(served: Server, method: Method) -> None:
    wanted = {"expansions": 2, "rollouts": 3, "samples": 2, "beam_width": 2, "max_tokens": 200}
    assert solve(served, settings(method, **wanted)).answer == ANSWER


def test_mutual_reasoning_by_completions(served: Server) -> None:
    config = MutualConfig(domain="programs", shots=0, rollouts=2, votes=2, cuts=2, actions=("step", "finish"))
    solution = solve(served, config)
    assert solution.answer == ANSWER
    assert solution.peer_tokens


def test_greedy_decoding_equals_the_local_engine(served: Server) -> None:
    local = Config(search={"method": "greedy"}, engine=EngineConfig(processes=0))
    (here,) = open_solver(local).solve([Problem("p", QUESTION)])
    there = solve(served, {"method": "greedy"})
    assert [t.text for t in there.trajectories] == [t.text for t in here.trajectories]


@pytest.mark.parametrize("method", ["greedy", "mcts", "mutual"])
def test_chat_requests_are_answered(served: Server, method: Method) -> None:
    """The bundled model knows no fenced blocks and no turns, so it finds nothing; but every request is served."""
    chat = Server(served.url, served.model, api="chat")
    search = {"method": method, "max_tokens": 200} | ({} if method == "greedy" else {"rollouts": 2})
    if method == "mutual":
        search |= {"votes": 2, "shots": 1, "max_step_tokens": 32, "actions": ["step", "finish"]}
    solution = solve(chat, search)
    assert solution.tokens_out > 0
    assert solution.answer is None or solution.trajectories


def test_an_agent_is_refused_with_the_reason(served: Server) -> None:
    with pytest.raises(ConfigError, match=r"needs the model's chat template; append \?tokenizer=FOLDER"):
        solve(served, {"method": "agent"})


def test_what_transformers_serve_can_do(served: Server) -> None:
    report = asyncio.run(check(served, server_client(served, ENGINE)))
    facts = {fact.name: fact.works for fact in report.facts}
    assert facts == {
        "context length": False,
        "completions": True,
        "chat": True,
        "stop strings": True,
        "special tokens": False,
        "log-probabilities": False,
        "token ids": False,
        "several samples": False,
        "seed": False,
    }
    chat = Server(served.url, served.model, api="chat")
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
