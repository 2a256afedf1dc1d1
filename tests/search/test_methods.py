"""What each method asks for, keeps and chooses, on a scripted model."""

import math
from collections.abc import Sequence

import pytest

from rstar.config import Config, Method
from rstar.errors import ContextFullError
from rstar.models.engine import Completion, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.solver import Solver
from rstar.trajectories import Trajectory
from tests.search.plain import PlainSandbox
from tests.search.scripted import CODE, STEP, answering, nodes_of, settings, solve, sums, written


def test_tree_statistics_are_those_of_the_answers() -> None:
    solution = solve(sums)
    nodes = nodes_of(solution)
    answers = [node for node in nodes if node.answer is not None]
    for node in nodes:
        if node.answer is None and node.finish_reason is None:
            below = [child for child in node.children if child.finish_reason != "code_error"]
            assert node.visits == sum(child.visits for child in below) or node.parent is not None
            assert node.q * node.visits == pytest.approx(sum(child.q * child.visits for child in below), abs=1e-4)
    assert nodes[0].visits == len(answers) + 1 == 3, "two answers, and one descent that met a failure only"
    assert solution.rollouts == 8


def test_values_are_backed_up_as_the_value_gave_them() -> None:
    class Taste:
        name = "taste"

        async def score(self, problem: Problem, found: Sequence[Trajectory], votes: Votes) -> list[float | None]:
            return [None if t.answer is None else {"12": -0.5, "15": 0.25}[t.answer] for t in found]

    config = Config(search={"expansions": 4, "rollouts": 8})
    policy = FakeEngine(script=sums)
    (found,) = Solver(config, policy=policy, sandbox=PlainSandbox(), value=Taste()).solve([Problem("p", "How much?")])
    root = nodes_of(found)[0]
    assert root.visits == 3
    assert root.q == pytest.approx((-0.5 + 0.25 + 0.0) / 3, abs=1e-5)
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
    visits = {node.step.written.text.strip(): node.visits for node in nodes_of(found)[0].children if node.step}
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


def test_a_beam_without_a_value_s_opinion_keeps_what_is_likely() -> None:
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

    def script(request: Request, sample: int) -> str | tuple[str, float]:
        if (answer := answering(request)) is not None:
            return answer
        if not written(request):
            return f"a = 7\n{STEP}", math.log(0.97)
        return f"print(a)\n{CODE}" if request.seed % 7 == 0 else f"1 / 0  # {request.seed}, {sample}\n{CODE}"

    found = solve(script, rollouts=64)
    assert found.answer == "7"
    (first,) = nodes_of(found)[0].children
    assert first.votes == 1, "the policy is sure of it, so it is sampled once"


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


def test_beam_keeps_the_best_by_value() -> None:
    class Last:
        """Likes solutions whose first step sets the highest number."""

        name = "last"

        async def score(self, problem: Problem, trajectories: Sequence[object], votes: object) -> list[float]:
            return [int(t.steps[0].text.split()[2]) / 10 for t in trajectories]  # type: ignore[attr-defined]

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        return f"a = {sample}\n{STEP}" if not written(request) else f"\nprint(a)\n{CODE}"

    config = Config(search={"method": "beam", "beam_width": 2, "expansions": 8})
    made = Solver(config, policy=FakeEngine(script=script), value=Last(), sandbox=PlainSandbox())
    (solution,) = made.solve([Problem("p", "q")])
    assert {t.answer for t in solution.trajectories} == {"6", "7"}
    assert solution.answer == "7"


def test_ppm_values_start_as_first_visits_and_guide() -> None:
    """A value with opinions on partial solutions decides where MCTS goes."""

    class Likes5:
        name = "likes 5"

        async def score(self, problem: Problem, trajectories: Sequence[object], votes: object) -> list[float]:
            return [1.0 if "a = 5" in t.steps[0].text else -1.0 for t in trajectories]  # type: ignore[attr-defined]

    config = Config(search={"expansions": 4, "rollouts": 1, "c": 0.0})
    made = Solver(config, policy=FakeEngine(script=sums), value=Likes5(), sandbox=PlainSandbox())
    (solution,) = made.solve([Problem("p", "q")])
    assert solution.answer == "15"
    assert {node.visits for node in nodes_of(solution)[0].children} == {1, 2}


def test_budget_of_tokens_stops_new_work() -> None:
    free = solve(None, rollouts=64, c=2.0)
    held = solve(None, rollouts=64, c=2.0, max_tokens=300)
    assert held.tokens_out < free.tokens_out
    assert held.expansions >= 1


def test_early_stop_when_settled() -> None:
    def script(request: Request, sample: int) -> str:
        answer = answering(request)
        return answer if answer is not None else f"print(7)  # {sample} {len(written(request))}\n{CODE}"

    assert solve(script, "best-of-n", samples=32).rollouts == 32
    assert solve(script, "best-of-n", samples=32, early_stop=True).rollouts == 4


