"""The whole search on a scripted model: what each method asks for, runs, keeps and chooses."""

import asyncio
import dataclasses
import inspect
import typing
from collections.abc import Callable, Sequence

import pytest

import rstar
from rstar.answers import AnswerKey
from rstar.config import Config, Method, SearchConfig
from rstar.errors import EngineError, SandboxError
from rstar.models.engine import Completion, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.sandbox import LocalSandbox
from rstar.search import methods, reward, solver
from rstar.search.choose import Votes
from rstar.search.solver import Solution, Solver
from rstar.seeds import derive
from rstar.trajectories import Trajectory
from tests.search.plain import PlainSandbox

METHODS: list[Method] = ["greedy", "sample", "best-of-n", "beam", "mcts"]
STEP, CODE, ANSWER = "<end_of_step>", "<end_of_code>", "<end_of_answer>"


def solve(
    script: Callable[[Request, int], str] | str,
    method: Method = "mcts",
    box: PlainSandbox | None = None,
    **search: object,
) -> Solution:
    config = Config(search=SearchConfig(method=method, **{"expansions": 4, "rollouts": 8, **search}))  # type: ignore[arg-type]
    policy = FakeEngine(script) if isinstance(script, str) else FakeEngine("fake:script", script=script)
    (solution,) = Solver(config, policy=policy, sandbox=box or PlainSandbox()).solve([Problem("p", "How much?")])
    return solution


def written(request: Request) -> str:
    """What follows the prompt so far."""
    return request.context.text.partition("<code>\n")[2]


def answering(request: Request) -> str | None:
    """The answer step that copies the output shown, when the context asks for one."""
    text = request.context.text
    if not text.endswith("<answer>"):
        return None
    return f"\\boxed{{{text.rpartition('<output>')[2].partition('<')[0]}}}{ANSWER}"


def sums(request: Request, sample: int) -> str:
    """Two steps: the first sets a (samples differ), the second prints; a = 3 makes the second step fail."""
    if (answer := answering(request)) is not None:
        return answer
    if not written(request):
        return f"a = {[2, 2, 3, 5][sample % 4]}\n{STEP}"
    return f"\nassert a != 3\nprint(a + 10)\n{CODE}"


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


def test_duplicates_are_merged_and_failures_kept_with_their_reason() -> None:
    solution = solve(sums)
    rows = solution.tree
    first = [row for row in rows if row["parent"] == 0]
    fewest, *others = sorted(row["votes"] for row in first)
    assert others == [fewest, 2 * fewest], "two samples of four wrote the same step, whenever the root was sampled"
    assert solution.failures == {"code_error": 1}
    failed = next(row for row in rows if row["finish"] == "code_error")
    assert failed["error"] == "AssertionError:  (line 1)"
    assert (failed["q"], failed["visits"]) == (-1.0, 1)
    assert {t.answer for t in solution.trajectories} == {"12", "15"}


def test_tree_statistics_are_those_of_the_answers() -> None:
    solution = solve(sums)
    rows = solution.tree
    answers = [row for row in rows if row["answer"] is not None]
    for index, row in enumerate(rows):
        if row["answer"] is None and row["finish"] is None:
            below = [child for child in rows if child["parent"] == index and child["finish"] != "code_error"]
            assert row["visits"] == sum(child["visits"] for child in below) or index != 0
            assert row["q"] * row["visits"] == pytest.approx(
                sum(child["q"] * child["visits"] for child in below), abs=1e-4
            )
    assert rows[0]["visits"] == len(answers) + 1 == 3, "two answers, and one descent that met a failure only"
    assert solution.rollouts == 8


def test_values_are_backed_up_as_the_reward_gave_them() -> None:
    class Taste:
        name = "taste"

        async def score(self, problem: Problem, found: Sequence[Trajectory], votes: Votes) -> list[float | None]:
            return [None if t.answer is None else {"12": -0.5, "15": 0.25}[t.answer] for t in found]

    config = Config(search=SearchConfig(expansions=4, rollouts=8))
    policy = FakeEngine("fake:script", script=sums)
    (found,) = Solver(config, policy=policy, sandbox=PlainSandbox(), reward=Taste()).solve([Problem("p", "How much?")])
    root = found.tree[0]
    assert root["visits"] == 3
    assert root["q"] == pytest.approx((-0.5 + 0.25 + 0.0) / 3, abs=1e-5)
    assert (found.answer, found.value) == ("15", 0.25)


