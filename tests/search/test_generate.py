"""Rollouts over actions, on a scripted model."""

import asyncio
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.config import MutualConfig, Schedule
from rstar.grading import is_equivalent
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.prompts.domains import open_domain
from rstar.sandbox.api import Limits
from rstar.search.actions import ACTIONS, ROOT
from rstar.search.generate import MAX_HEADINGS, Generator
from rstar.search.select import exploration, uct
from rstar.search.tree import Node
from tests.search.plain import PlainSandbox

Script = Callable[[Request, int], str]


def generate(
    script: Script, rollouts: int, domain: str = "word-problems", shots: int = 0, seed: int = 1, **search: object
) -> Generator:
    """A generator after some rollouts; `script` gets each request."""
    box = PlainSandbox()
    config = MutualConfig(rollouts=rollouts, **{"votes": 4, **search})  # type: ignore[arg-type]
    problem = Problem("p", "How many are left?")
    generator = Generator(
        problem,
        open_domain(domain),
        FakeEngine(script=script),
        box,
        config,
        Limits(),
        seed,
        shots,
        is_equivalent,  # type: ignore[arg-type]
    )

    async def run() -> None:
        for _ in range(rollouts):
            if not generator.root.closed:
                await generator.rollout()

    asyncio.run(run())
    generator.release()
    assert box.live == 0, "all interpreter states are released"
    return generator


def children(node: Node) -> dict[str, list[Node]]:
    """A node's children by action, without failed ones."""
    found: dict[str, list[Node]] = {}
    for child in node.children:
        assert child.step is not None
        if child.finish_reason in (None, "answer"):
            found.setdefault(child.step.action or "", []).append(child)
    return found


def body(request: Request) -> str:
    """The solution so far, from the opening of the first action."""
    return request.context.text.rpartition("<|assistant|>:\n")[2]


def two_ways(request: Request, sample: int) -> str:
    """A step, which says nothing; the rest: 5 in three of four samples at the root, 6 in two of four after the step."""
    text = body(request)
    if request.stop == ("\n",):
        return "Think.\n"
    return f"It is so. The answer is {(6 if sample % 2 else sample) if 'Think' in text else 5 + (sample == 3)}."


def test_values_visits_and_choice_by_hand() -> None:
    """Two children of the root, each taken once; then UCT with c = 2 takes them in the order worked out here.

    Finish has the confidence 3/4. The step leads to the confidence 2/4. Rollout 3: 0.75 + 2·sqrt(ln 2) against
    0.5 + 2·sqrt(ln 2): finish. Rollout 4: 0.75 + 2·sqrt(ln 3 / 2) = 2.23 against 0.5 + 2·sqrt(ln 3) = 2.60: the step.
    """
    assert uct(1.5, 2, 3, 2.0) == pytest.approx(0.75 + 2 * math.sqrt(math.log(3) / 2))
    wanted = {2: (1, 1), 3: (2, 1), 4: (2, 2)}
    for rollouts, (finished, stepped) in wanted.items():
        root = generate(two_ways, rollouts, actions=("step", "finish"), children=1, max_depth=2).root
        (finish,), (step,) = children(root)["finish"], children(root)["step"]
        assert (finish.visits, finish.q) == (finished, 0.75)
        assert (step.visits, step.q) == (stepped, 0.5)
        assert finish.answer == "5"
        assert children(step)["finish"][0].answer == "6"
        assert root.visits == rollouts


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        ("constant", [2.0, 2.0, 2.0]),
        ("linear", [2.0, 1.1, 0.2]),
        ("exponential", [2.0, 2.0 / math.sqrt(10), 0.2]),
    ],
)
def test_exploration_schedules(schedule: Schedule, values: list[float]) -> None:
    assert [exploration(2.0, schedule, done, 9) for done in (0, 4, 8)] == pytest.approx(values)
    assert exploration(2.0, schedule, 0, 1) == 2.0


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_trees_obey_the_rules(seed: int) -> None:
    """For any seed: succession, depth, single children, values in [0, 1], and visits that add up."""
    config = MutualConfig()
    generator = generate(rules_script, 12, seed=seed, max_depth=4)
    for node in generator.root.walk():
        if node.step is None:
            continue
        assert node.parent is not None
        last = ROOT if node.parent.step is None else node.parent.step.action
        action = ACTIONS[node.step.action]  # type: ignore[index]
        assert last in action.after
        assert node.depth == node.parent.depth + 1 <= 4
        assert 0.0 <= node.q <= 1.0 or node.finish_reason not in (None, "answer")
        assert not node.children or node.answer is None
        if node.depth == 4:
            assert node.finish_reason is not None
    for node in generator.root.walk():
        counts: dict[str, int] = {}
        for child in node.children:
            name = child.step.action or ""  # type: ignore[union-attr]
            counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            assert count <= (config.children if ACTIONS[name].several else 1)  # type: ignore[index]
        if node.answer is None and node.children:
            assert node.visits == sum(
                child.visits for child in node.children if child.finish_reason in (None, "answer")
            )
    assert generator.root.visits == generator.rollouts == 12


def rules_script(request: Request, sample: int) -> str:
    """Something that can be read for every action; some texts are no step."""
    text = body(request)
    draw = (request.seed + sample * 7919) % 11
    if draw == 0:
        return "\n"
    if "Conditions" in text[-20:]:
        return "a 2. b\n"
    if text.rstrip().rpartition("\n")[2].startswith("Question"):
        return f"How many after {draw}?\n" if draw < 8 else "Now we can answer the question: How many?\n"
    return (
        f"There are {draw}. The answer is {draw}.\n"
        if "Answer" in text[-40:] or draw < 3
        else f"The total is {draw}.\n"
    )


