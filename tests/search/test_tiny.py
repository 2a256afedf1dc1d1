"""The search with the bundled model and the real sandbox, on few problems."""

import asyncio

import pytest

from rstar.config import Config, EngineConfig, Method, SearchConfig
from rstar.models.spec import open_engine
from rstar.problems import Problem
from rstar.search.solver import Solution, Solver
from rstar.tiny.generate import draw, pick

DRAWN = [
    *draw(4, 17, "numbers", [1, 2], pick(["game24", "word", "queens"])),
    *draw(4, 18, "numbers", [5], pick(["search"])),
]
PROBLEMS = [Problem(d.id, d.instance.question) for d in DRAWN]


def solve(method: Method, concurrency: int, seed: int = 5) -> dict[str, Solution]:
    search = SearchConfig(
        method=method, rollouts=3, samples=3, expansions=3, beam_width=2, concurrency=concurrency, record_tokens=True
    )
    found = Solver(Config(seed=seed, search=search)).solve(PROBLEMS)
    return {solution.problem.id: solution for solution in found}


@pytest.mark.parametrize("method", ["greedy", "sample", "mcts"])
def test_equal_seeds_give_equal_results_whatever_the_timing(method: Method) -> None:
    """One problem at a time or all at once: batches differ, results do not."""
    alone, together = solve(method, 1), solve(method, 6)
    for name, solution in alone.items():
        other = together[name]
        assert (solution.answer, solution.tokens_out, solution.tree) == (other.answer, other.tokens_out, other.tree)


def test_ids_are_exactly_what_the_engine_saw_and_produced() -> None:
    """Along every path of the tree, ids and text say the same, and log-probabilities belong to the ids."""
    engine = open_engine("tiny", EngineConfig())
    found = solve("mcts", 6)
    for solution in found.values():
        nodes = solution.tree
        for node in nodes[1:]:
            assert len(node["ids"]) == len(node["logprobs"])
            assert all(logprob <= 0 for logprob in node["logprobs"])
            written = engine.append(engine.context("x"), node["text"])
            assert written.text == "x" + node["text"]
            assert decode(engine, node["ids"]) == node["text"]


def decode(engine: object, ids: list[int]) -> str:
    tokens = engine.tokens  # type: ignore[attr-defined]
    return b"".join(tokens.piece(i) for i in ids).decode()


def test_seeds_matter() -> None:
    first, second = solve("sample", 6, seed=1), solve("sample", 6, seed=2)
    assert any(first[name].tree != second[name].tree for name in first)


def test_async_form() -> None:
    async def run() -> int:
        config = Config(search=SearchConfig(method="greedy"))
        return len([solution async for solution in Solver(config).asolve(PROBLEMS[:2])])

    assert asyncio.run(run()) == 2
