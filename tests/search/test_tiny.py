"""The search with the bundled model and the real sandbox, on few problems."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from rstar.config import Config, EngineConfig, Method, MutualConfig
from rstar.models.engine import Engine
from rstar.models.spec import local_folder, open_engine
from rstar.problems import Problem
from rstar.sandbox import LocalSandbox, Sandbox
from rstar.search.mutual import MutualSolver
from rstar.search.solver import Solution, Solver
from rstar.specs import Bundled, parse_model
from rstar.tiny.generate import draw, pick
from tests.search.scripted import nodes_of, settings, tree_line

DRAWN = [
    *draw(2, 17, "numbers", [1, 2], pick(["game24", "word", "queens"])),
    *draw(2, 18, "numbers", [2], pick(["search"])),
]
PROBLEMS = [Problem(d.id, d.instance.question) for d in DRAWN]
Parts = tuple[Engine, Sandbox]


async def solve(method: Method, concurrency: int, parts: Parts, seed: int = 5) -> dict[str, Solution]:
    search = settings(
        method, rollouts=2, samples=3, expansions=3, beam_width=2, concurrency=concurrency, record_tokens=True
    )
    config = Config(seed=seed, value="agreement", search=search)
    solver = Solver(config, policy=parts[0], sandbox=parts[1])
    return {solution.problem.id: solution async for solution in solver.asolve(PROBLEMS)}


def using(use: Callable[[Parts], Awaitable[None]]) -> None:
    """Run `use` with the bundled policy and a sandbox, both open."""

    async def opened() -> None:
        async with open_engine(parse_model("tiny"), EngineConfig()) as engine, LocalSandbox() as sandbox:
            await use((engine, sandbox))

    asyncio.run(opened())


def test_bundled_models_reason_together() -> None:
    """The policy takes every action, and the peer keeps some of its solutions."""
    search = MutualConfig(peer=parse_model("tiny:peer"), rollouts=5, votes=3, cuts=2)
    solver = MutualSolver(Config(policy=parse_model("tiny:actions"), search=search, engine=EngineConfig(processes=0)))
    taken: set[str | None] = set()
    kept = peer_tokens = 0
    for solution in solver.solve(PROBLEMS[::2]):
        peer_tokens += solution.peer_tokens
        taken |= {node.step.action for node in nodes_of(solution) if node.step is not None and node.children}
        kept += sum((trajectory.value or 0.0) > 0 for trajectory in solution.trajectories)
    assert taken == {"step", "question", "reanswer", "rephrase"}
    assert kept > 1
    assert peer_tokens


def test_bundled_models_are_small() -> None:
    """In the package, policy, peer and PPM take at most 16 MB; mutual reasoning's and agents' models 12 MB."""

    def megabytes(folder: Path) -> float:
        return sum(len(zlib.compress(file.read_bytes(), 1)) for file in folder.iterdir()) / 1e6

    policy, peer, actions = (megabytes(local_folder(Bundled(part))) for part in ("policy", "peer", "actions"))
    assert policy + peer + megabytes(local_folder(Bundled(), "ppm")) <= 16
    assert actions + peer <= 12
    assert sum(megabytes(local_folder(Bundled(part))) for part in ("agent", "agent-start")) <= 12


def test_equal_seeds_give_equal_results_whatever_the_timing() -> None:
    """One problem at a time or all at once: batches differ, results do not. Other seeds give other results."""

    async def use(parts: Parts) -> None:
        methods: tuple[Method, ...] = ("greedy", "sample", "mcts")
        for method in methods:
            alone, together = await solve(method, 1, parts), await solve(method, 6, parts)
            assert alone.keys() == together.keys() == {problem.id for problem in PROBLEMS}
            for name, solution in alone.items():
                other = together[name]
                assert (solution.answer, solution.tokens_out) == (other.answer, other.tokens_out)
                assert tree_line(solution) == tree_line(other)
        first, second = await solve("sample", 6, parts, seed=1), await solve("sample", 6, parts, seed=2)
        assert any(tree_line(first[name]) != tree_line(second[name]) for name in first)

    using(use)


def test_ids_are_exactly_what_the_engine_saw_and_produced() -> None:
    """Along every path of the tree, ids and text say the same, and log-probabilities belong to the ids."""

    async def use(parts: Parts) -> None:
        engine = parts[0]
        for solution in (await solve("mcts", 6, parts)).values():
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

    using(use)


def decode(engine: object, ids: Sequence[int]) -> str:
    tokens = engine.tokens  # type: ignore[attr-defined]
    return b"".join(tokens.piece(i) for i in ids).decode()


def test_async_form() -> None:
    async def run() -> int:
        config = Config(search={"method": "greedy"})
        return len([solution async for solution in Solver(config).asolve(PROBLEMS[:2])])

    assert asyncio.run(run()) == 2