def test_a_step_with_the_answer_has_the_confidence_of_the_sampled_solutions() -> None:
    """Three of four solutions sampled at the root agree with a step that states 5, none with one that states 8."""

    def script(request: Request, sample: int) -> str:
        if request.stop == ("\n",):
            return f"The answer is {5 if sample == 0 else 8}.\n"
        return f"The answer is {5.0 if sample < 3 else 6}."

    root = generate(script, 6, actions=("step", "finish"), children=2).root
    assert {step.answer: step.value for step in children(root)["step"]} == {"5": 0.75, "8": 0.0}
    assert children(root)["finish"][0].value == 0.75


@pytest.mark.parametrize(
    "lines", [["**Find the total**", "", "4 trays of 18 are 72."], ["Compute the total", "72 in all."]]
)
def test_a_heading_is_not_a_step(lines: list[str]) -> None:
    """The text below it belongs to the step."""

    def script(request: Request, sample: int) -> str:
        written = body(request).partition("Step 1:")[2].count("\n")
        return f"{(*lines, 'The answer is 15.')[written]}\n" if request.stop == ("\n",) else "The answer is 15."

    root = generate(script, 2, actions=("step", "finish"), children=1).root
    (step,) = children(root)["step"]
    assert step.step is not None
    assert step.step.text == "Step 1:" + "\n".join(lines) + "\n"


def test_headings_without_end_are_one_step() -> None:
    root = generate(lambda request, sample: "## On\n", 1, actions=("step",), children=1).root
    assert [child.step and child.step.text.count("\n") for child in root.children] == [1 + MAX_HEADINGS]


def test_the_solutions_of_a_node_are_sampled_once() -> None:
    requests: list[tuple[str, tuple[str, ...], int]] = []

    def script(request: Request, sample: int) -> str:
        requests.append((request.context.text, request.stop, sample))
        return two_ways(request, sample)

    generate(script, 12, max_depth=3, children=2, actions=("step", "finish"))
    assert len(requests) == len(set(requests))


def test_sub_questions_take_the_most_frequent_answer() -> None:
    def script(request: Request, sample: int) -> str:
        if body(request).endswith("Question 1:"):
            return " How many are sold?\n"
        if body(request).endswith("Answer 1:"):
            return f" There are {[3, 7, 7.0, 2][sample]}. The answer is {[3, 7, 7.0, 2][sample]}.\n"
        return "So. The answer is 1."

    root = generate(script, 3, actions=("question", "finish"), children=1, max_depth=2).root
    (question,) = children(root)["question"]
    assert question.votes == 2, "7 and 7.0 are the same answer"
    assert question.step is not None
    assert question.step.text == "Question 1: How many are sold?\nAnswer 1: There are 7. The answer is 7.\n"
    assert question.step.written.text == " How many are sold?\n"
    assert [segment.author for segment in question.step.segments] == ["template", "policy", "template", "policy"]


def test_a_new_answer_replaces_the_first_one() -> None:
    """The model does not see the answer that it is asked to give again, and neither does what follows."""
    seen: list[str] = []

    def script(request: Request, sample: int) -> str:
        text = body(request)
        seen.append(text)
        if text.endswith("Question 1:"):
            return " How many are sold?\n"
        if text.endswith("Answer 1:"):
            return " First.\n"
        return " Second.\n" if "think step by step" in text[-40:] else "The answer is 1."

    generator = generate(script, 12, actions=("question", "reanswer", "finish"), children=1, max_depth=3)
    (question,) = children(generator.root)["question"]
    (again,) = children(question)["reanswer"]
    assert again.depth == 2
    asked = "Question 1: How many are sold?\nAnswer 1: Let's think step by step."
    assert asked in seen
    assert f"{asked} Second.\nStep 1:" in seen
    assert not any("First" in text and "Second" in text for text in seen)


def test_code_of_a_new_answer_runs_from_before_the_first_one() -> None:
    def script(request: Request, sample: int) -> str:
        text = request.context.text
        if text.endswith("# question:"):
            return "how much?\n"
        if text.endswith("# think again\n"):
            return "n = 2\n<end_of_step>"
        if text.endswith("how much?\n"):
            return "n = 1\nk = 1\n<end_of_step>"
        if text.endswith("<answer>"):
            return f"\\boxed{{{text.rpartition('<output>')[2].partition('<')[0]}}}<end_of_answer>"
        return "\nprint(n, 'k' in globals())\n<end_of_code>" if "how much" in text else "print(0)\n<end_of_code>"

    actions = ("question", "reanswer", "finish")
    generator = generate(script, 12, domain="programs", actions=actions, children=1, max_depth=3)
    (question,) = children(generator.root)["question"]
    (again,) = children(question)["reanswer"]
    assert children(question)["finish"][0].answer == "1 True"
    assert children(again)["finish"][0].answer == "2 False"


def test_failed_children_are_data_and_a_dead_end_closes() -> None:
    root = generate(lambda request, sample: "\n", 5).root
    assert root.closed
    assert root.visits == 1, "one rollout, which met a dead end"
    assert {child.finish_reason for child in root.children} == {"no_step"}


def test_a_full_context_fails_the_child() -> None:
    generator = generate(lambda request, sample: "x" * 20_000 + "\n", 3, max_step_tokens=100_000)
    assert {child.finish_reason for child in generator.root.children} == {"length"}


def test_ids_are_those_sampled() -> None:
    """Whatever the examples of an action, what follows the prompt is never tokenised again."""
    contexts: list[tuple[str, tuple[int, ...]]] = []

    def script(request: Request, sample: int) -> str:
        contexts.append((request.context.text, request.context.ids))
        return rules_script(request, sample)

    generate(script, 10, shots=2)
    assert len(contexts) > 20
    for text, ids in contexts:
        assert bytes(ids[1:]).decode() == text
