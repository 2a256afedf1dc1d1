"""Mutual reasoning end to end: generator, peer and choice, on fake models."""

import asyncio
from pathlib import Path

import pytest

from rstar.agent.solver import open_solver
from rstar.config import Config, MutualConfig, resolve
from rstar.errors import ConfigError, EngineError
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search import actions, discriminate, generate, mutual
from rstar.search.mutual import MutualSolver
from rstar.search.solver import Solution
from rstar.specs import Fake
from tests.prompts.test_domains import domain_folder
from tests.search.plain import PlainSandbox

PROBLEMS = [Problem(str(i), f"Add {i}, {i + 30} and 7.") for i in range(6)]


def solve(
    policy: FakeEngine, peer: FakeEngine | None = None, problems: list[Problem] = PROBLEMS, **search: object
) -> dict[str, Solution]:
    box = PlainSandbox()
    config = Config(search=MutualConfig(**{"rollouts": 8, "votes": 4, "domain": "word-problems", **search}))  # type: ignore[arg-type]
    found = MutualSolver(config, policy=policy, peer=peer, sandbox=box).solve(problems)  # type: ignore[arg-type]
    solutions = {solution.problem.id: solution for solution in found}
    assert box.live == 0, "all interpreter states are released"
    return solutions


@pytest.mark.parametrize("domain", ["word-problems", "competition", "yes-no", "programs"])
def test_every_domain_finds_answers(domain: str) -> None:
    solutions = solve(FakeEngine(), FakeEngine(Fake(seed=5)), domain=domain)
    assert len(solutions) == len(PROBLEMS)
    for solution in solutions.values():
        assert solution.answer is not None
        assert solution.method == "mutual"
        assert 0 < solution.peer_tokens < solution.tokens_out
        assert solution.tree is not None
        assert (solution.steps > 0) == (domain == "programs")


def key(solutions: dict[str, Solution]) -> list[object]:
    return [
        (name, one.answer, one.value, one.tokens_out, one.peer_tokens, one.tree and one.tree.to_json(True))
        for name, one in sorted(solutions.items())
    ]


@pytest.mark.parametrize("max_tokens", [None, 4000])
def test_results_do_not_depend_on_timing(max_tokens: int | None) -> None:
    """A slow peer, a slow policy, one problem at a time: the same trees, answers and costs."""
    fast = solve(FakeEngine(), FakeEngine(Fake(seed=5)), max_tokens=max_tokens)
    slow_peer = solve(FakeEngine(), FakeEngine(Fake(seed=5, latency=0.01)), max_tokens=max_tokens)
    slow_policy = solve(FakeEngine(Fake(latency=0.003)), FakeEngine(Fake(seed=5)), max_tokens=max_tokens, concurrency=1)
    assert key(fast) == key(slow_peer) == key(slow_policy)


def test_the_budget_covers_both_models() -> None:
    whole = solve(FakeEngine(), FakeEngine(Fake(seed=5)), rollouts=32)
    short = solve(FakeEngine(), FakeEngine(Fake(seed=5)), rollouts=32, max_tokens=3000)
    for name, solution in short.items():
        assert solution.tokens_out < whole[name].tokens_out
        assert solution.rollouts < 32
        assert solution.answer is not None


def test_without_a_peer_the_policy_checks_its_own_solutions() -> None:
    alone = solve(FakeEngine())
    assert all(solution.peer_tokens for solution in alone.values())
    assert key(alone) == key(solve(FakeEngine(), FakeEngine()))


def test_a_peer_never_sees_the_answer_that_it_checks() -> None:
    """A solution that goes on after its answer is cut before it; else a peer that refuses would seem to agree."""
    seen: list[str] = []

    def policy(request: Request, sample: int) -> str:
        return " The answer is 42.\nStep 2: To check it, I divide 42 by 7, which is 6, the number of trays here.\n"

    def peer(request: Request, sample: int) -> str:
        seen.append(request.context.text.rpartition("Add 1.")[2])
        return "I'm sorry, but I can't help with that."

    problems = [Problem("p", "Add 1.")]
    (solution,) = solve(
        FakeEngine(script=policy), FakeEngine(script=peer), problems, actions=("finish",), rollouts=2
    ).values()
    assert solution.answer == "42", "without a survivor, all solutions are kept"
    assert seen
    assert not any("42" in text for text in seen)


def test_generator_alone() -> None:
    """Without the discriminator nothing is asked of a peer, and the same solutions are found."""
    both = solve(FakeEngine(), FakeEngine(Fake(seed=5)))
    alone = solve(FakeEngine(), FakeEngine(Fake("fail", rate=1.0)), discriminate=False)
    for name, solution in alone.items():
        assert solution.peer_tokens == 0
        assert [t.text for t in solution.trajectories] == [t.text for t in both[name].trajectories]


def test_the_peer_decides() -> None:
    """The generator prefers 5; the peer completes every solution with 6, so only those that end with 6 survive."""

    def policy(request: Request, sample: int) -> str:
        wrong = "The answer is 5." if request.seed % 3 else "The answer is 6."
        return f"Think {request.seed % 5} times more about this one.\n" if request.stop == ("\n",) else f"So. {wrong}"

    settings: dict[str, object] = {"actions": ("step", "finish"), "rollouts": 24, "problems": [Problem("p", "How?")]}
    peer = FakeEngine(script=lambda request, sample: "Therefore. The answer is 6.")
    alone = solve(FakeEngine(script=policy), discriminate=False, **settings)["p"]  # type: ignore[arg-type]
    both = solve(FakeEngine(script=policy), peer, **settings)["p"]  # type: ignore[arg-type]
    assert {t.answer for t in alone.trajectories} == {"5", "6"}
    assert both.answer == "6"
    assert all((t.value or 0) > 0 for t in both.trajectories if t.answer == "6")
    assert all((t.value or 0) <= 0 for t in both.trajectories if t.answer == "5"), "rejected solutions rank last"