def test_a_subtree_in_which_everything_fails_does_not_hold_the_search() -> None:
    """Most first steps lead there, and there is always more of it; the other first step answers at once."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        steps = written(request)
        if not steps:
            return f"a = 1\n{STEP}" if sample < 3 else f"b = 2\n{STEP}"
        if "b = 2" in steps:
            return f"\nprint(7)\n{CODE}"
        depth = steps.count(STEP)
        return f"\nz{depth} = {sample}\n{STEP}" if depth < 3 else f"\n1 / 0  # {sample}\n{CODE}"

    found = solve(script, rollouts=4)
    assert found.answer == "7"
    visits = {row["text"].strip(): row["visits"] for row in found.tree if row["parent"] == 0}
    assert visits[f"b = 2\n{STEP}"] >= 1
    assert visits[f"a = 1\n{STEP}"] >= 1, "a descent that brought nothing is a visit"


def test_the_final_values_are_those_of_the_final_votes() -> None:
    """Widening changes what the answers weigh, also where it brings no answer."""
    asked: set[int] = set()

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        if not written(request):
            return f"a = {sample % 2}\n{STEP}"
        if "a = 0" in written(request):
            asked.add(request.seed)
            fails = sample > 0 or len(asked) > 1
            return f"\n1 / 0  # {request.seed} {sample}\n{CODE}" if fails else f"\nprint(7)\n{CODE}"
        return f"\nprint(8)\n{CODE}"

    found = solve(script, rollouts=24)
    mass = {t.answer: t.mass for t in found.trajectories}
    for trajectory in found.trajectories:
        assert trajectory.value == pytest.approx(mass[trajectory.answer] / sum(mass.values()))
    assert found.answer == max(mass, key=lambda answer: mass[answer])


def test_the_policy_is_asked_as_configured() -> None:
    asked: list[Request] = []

    def script(request: Request, sample: int) -> str:
        if sample == 0:
            asked.append(request)
        return sums(request, sample)

    found = solve(script, root_expansions=3, top_p=0.7, temperature=0.5, max_step_tokens=99, rollouts=2)
    steps = [request for request in asked if not request.context.text.endswith("<answer>")]
    assert [request.n for request in steps[:2]] == [3, 4]
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


def test_a_beam_without_a_reward_s_opinion_keeps_what_is_likely() -> None:
    """The fake model is less sure of longer texts."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        if not written(request):
            return f"a = {sample}{'  # far less likely' if sample < 3 else ''}\n{STEP}"
        return f"\nprint(a)\n{CODE}"

    found = solve(script, "beam", beam_width=1)
    assert {t.answer for t in found.trajectories} == {"3"}


def test_a_settled_answer_stops_a_descent() -> None:
    """Not only between descents: a deep tree has many expansions in one."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        depth = written(request).count(STEP)
        return f"\nprint(7)\n{CODE}" if sample < 3 else f"\na{depth} = 1\n{STEP}"

    found = solve(script, early_stop=True, settled_votes=3, max_depth=16)
    assert found.expansions == 1


@pytest.mark.parametrize("method", ["best-of-n", "beam", "mcts"])
def test_a_budget_of_tokens_is_kept(method: Method) -> None:
    """Every text is another one, so nothing merges; a step or wave under way may go beyond, not more."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        mark = f"{request.seed % 997:03d}{sample:02d}"
        if written(request).count(STEP) < 4:
            return f"\na{mark} = 1\n{STEP}"
        return f"\nprint(7)  # {mark}\n{CODE}"

    budget = 20_000
    found = solve(
        script, method, samples=500, rollouts=500, expansions=8, beam_width=64, max_tokens=budget, max_step_tokens=64
    )
    assert found.answer == "7"
    most_of_a_wave = 8 * 5 * 64
    assert 0.4 * budget < found.tokens_out < budget + most_of_a_wave


