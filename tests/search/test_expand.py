"""The expansion of nodes: what is asked for, run, kept, and why a branch ends."""

import asyncio
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.config import Config, Method
from rstar.errors import EngineError
from rstar.models.engine import Completion, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.solver import Solver
from rstar.specs import Fake
from tests.search.plain import PlainSandbox
from tests.search.scripted import ANSWER, CODE, METHODS, STEP, answering, nodes_of, settings, solve, sums, written


def test_duplicates_are_merged_and_failures_kept_with_their_reason() -> None:
    solution = solve(sums)
    root, *nodes = nodes_of(solution)
    fewest, *others = sorted(node.votes for node in root.children)
    assert others == [fewest, 2 * fewest], "two samples of four wrote the same step, whenever the root was sampled"
    assert solution.failures == {"code_error": 1}
    failed = next(node for node in nodes if node.finish_reason == "code_error")
    assert failed.step is not None
    assert failed.step.error == "AssertionError (line 1)"
    assert (failed.q, failed.visits) == (-1.0, 1)
    assert {t.answer for t in solution.trajectories} == {"12", "15"}


def test_the_policy_is_asked_as_configured() -> None:
    asked: list[Request] = []

    def script(request: Request, sample: int) -> str:
        if sample == request.first:
            asked.append(request)
        return sums(request, sample)

    found = solve(script, root_expansions=3, top_p=0.7, temperature=0.5, max_step_tokens=99, rollouts=2)
    steps = [request for request in asked if not request.context.text.endswith("<answer>")]
    assert [(request.first, request.n) for request in steps[:4]] == [(0, 1), (1, 2), (0, 1), (1, 3)]
    assert {(r.top_p, r.temperature, r.max_tokens) for r in steps} == {(0.7, 0.5, 99)}
    assert found.tokens_in == sum(len(request.context.ids) for request in asked)


