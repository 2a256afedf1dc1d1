"""The whole search on a scripted model: parts, failures, order, company."""

import asyncio
import dataclasses
import inspect
import typing
from collections.abc import Sequence

import pytest

import rstar
from rstar.answers import AnswerKey
from rstar.config import Config, Method
from rstar.errors import EngineError, SandboxError
from rstar.models.engine import Completion, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox import LocalSandbox
from rstar.search import methods, solver
from rstar.search.solver import Solution, Solver
from rstar.search.value import Value
from rstar.seeds import derive
from rstar.specs import Fake
from tests.search.plain import PlainSandbox
from tests.search.scripted import CODE, METHODS, answering, settings, solve, sums, tree_line


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_an_answer_that_was_computed(method: Method) -> None:
    box = PlainSandbox()

    def script(request: Request, sample: int) -> str:
        answer = answering(request)
        return answer if answer is not None else f"print({7 + sample % 2})\n{CODE}"

    solution = solve(script, method, box)
    assert solution.answer in ("7", "8")
    assert solution.method == method
    assert box.runs
    assert box.live == 0, "all interpreter states are released"


@pytest.mark.parametrize("method", METHODS)
def test_equal_seeds_give_equal_results(method: Method) -> None:
    def run(seed: int) -> list[object]:
        config = Config(seed=seed, policy="fake:steps", search=settings(method, rollouts=4, samples=4))
        made = Solver(config, policy=FakeEngine(), sandbox=PlainSandbox())
        found = made.solve([Problem(str(i), f"{i}?") for i in range(5)])
        return sorted(
            (s.problem.id, s.answer, s.tokens_out, [t.text for t in s.trajectories], tree_line(s)) for s in found
        )

    assert run(1) == run(1)
    if method != "greedy":
        assert run(1) != run(2)


@pytest.mark.parametrize("method", METHODS)
def test_when_completions_come_does_not_matter(method: Method) -> None:
    """The same answers, tokens and trees when a slow machine answers in another order."""

    def found(shuffle: int) -> list[tuple[object, ...]]:
        class Slow(FakeEngine):
            async def complete(self, request: Request) -> Sequence[Completion]:
                await asyncio.sleep(derive(shuffle, request.context.text, request.seed) % 7 / 1000)
                return await super().complete(request)

        config = Config(search=settings(method, samples=8, rollouts=6, expansions=4, beam_width=3))
        solver = Solver(config, policy=Slow(), sandbox=PlainSandbox())
        problems = [Problem(str(i), f"Add {i} and 2.") for i in range(6)]
        solutions = sorted(solver.solve(problems), key=lambda solution: solution.problem.id)
        return [(s.answer, s.value, s.tokens_out, tree_line(s)) for s in solutions]

    assert found(1) == found(2)


def test_given_parts_are_opened_and_closed() -> None:
    sandbox = LocalSandbox()
    solver = Solver(Config(), policy=FakeEngine(), sandbox=sandbox)
    for _ in range(2):
        assert len(list(solver.solve([Problem("p", "Add 1 and 2.")]))) == 1
    assert not sandbox._is_open


def test_a_solver_closes_with_its_last_user() -> None:
    async def use() -> list[str | None]:
        solver = Solver(Config(search={"rollouts": 2}), policy=FakeEngine())
        problem = Problem("p", "Add 1 and 2.")

        async def all_of(count: int) -> list[str | None]:
            problems = [Problem(str(i), "Add 1 and 2.") for i in range(count)]
            return [solution.answer async for solution in solver.asolve(problems)]

        async with solver:
            short, long = await asyncio.gather(all_of(1), all_of(12))
            return [*short, *long, (await solver.solve_one(problem)).answer]

    assert len(asyncio.run(use())) == 14


def test_another_search() -> None:
    async def twice(search: methods.Search) -> None:
        for _ in range(2):
            await search.grow([search.expander.root], 3)

    solver = Solver(Config(), policy=FakeEngine(), sandbox=PlainSandbox(), search=twice)
    (solution,) = solver.solve([Problem("p", "Add 1 and 2.")])
    assert solution.expansions == 2


@pytest.mark.parametrize(
    ("setting", "said"), [("value=logprob", "needs log-probabilities"), ("search.record_tokens=true", "record_tokens")]
)
def test_what_needs_logprobs_says_so(setting: str, said: str) -> None:
    class Silent(FakeEngine):
        async def complete(self, request: Request) -> Sequence[Completion]:
            return [dataclasses.replace(sample, logprobs=()) for sample in await super().complete(request)]

    config = rstar.resolve(overrides=["policy=fake:steps", setting])
    solver = Solver(config, policy=Silent(), sandbox=PlainSandbox())
    with pytest.raises(EngineError, match=said):
        list(solver.solve([Problem("p", "Add 1 and 2.")]))