def test_an_exhausted_tree_is_sampled_again_from_the_root() -> None:
    """All first samples fail; the rollouts that are left draw others."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        return f"print(7)\n{CODE}" if request.seed % 7 == 0 else f"1 / 0  # {request.seed}\n{CODE}"

    found = solve(script, rollouts=64)
    assert found.answer == "7"
    assert found.failures["code_error"] >= 1


def test_an_exhausted_tree_is_widened_where_samples_differ() -> None:
    """All write the same first step and most fail at the second: more first steps would tell nothing new."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        if not written(request):
            return f"a = 7\n{STEP}"
        return f"print(a)\n{CODE}" if request.seed % 7 == 0 else f"1 / 0  # {request.seed}, {sample}\n{CODE}"

    found = solve(script, rollouts=64)
    assert found.answer == "7"
    (first,) = (row for row in found.tree if row["parent"] == 0)
    assert first["votes"] == 4, "sampled once, four times"


def test_samples_that_come_again_are_votes_again() -> None:
    """Otherwise the same right program would count once, and its varied wrong ones every time."""

    def script(request: Request, sample: int) -> str:
        right = f"print(1)\n{CODE}"
        wrong = f"print(2)  # {request.seed}\n{CODE}"
        return answering(request) or (right if sample % 4 else wrong)

    solution = solve(script, rollouts=8, expansions=4)
    assert solution.answer == "1"
    votes = {t.answer: t.votes for t in solution.trajectories}
    assert votes == {"1": 8 * 3, "2": 8}


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

    engine = Failing("fake:script", script=sums)
    config = Config(search=SearchConfig(method="best-of-n", samples=12))
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
    assert sorted(box.runs) == sorted(["a = 2\n", "a = 3\n", "a = 5\n", *["\nassert a != 3\nprint(a + 10)\n"] * 3]), (
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


def test_beam_keeps_the_best_by_reward() -> None:
    class Last:
        """Likes solutions whose first step sets the highest number."""

        name = "last"

        async def score(self, problem: Problem, trajectories: Sequence[object], votes: object) -> list[float]:
            return [int(t.steps[0].text.split()[2]) / 10 for t in trajectories]  # type: ignore[attr-defined]

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        return f"a = {sample}\n{STEP}" if not written(request) else f"\nprint(a)\n{CODE}"

    config = Config(search=SearchConfig(method="beam", beam_width=2, expansions=8))
    made = Solver(config, policy=FakeEngine("fake:script", script=script), reward=Last(), sandbox=PlainSandbox())
    (solution,) = made.solve([Problem("p", "q")])
    assert {t.answer for t in solution.trajectories} == {"6", "7"}
    assert solution.answer == "7"


def test_ppm_values_start_as_first_visits_and_guide() -> None:
    """A reward with opinions on partial solutions decides where MCTS goes."""

    class Likes5:
        name = "likes 5"

        async def score(self, problem: Problem, trajectories: Sequence[object], votes: object) -> list[float]:
            return [1.0 if "a = 5" in t.steps[0].text else -1.0 for t in trajectories]  # type: ignore[attr-defined]

    config = Config(search=SearchConfig(expansions=4, rollouts=1, c=0.0))
    made = Solver(config, policy=FakeEngine("fake:script", script=sums), reward=Likes5(), sandbox=PlainSandbox())
    (solution,) = made.solve([Problem("p", "q")])
    assert solution.answer == "15"
    assert {row["visits"] for row in solution.tree if row["parent"] == 0} == {1, 2}


def test_budget_of_tokens_stops_new_work() -> None:
    free = solve("fake:steps", rollouts=64, c=2.0)
    held = solve("fake:steps", rollouts=64, c=2.0, max_tokens=300)
    assert held.tokens_out < free.tokens_out
    assert held.expansions >= 1


def test_early_stop_when_settled() -> None:
    def script(request: Request, sample: int) -> str:
        answer = answering(request)
        return answer if answer is not None else f"print(7)  # {sample} {len(written(request))}\n{CODE}"

    assert solve(script, "best-of-n", samples=32).rollouts == 32
    assert solve(script, "best-of-n", samples=32, early_stop=True).rollouts == 4


@pytest.mark.parametrize("method", METHODS)
def test_equal_seeds_give_equal_results(method: Method) -> None:
    def run(seed: int) -> list[object]:
        config = Config(seed=seed, policy="fake:steps", search=SearchConfig(method=method, rollouts=4, samples=4))
        made = Solver(config, policy=FakeEngine("fake:steps"), sandbox=PlainSandbox())
        found = made.solve([Problem(str(i), f"{i}?") for i in range(5)])
        return sorted(
            (s.problem.id, s.answer, s.tokens_out, [t.text for t in s.trajectories], str(s.tree)) for s in found
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

        config = Config(search=SearchConfig(method=method, samples=8, rollouts=6, expansions=4, beam_width=3))
        solver = Solver(config, policy=Slow("fake:steps"), sandbox=PlainSandbox())
        problems = [Problem(str(i), f"Add {i} and 2.") for i in range(6)]
        solutions = sorted(solver.solve(problems), key=lambda solution: solution.problem.id)
        return [(s.answer, s.value, s.tokens_out, s.tree) for s in solutions]

    assert found(1) == found(2)


@pytest.mark.parametrize("method", METHODS)
def test_a_full_context_ends_the_branch_and_nothing_else(method: Method) -> None:
    def script(request: Request, sample: int) -> str:
        loud = "loud" in request.context.text
        return answering(request) or (f"print('7 ' * 3000)\n{CODE}" if loud else f"print(7)\n{CODE}")

    config = Config(search=SearchConfig(method=method, samples=3, rollouts=3, expansions=3))
    policy = FakeEngine("fake:script?max_context=2000", script=script)
    problems = [Problem("a", "How much?"), Problem("b", "How loud?"), Problem("c", "How " + "very " * 1000 + "long?")]
    solver = Solver(config, policy=policy, sandbox=PlainSandbox())
    solutions = {solution.problem.id: solution for solution in solver.solve(problems)}
    assert solutions["a"].answer == "7"
    for name in "bc":
        assert solutions[name].answer is None
        assert set(solutions[name].failures) == {"length"}


def test_sampling_keeps_to_the_budget_of_tokens() -> None:
    def cost(**search: int) -> tuple[int, int]:
        config = Config(search=SearchConfig(method="sample", samples=12, expansions=2, **search))  # type: ignore[arg-type]
        solver = Solver(config, policy=FakeEngine("fake:steps"), sandbox=PlainSandbox())
        (solution,) = solver.solve([Problem("p", "How much?")])
        return solution.rollouts, solution.tokens_out

    rollouts, tokens = cost()
    assert rollouts == 12
    fewer, within = cost(max_tokens=tokens // 2)
    assert fewer % 2 == 0
    assert 0 < fewer < 12
    assert tokens // 2 <= within < tokens


def test_given_parts_are_opened_and_closed() -> None:
    sandbox = LocalSandbox()
    solver = Solver(Config(), policy=FakeEngine("fake:steps"), sandbox=sandbox)
    for _ in range(2):
        assert len(list(solver.solve([Problem("p", "Add 1 and 2.")]))) == 1
    assert not sandbox._open


def test_a_solver_closes_with_its_last_user() -> None:
    async def use() -> list[str | None]:
        solver = Solver(Config(search=SearchConfig(rollouts=2)), policy=FakeEngine("fake:steps"))
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

    solver = Solver(Config(), policy=FakeEngine("fake:steps"), sandbox=PlainSandbox(), search=twice)
    (solution,) = solver.solve([Problem("p", "Add 1 and 2.")])
    assert solution.expansions == 2


def test_a_reward_of_logprobs_needs_them() -> None:
    class Silent(FakeEngine):
        async def complete(self, request: Request) -> Sequence[Completion]:
            return [dataclasses.replace(sample, logprobs=()) for sample in await super().complete(request)]

    solver = Solver(Config(reward="logprob"), policy=Silent("fake:steps"), sandbox=PlainSandbox())
    with pytest.raises(EngineError, match="needs log-probabilities"):
        list(solver.solve([Problem("p", "Add 1 and 2.")]))


def test_a_servers_refusal_names_the_problem() -> None:
    class Refusing(FakeEngine):
        async def complete(self, request: Request) -> Sequence[Completion]:
            raise EngineError("http://here: HTTP 404: no such model")

    solver = Solver(Config(), policy=Refusing("fake:steps"), sandbox=PlainSandbox())
    with pytest.raises(EngineError, match=r"problem 'p'.*HTTP 404"):
        list(solver.solve([Problem("p", "Add 1 and 2.")]))


def test_nobody_waits_for_the_slowest() -> None:
    """With one slow problem, all others finish first."""

    class Slow(PlainSandbox):
        pass

    gate = asyncio.Event

    async def run() -> list[str]:
        opened = gate()
        engine = FakeEngine("fake:script", script=lambda r, i: answering(r) or f"print(1)\n{CODE}")
        complete = engine.complete

        async def waiting(request: Request) -> object:
            if "slow" in request.context.text:
                await opened.wait()
            return await complete(request)

        engine.complete = waiting  # type: ignore[method-assign, assignment]
        config = Config(search=SearchConfig(method="greedy", concurrency=2))
        order = []
        problems = [Problem("slow", "slow?"), *(Problem(str(i), "quick?") for i in range(5))]
        async for solution in Solver(config, policy=engine, sandbox=Slow()).asolve(problems):
            order.append(solution.problem.id)
            if len(order) == 5:
                opened.set()
        return order

    assert asyncio.run(run()) == ["0", "1", "2", "3", "4", "slow"]


def test_engine_failure_is_an_error_and_names_the_problem() -> None:
    config = Config(search=SearchConfig(rollouts=2))
    with pytest.raises(EngineError, match=r"problem 'x7'"):
        list(Solver(config, policy=FakeEngine("fake:fail?rate=1"), sandbox=PlainSandbox()).solve([Problem("x7", "q")]))


def test_sandbox_failure_is_an_error_and_names_the_problem() -> None:
    class Broken(PlainSandbox):
        def start(self) -> object:  # type: ignore[override]
            state = super().start()

            async def run(*_: object) -> object:
                raise SandboxError("zygote lost")

            state.run = run  # type: ignore[method-assign, assignment]
            return state

    with pytest.raises(SandboxError, match=r"problem 'x7': zygote lost"):
        list(Solver(Config(), policy=FakeEngine("fake:steps"), sandbox=Broken()).solve([Problem("x7", "q")]))  # type: ignore[arg-type]


def test_stopping_early_cancels_the_rest() -> None:
    box = PlainSandbox()
    made = Solver(Config(search=SearchConfig(rollouts=2)), policy=FakeEngine("fake:steps"), sandbox=box)
    for _ in made.solve(Problem(str(i), "q") for i in range(10_000)):
        break
    assert box.live == 0


def test_works_inside_a_running_event_loop() -> None:
    async def notebook() -> int:
        made = Solver(
            Config(search=SearchConfig(method="greedy")), policy=FakeEngine("fake:steps"), sandbox=PlainSandbox()
        )
        return len(list(made.solve([Problem("1", "q")])))

    assert asyncio.run(notebook()) == 1


def test_gold_answers_cannot_enter_the_search() -> None:
    """By construction: nothing that a solver, a method or a reward accepts has room for an answer key.

    The import contract holds the same from the other side: no module of the search may import `AnswerKey`.
    """
    accepted: set[object] = set()
    for function in (
        Solver.__init__, Solver.solve, Solver.asolve, Solver.solve_one, reward.Reward.score, *methods.METHODS.values(),
    ):  # fmt: skip
        accepted |= set(typing.get_type_hints(function).values())
    text = " ".join(map(str, accepted))
    assert "AnswerKey" not in text
    assert {f.name for f in dataclasses.fields(Problem)} == {"id", "question", "meta"}
    for name, value in inspect.getmembers(solver):
        assert value is not AnswerKey, name
    with pytest.raises(TypeError):
        Problem("1", "q", answer="2")  # type: ignore[call-arg]
    assert rstar.Problem is Problem


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 16),
        ({"search": {"method": "greedy"}}, 64),
        ({"policy": "openai:http://127.0.0.1:1#m"}, 64),
        ({"search": {"concurrency": 3}}, 3),
    ],
)
def test_problems_side_by_side(settings: dict[str, object], expected: int) -> None:
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
    solver = Counting(Config.model_validate(settings))
    assert len(list(solver.solve(Problem(str(n), "q") for n in range(100)))) == 100
    assert most == expected