def test_failed_steps_in_a_row_are_counted_and_forgiven() -> None:
    """Two failures in a row end a branch that survives one; a good step in between makes up for it."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        depth = written(request).count(STEP)
        if depth == 0:
            return f"1 / 0  # {sample}\n{STEP}"
        pattern = ["bad", "good", "bad", "good"] if "# 0" in written(request) else ["bad", "bad"]
        if depth == len(pattern):
            return f"\nprint(7)\n{CODE}"
        return f"\n{'1 / 0' if pattern[depth] == 'bad' else 'a = 1'}\n{STEP}"

    found = solve(script, expansions=2, errors_threshold=1, rollouts=12)
    assert found.answer == "7"
    assert found.failures["code_error"] == 1


def test_where_one_expansion_fails_none_goes_on() -> None:
    class Failing(FakeEngine):
        going = 0

        async def complete(self, request: Request) -> Sequence[Completion]:
            if not written(request):
                return await super().complete(request)
            if request.seed % 2:
                raise EngineError("lost")
            self.going += 1
            try:
                await asyncio.sleep(0.2)
            finally:
                self.going -= 1
            return await super().complete(request)

    engine = Failing(script=sums)
    config = Config(search={"method": "best-of-n", "samples": 12})
    solver = Solver(config, policy=engine, sandbox=PlainSandbox())

    async def run() -> int:
        with pytest.raises(EngineError):
            async for _ in solver.asolve([Problem("p", "How much?")]):
                pass
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1
    assert engine.going == 0


def test_a_step_runs_from_its_parents_state_once() -> None:
    box = PlainSandbox()
    solve(sums, box=box)
    assert sorted(box.runs) == sorted(["a = 2\n", "a = 3\n", "a = 5\n", *["assert a != 3\nprint(a + 10)\n"] * 3]), (
        "no prefix is replayed"
    )


def test_errors_threshold_lets_a_branch_survive() -> None:
    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        return f"1 / 0\n{STEP}" if not written(request) else f"\nprint(4)\n{CODE}"

    assert solve(script).answer is None
    assert solve(script, errors_threshold=1).answer == "4"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no marker at all", "no_step"),
        (f"\n{STEP}", "no_step"),
        ("x = 1\n" * 200 + STEP, "length"),
        (f"x = 1\n{STEP}", "too_deep"),
    ],
)
def test_reasons(text: str, reason: str) -> None:
    solution = solve(lambda request, sample: text, max_depth=3, max_step_tokens=200)
    assert solution.answer is None
    assert set(solution.failures) == {reason}


def test_an_answer_step_without_a_box_is_no_answer() -> None:
    def script(request: Request, sample: int) -> str:
        return f"seven{ANSWER}" if answering(request) is not None else f"print(7)\n{CODE}"

    assert solve(script).failures == {"no_answer": 1}


def test_output_of_all_steps_is_shown() -> None:
    seen: list[str] = []

    def script(request: Request, sample: int) -> str:
        if answering(request) is not None:
            seen.append(request.context.text)
            return f"\\boxed{{1}}{ANSWER}"
        return f"print('one')\n{STEP}" if not written(request) else f"\nprint('two')\n{CODE}"

    solve(script, "greedy")
    solve(script, "best-of-n", samples=1)
    assert seen[-1].endswith("<output>one\ntwo<end_of_output>\n<answer>")


@pytest.mark.parametrize("method", METHODS)
def test_a_full_context_ends_the_branch_and_nothing_else(method: Method) -> None:
    def script(request: Request, sample: int) -> str:
        loud = "loud" in request.context.text
        return answering(request) or (f"print('7 ' * 3000)\n{CODE}" if loud else f"print(7)\n{CODE}")

    config = Config(search=settings(method, samples=3, rollouts=3, expansions=3))
    policy = FakeEngine(Fake(max_context=2000), script=script)
    problems = [Problem("a", "How much?"), Problem("b", "How loud?"), Problem("c", "How " + "very " * 1000 + "long?")]
    solver = Solver(config, policy=policy, sandbox=PlainSandbox())
    solutions = {solution.problem.id: solution for solution in solver.solve(problems)}
    assert solutions["a"].answer == "7"
    for name in "bc":
        assert solutions[name].answer is None
        assert set(solutions[name].failures) == {"length"}


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6))
def test_samples_stop_when_the_next_ones_would_be_copies(weights: list[float]) -> None:
    """The first steps have known probabilities; as many samples are drawn as can be expected to differ."""
    chances = [weight / sum(weights) for weight in weights]
    drawn: list[int] = []

    def script(request: Request, sample: int) -> str | tuple[str, float]:
        if (answer := answering(request)) is not None:
            return answer
        if written(request):
            return f"\nprint({sample})\n{CODE}"
        drawn.append(sample)
        which = min(sample, len(chances) - 1)
        return f"a = {which}\n{STEP}", math.log(chances[which])

    found = solve(script, rollouts=1, expansions=8)
    assert drawn == list(range(len(drawn))), "each sample once, in order"
    assert len(drawn) <= 8
    covered = sum(chances[: len(drawn)])
    assert len(drawn) == 8 or round((8 - len(drawn)) * (1 - covered)) == 0
    assert len(nodes_of(found)[0].children) == min(len(drawn), len(chances))


def test_solutions_with_one_answer_share_their_probability() -> None:
    """Merged samples keep what the policy gives each of them."""

    def script(request: Request, sample: int) -> str | tuple[str, float]:
        texts = [("print(1)", 0.4), ("print(2)", 0.35), ("print(1 + 1)", 0.2), ("print(3)", 0.05)]
        code, chance = texts[sample % 4]
        return answering(request) or (f"{code}\n{CODE}", math.log(chance))

    found = solve(script, rollouts=1, expansions=8)
    assert {t.answer: t.mass for t in found.trajectories} == pytest.approx({"1": 0.4, "2": 0.55})
    assert found.answer == "2"