def test_a_servers_refusal_names_the_problem() -> None:
    class Refusing(FakeEngine):
        async def complete(self, request: Request) -> Sequence[Completion]:
            raise EngineError("http://here: HTTP 404: no such model")

    solver = Solver(Config(), policy=Refusing(), sandbox=PlainSandbox())
    with pytest.raises(EngineError, match=r"problem 'p'.*HTTP 404"):
        list(solver.solve([Problem("p", "Add 1 and 2.")]))


def test_nobody_waits_for_the_slowest() -> None:
    """With one slow problem, all others finish first."""

    class Slow(PlainSandbox):
        pass

    gate = asyncio.Event

    async def run() -> list[str]:
        opened = gate()
        engine = FakeEngine(script=lambda r, i: answering(r) or f"print(1)\n{CODE}")
        complete = engine.complete

        async def waiting(request: Request) -> object:
            if "slow" in request.context.text:
                await opened.wait()
            return await complete(request)

        engine.complete = waiting  # type: ignore[method-assign, assignment]
        config = Config(search={"method": "greedy", "concurrency": 2})
        order = []
        problems = [Problem("slow", "slow?"), *(Problem(str(i), "quick?") for i in range(5))]
        async for solution in Solver(config, policy=engine, sandbox=Slow()).asolve(problems):
            order.append(solution.problem.id)
            if len(order) == 5:
                opened.set()
        return order

    assert asyncio.run(run()) == ["0", "1", "2", "3", "4", "slow"]


def test_engine_failure_is_an_error_and_names_the_problem() -> None:
    config = Config(search={"rollouts": 2})
    with pytest.raises(EngineError, match=r"problem 'x7'"):
        list(
            Solver(config, policy=FakeEngine(Fake("fail", rate=1)), sandbox=PlainSandbox()).solve([Problem("x7", "q")])
        )


def test_sandbox_failure_is_an_error_and_names_the_problem() -> None:
    class Broken(PlainSandbox):
        def start(self) -> object:  # type: ignore[override]
            state = super().start()

            async def run(*_: object) -> object:
                raise SandboxError("zygote lost")

            state.run = run  # type: ignore[method-assign, assignment]
            return state

    with pytest.raises(SandboxError, match=r"problem 'x7': zygote lost"):
        list(Solver(Config(), policy=FakeEngine(), sandbox=Broken()).solve([Problem("x7", "q")]))  # type: ignore[arg-type]


def test_stopping_early_cancels_the_rest() -> None:
    box = PlainSandbox()
    made = Solver(Config(search={"rollouts": 2}), policy=FakeEngine(), sandbox=box)
    for _ in made.solve(Problem(str(i), "q") for i in range(10_000)):
        break
    assert box.live == 0


def test_works_inside_a_running_event_loop() -> None:
    async def notebook() -> int:
        made = Solver(Config(search={"method": "greedy"}), policy=FakeEngine(), sandbox=PlainSandbox())
        return len(list(made.solve([Problem("1", "q")])))

    assert asyncio.run(notebook()) == 1


def test_gold_answers_cannot_enter_the_search() -> None:
    """By construction: nothing that a solver, a method or a value accepts has room for an answer key.

    The import contract holds the same from the other side: no module of the search may import `AnswerKey`.
    """
    accepted: set[object] = set()
    for function in (
        Solver.__init__, Solver.solve, Solver.asolve, Solver.solve_one, Value.score, *methods.METHODS.values(),
    ):  # fmt: skip
        accepted |= set(typing.get_type_hints(function).values())
    text = " ".join(map(str, accepted))
    assert "AnswerKey" not in text
    assert {f.name for f in dataclasses.fields(Problem)} == {"id", "question", "meta", "record"}
    for name, value in inspect.getmembers(solver):
        assert value is not AnswerKey, name
    with pytest.raises(TypeError):
        Problem("1", "q", answer="2")  # type: ignore[call-arg]
    assert rstar.Problem is Problem


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, 16),
        ({"search": {"method": "greedy"}}, 64),
        ({"policy": "openai:http://127.0.0.1:1#m"}, 64),
        ({"search": {"concurrency": 3}}, 3),
    ],
)
def test_problems_side_by_side(tree: dict[str, object], expected: int) -> None:
    """Few where a local model samples, so that results come, and are stored, early."""
    most = 0

    class Counting(Solver):
        async def solve_one(self, problem: Problem) -> Solution:
            nonlocal most
            running.add(problem.id)
            most = max(most, len(running))
            await asyncio.sleep(0)
            running.discard(problem.id)
            return dataclasses.replace(example, problem=problem)

        async def __aenter__(self) -> "Counting":
            return self

        async def __aexit__(self, *_: object) -> None:
            return None

    running: set[str] = set()
    example = solve(sums)
    solver = Counting(Config.model_validate(tree))
    assert len(list(solver.solve(Problem(str(n), "q") for n in range(100)))) == 100
    assert most == expected
