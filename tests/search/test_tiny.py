"""The search with the bundled model and the real sandbox, on few problems."""

import asyncio
from collections.abc import Sequence

import pytest

from rstar.config import Config, EngineConfig, Method
from rstar.models.spec import open_engine
from rstar.problems import Problem
from rstar.search.solver import Solution, Solver
from rstar.specs import parse_model
from rstar.tiny.generate import draw, pick
from tests.search.scripted import nodes_of, settings, tree_line

DRAWN = [
    *draw(2, 17, "numbers", [1, 2], pick(["game24", "word", "queens"])),
    *draw(2, 18, "numbers", [5], pick(["search"])),
]
PROBLEMS = [Problem(d.id, d.instance.question) for d in DRAWN]


def solve(method: Method, concurrency: int, seed: int = 5) -> dict[str, Solution]:
    search = settings(
        method, rollouts=3, samples=3, expansions=3, beam_width=2, concurrency=concurrency, record_tokens=True
    )
    found = Solver(Config(seed=seed, search=search)).solve(PROBLEMS)
    return {solution.problem.id: solution for solution in found}


@pytest.mark.parametrize("method", ["greedy", "sample", "mcts"])
def test_equal_seeds_give_equal_results_whatever_the_timing(method: Method) -> None:
    """One problem at a time or all at once: batches differ, results do not."""
    alone, together = solve(method, 1), solve(method, 6)
    for name, solution in alone.items():
        other = together[name]
        assert (solution.answer, solution.tokens_out) == (other.answer, other.tokens_out)
        assert tree_line(solution) == tree_line(other)


def test_ids_are_exactly_what_the_engine_saw_and_produced() -> None:
    """Along every path of the tree, ids and text say the same, and log-probabilities belong to the ids."""
    engine = open_engine(parse_model("tiny"), EngineConfig())
    found = solve("mcts", 6)
    for solution in found.values():
        assert solution.tree is not None
        assert solution.tree.prompt.ids == engine.context(solution.tree.prompt.text).ids
        for node in nodes_of(solution)[1:]:
            assert node.step is not None
            for segment in node.step.segments:
                if segment.author == "policy":
                    assert segment.logprobs is not None
                    assert len(segment.ids) == len(segment.logprobs)
                    assert all(logprob <= 0 for logprob in segment.logprobs)
                written = engine.append(engine.context("x"), segment.text)
                assert written.text == "x" + segment.text
                assert decode(engine, segment.ids) == segment.text


def decode(engine: object, ids: Sequence[int]) -> str:
    tokens = engine.tokens  # type: ignore[attr-defined]
    return b"".join(tokens.piece(i) for i in ids).decode()


def test_seeds_matter() -> None:
    first, second = solve("sample", 6, seed=1), solve("sample", 6, seed=2)
    assert any(tree_line(first[name]) != tree_line(second[name]) for name in first)


def test_async_form() -> None:
    async def run() -> int:
        config = Config(search={"method": "greedy"})
        return len([solution async for solution in Solver(config).asolve(PROBLEMS[:2])])

    assert asyncio.run(run()) == 2