def test_sampling_keeps_to_the_budget_of_tokens() -> None:
    def cost(**search: int) -> tuple[int, int]:
        config = Config(search=settings("sample", samples=12, expansions=2, **search))
        solver = Solver(config, policy=FakeEngine(), sandbox=PlainSandbox())
        (solution,) = solver.solve([Problem("p", "How much?")])
        return solution.rollouts, solution.tokens_out

    rollouts, tokens = cost()
    assert rollouts == 12
    fewer, within = cost(max_tokens=tokens // 2)
    assert 0 < fewer < 12
    assert tokens // 2 <= within < tokens


@pytest.mark.parametrize("method", ["sample", "best-of-n"])
def test_the_last_wave_of_programs_is_what_the_budget_buys(method: Method) -> None:
    def script(request: Request, sample: int) -> str:
        return answering(request) or f"print(7)\n{CODE}"

    one = solve(script, method, samples=1).tokens_out
    found = solve(script, method, samples=500, expansions=8, max_tokens=11 * one)
    assert (found.rollouts, found.tokens_out) == (11, 11 * one)


@pytest.mark.parametrize(("share", "rollouts"), [(0.9, 1), (0.3, 5)])
def test_a_tree_search_ends_when_nothing_can_change_the_answer(share: float, rollouts: int) -> None:
    """The first program has probability `share`; the policy never writes it again, and all others are unlikely."""
    drawn: list[str] = []

    def script(request: Request, sample: int) -> str | tuple[str, float]:
        if (answer := answering(request)) is not None:
            return answer
        drawn.append(f"print({len(drawn)})\n{CODE}")
        return drawn[-1], math.log(share if len(drawn) == 1 else 0.001)

    found = solve(script, rollouts=5, expansions=2)
    assert found.rollouts == rollouts
    assert found.answer == "0"


def test_selections_and_those_with_a_choice_are_counted() -> None:
    """The root has the children a = 2, a = 3 (which fails later) and a = 5; their own children answer at once."""
    solution = solve(sums, rollouts=3, expansions=4, c=2)
    visits = sum(node.visits for node in nodes_of(solution)[1:])
    assert 1 <= solution.choices <= solution.selections <= visits
    one = solve(lambda request, sample: sums(request, 0), rollouts=3, expansions=1)
    assert (one.selections, one.choices) == (1, 0)


def test_equal_code_may_end_a_program_and_not_another() -> None:
    """They share no run: the state of the one that ended is released."""

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        if written(request):
            return f"\nprint(x)\n{CODE}"
        return f"x = 1\nprint(x)\n{STEP if sample else CODE}"

    solution = solve(script, "best-of-n", samples=4)
    assert [trajectory.answer for trajectory in solution.trajectories] == ["1", "1\n1", "1\n1", "1\n1"]
    assert sorted(len(trajectory.steps) for trajectory in solution.trajectories) == [1, 2, 2, 2]


def test_a_step_behind_which_nothing_fits_is_a_failure() -> None:
    """It is visited, so its siblings have their turn."""

    class Full(FakeEngine):
        async def complete(self, request: Request) -> Sequence[Completion]:
            if written(request).count(STEP) == 2:
                raise ContextFullError("full")
            return await super().complete(request)

    def script(request: Request, sample: int) -> str:
        if (answer := answering(request)) is not None:
            return answer
        steps = written(request)
        if not steps:
            return f"{'ab'[sample % 4 == 3]} = 1\n{STEP}"
        return f"\nprint(7)\n{CODE}" if "b = 1" in steps else f"\nc = {sample}\n{STEP}"

    config = Config(search=settings("mcts", expansions=4, rollouts=6))
    (found,) = Solver(config, policy=Full(script=script), sandbox=PlainSandbox()).solve([Problem("p", "How much?")])
    assert found.answer == "7"
    visits = {node.step.written.text[0]: node.visits for node in nodes_of(found)[0].children if node.step}
    assert visits["a"] >= 1
    assert visits["b"] >= 1


def test_no_sample_is_asked_for_once_the_budget_is_spent() -> None:
    solution = solve(sums, "mcts", max_tokens=1, expansions=8)
    assert solution.tokens_out == len(f"a = 2\n{STEP}".encode())


@pytest.mark.parametrize("method", ["sample", "best-of-n"])
@pytest.mark.parametrize(("budget", "programs"), [(1, 1), (250, 2), (400, 4), (5_000, 8)])
def test_the_first_programs_are_few_if_the_budget_is_small(method: Method, budget: int, programs: int) -> None:
    asked: list[int] = []

    class Counting(FakeEngine):
        async def complete(self, request: Request) -> Sequence[Completion]:
            asked.append(request.n)
            return await super().complete(request)

    config = Config(search=settings(method, samples=50, expansions=8, max_tokens=budget))
    list(Solver(config, policy=Counting(script=sums), sandbox=PlainSandbox()).solve([Problem("p", "How much?")]))
    assert asked[0] == programs