def test_cuts_of_code_run_from_the_last_whole_step() -> None:
    """The peer's code continues the program at the cut: nothing before it runs again, and nothing is lost."""
    with_sandbox = MutualSolver(
        Config(search=MutualConfig(rollouts=6, votes=2, domain="programs")), policy=FakeEngine(), peer=FakeEngine()
    )
    (solution,) = with_sandbox.solve([Problem("p", "Add 12, 30 and 7.")])
    assert solution.answer == "49"
    assert any((t.value or 0) > 0 for t in solution.trajectories), "the same model agrees with itself"


def test_a_model_that_fails_is_an_error_not_an_answer() -> None:
    with pytest.raises(EngineError, match="failed on purpose"):
        solve(FakeEngine(), FakeEngine(Fake("fail", rate=1.0)))


def test_garbage_is_data() -> None:
    """A model that writes noise: every problem ends, without an answer or with one, and says why."""
    solutions = solve(FakeEngine(Fake("noise")), FakeEngine(Fake("noise")), domain="programs")
    assert len(solutions) == len(PROBLEMS)
    assert all(solution.failures for solution in solutions.values())


def test_gold_answers_cannot_reach_the_search() -> None:
    for module in (actions, discriminate, generate, mutual):
        assert "AnswerKey" not in vars(module)
        assert "gold" not in Path(module.__file__).read_text()


def test_settings(tmp_path: Path) -> None:
    config = resolve(None, ['search.actions=["step", "finish"]'], {"search.method": "mutual"})
    assert isinstance(config.search, MutualConfig)
    assert config.search.actions == ("step", "finish")
    for override, message in {
        'search.actions=["rephrase"]': "no action can reach an answer",
        'search.actions=["finish", "reanswer"]': "reanswer follows only question",
        "search.agreement=most": "search.agreement",
        "value=agreement": "does not use a value",
        "search.expansions=3": "expansions",
    }.items():
        with pytest.raises(ConfigError, match=message):
            resolve(None, [override], {"search.method": "mutual"})
    with pytest.raises(ConfigError, match="not one of competition"):
        open_solver(resolve(None, ["search.domain=poetry"], {"search.method": "mutual"}))
    with pytest.raises(ConfigError, match="not a model folder"):
        open_solver(resolve(None, [f"search.peer=hf:{tmp_path}"], {"search.method": "mutual"}))


def test_the_same_peer_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []

    def open_engine(model: object, settings: object) -> FakeEngine:
        opened.append(model)
        return FakeEngine()

    monkeypatch.setattr("rstar.search.solver.open_engine", open_engine)
    monkeypatch.setattr("rstar.search.mutual.open_engine", open_engine)
    for peer, count in ((None, 1), (Fake(), 1), (Fake(seed=1), 2)):
        opened.clear()
        config = Config(policy=Fake(), search=MutualConfig(rollouts=1, peer=peer))
        solver = MutualSolver(config, sandbox=PlainSandbox())  # type: ignore[arg-type]

        async def run(solver: MutualSolver = solver) -> None:
            async with solver:
                await solver.solve_one(PROBLEMS[0])

        asyncio.run(run())
        assert len(opened) == count


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            {"policy": "tiny:actions", "search.domain": "word-problems"},
            "policy 'tiny:actions' was trained on steps",
        ),
        ({"policy": "fake:steps", "search.peer": "tiny:peer"}, "search.peer 'tiny:peer' was trained on steps"),
    ],
)
def test_bundled_models_write_no_text(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_solver(resolve(None, (), {"search.method": "mutual", **options}))
    assert named in str(caught.value)
    assert "programs" in str(caught.value)


def test_a_peer_that_would_not_be_asked_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"search\.peer.*search\.discriminate = false"):
        resolve(None, ["search.discriminate=false"], {"search.method": "mutual", "search.peer": "fake:steps"})


def test_actions_written_without_brackets_are_explained() -> None:
    with pytest.raises(ConfigError, match=r'expected a list, such as \["step", "finish"\]'):
        resolve(None, ["search.actions=step,finish"], {"search.method": "mutual"})


def test_a_question_that_fills_the_context_is_marked() -> None:
    found = solve(FakeEngine(Fake(max_context=90)), problems=[Problem("p", "How many? " * 20)], shots=0)["p"]
    assert found.answer is None
    assert found.notices == ("question_too_long",)


def test_an_example_without_the_opening_of_its_action_is_refused(tmp_path: Path) -> None:
    folder = domain_folder(tmp_path / "mine")
    file = folder / "question.toml"
    file.write_text(file.read_text().replace("Question 1:", "1."))
    with pytest.raises(ConfigError, match=r"question\.toml, example 1: no line begins with 'Question 1:'"):
        solve(FakeEngine(), domain=str(folder), problems=PROBLEMS[:1])


def test_a_domain_needs_only_the_files_of_the_actions_in_use(tmp_path: Path) -> None:
    folder = domain_folder(tmp_path / "mine")
    for name in ("question", "reanswer", "rephrase"):
        (folder / f"{name}.toml").unlink()
    found = solve(FakeEngine(), domain=str(folder), actions=("step",), problems=PROBLEMS[:1])
    assert found["0"].trajectories
    with pytest.raises(ConfigError, match=r"question\.toml: the domain has no prompts"):
        solve(FakeEngine(), domain=str(folder), actions=("step", "question"))
