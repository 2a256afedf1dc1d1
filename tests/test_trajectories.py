"""Trajectories hold exactly what the model saw, and say of every piece who wrote it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rstar.config import Config, Method
from rstar.models.engine import Completion, Request
from rstar.models.fake import BOS, FakeEngine
from rstar.problems import Problem
from rstar.prompts.code_steps import ANSWER, END_ANSWER, OUTPUT
from rstar.search.solver import Solution, Solver
from rstar.trajectories import Segment, Step, Trajectory, answered
from rstar.trees import Tree
from tests.search.plain import PlainSandbox
from tests.search.scripted import METHODS, settings

PROMPT = Segment("How much?", "template", (BOS, 1))


class Witness(FakeEngine):
    """The fake model, with a memory of what it saw and wrote. The log-probabilities of its tokens differ."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[tuple[int, ...], str] = {}
        self.wrote: set[Segment] = set()

    async def complete(self, request: Request) -> Sequence[Completion]:
        found = [
            replace(one, logprobs=tuple(-(place + 1) / 1024 for place in range(len(one.ids))))
            for one in await super().complete(request)
        ]
        for one in found:
            after = request.context.extend(one)
            self.seen[after.ids] = after.text
            self.wrote.add(Segment(one.text, "policy", one.ids, one.logprobs))
        return found


def searched(method: Method, errors_threshold: int = 1) -> tuple[Witness, list[Solution]]:
    wanted = settings(method, rollouts=6, samples=6, expansions=4, beam_width=3, errors_threshold=errors_threshold)
    policy = Witness()
    solver = Solver(Config(search=wanted), policy=policy, sandbox=PlainSandbox())
    return policy, list(solver.solve([Problem(str(n), f"Add {n}, 30 and {n + 5}.") for n in range(6)]))


def paths(tree: Tree) -> list[Trajectory]:
    """All partial and whole solutions."""
    steps = ((node, tuple(one.step for one in node.path() if one.step is not None)) for node in tree.nodes[1:])
    return [Trajectory(tree.prompt, path, node.finish_reason, node.answer) for node, path in steps]


@pytest.mark.parametrize("method", METHODS)
def test_ids_are_exactly_what_the_model_saw(method: Method) -> None:
    policy, solutions = searched(method)
    for solution in solutions:
        assert solution.tree is not None
        found = [*paths(solution.tree), *solution.trajectories]
        assert found
        for one in found:
            assert one.ids in policy.seen
            assert policy.seen[one.ids] == one.prompt.text + one.text
            assert bytes(one.ids[1:]).decode() == one.prompt.text + one.text
            assert one.ids[0] == BOS
    assert any(solution.trajectories for solution in solutions)


@pytest.mark.parametrize("method", METHODS)
def test_a_segment_keeps_its_author(method: Method) -> None:
    policy, solutions = searched(method)
    wholes = 0
    for solution in solutions:
        assert solution.tree is not None
        assert solution.tree.prompt.author == "template"
        for one in paths(solution.tree):
            for step in one.steps:
                assert [segment.author for segment in step.segments] in (["policy"], ["policy", "tool", "policy"])
            for segment in one.segments:
                assert (segment in policy.wrote) == (segment.author == "policy")
                if segment.author == "tool":
                    assert segment.text.startswith(f"\n{OUTPUT}")
                    assert segment.text.endswith(ANSWER)
                    assert segment.ids
                    assert segment.logprobs is None
            wholes += one.answer is not None
    assert wholes


@pytest.mark.parametrize("method", METHODS)
def test_the_answer_keeps_its_own_ids_and_log_probabilities(method: Method) -> None:
    """Nobody has to cut them out of something longer."""
    policy, solutions = searched(method)
    for one in (trajectory for solution in solutions for trajectory in solution.trajectories):
        written, shown, answer = one.steps[-1].segments
        assert answer in policy.wrote
        assert answer.text == f"\\boxed{{{one.answer}}}{END_ANSWER}"
        assert answer.ids == tuple(answer.text.encode())
        assert answer.logprobs is not None
        assert len(answer.logprobs) == len(answer.ids)
        assert one.steps[-1].shown == shown.text + answer.text
        sampled = [segment for step in one.steps for segment in step.segments[:1]]
        assert sampled[-1] == written
        assert one.logprob == pytest.approx(sum(sum(segment.logprobs or ()) for segment in sampled))
        assert one.turns() == ["".join(segment.text for segment in sampled), shown.text, answer.text]


def segment(author: str, text: str) -> Segment:
    return Segment(text, author)  # type: ignore[arg-type]


def made(*steps: Sequence[Segment]) -> Trajectory:
    return Trajectory(PROMPT, tuple(Step(tuple(step)) for step in steps), None)


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        ([], []),
        ([["a"]], ["a"]),
        ([["a"], ["b"]], ["ab"]),
        ([["a"], ["b", "-c", "d"]], ["ab", "-c", "d"]),
        ([["a", "-b"], ["c", "-d", "e"]], ["a", "-b", "c", "-d", "e"]),
        ([["a", "-b", "+c"], ["d"]], ["a", "-b+c", "d"]),
        ([["a", "-b", "c"], ["d"]], ["a", "-b", "cd"]),
    ],
)
def test_turns(steps: list[list[str]], turns: list[str]) -> None:
    """A minus marks what a tool wrote, a plus what a template put there."""
    authors = {"-": "tool", "+": "template"}
    one = made(*([segment(authors.get(text[0], "policy"), text) for text in step] for step in steps))
    assert one.turns() == turns
    assert "".join(one.turns()) == one.text


def test_a_step_is_what_was_written_and_what_followed() -> None:
    step = Step((segment("policy", "a"), segment("tool", "b"), segment("policy", "c")), "error", "E: no")
    assert (step.written.text, step.shown, step.text, step.ran) == ("a", "bc", "abc", False)
    assert Step((segment("policy", "a"),)).ran
    assert step.lacks_logprobs
    assert not step._replace(segments=(Segment("a", "policy", (1,), (-0.5,)), *step.segments[1:])).lacks_logprobs
    assert not Step((segment("policy", ""),)).lacks_logprobs


def test_what_is_kept_of_a_trajectory() -> None:
    steps = (
        Step((Segment("a", "policy", (1, 2), (-0.5, -0.25)),), "error", "E: no"),
        Step(
            (Segment("b", "policy", (3,), (-1.0,)), segment("tool", "c"), Segment("d", "policy", (4,), (-9.0,))), "ok"
        ),
    )
    one = Trajectory(PROMPT, steps, "answer", "7", 0.5, 2, 0.25)
    assert one.ids == (BOS, 1, 1, 2, 3, 4)
    assert one.record() == {
        "text": "abcd",
        "finish": "answer",
        "answer": "7",
        "value": 0.5,
        "logprob": -1.75,
        "votes": 2,
        "mass": 0.25,
        "error": "E: no",
    }
    assert answered([one, made(), one]) == [one, one]
