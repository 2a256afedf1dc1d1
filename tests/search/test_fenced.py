"""The format for instruct models: what they write, and how it is read."""

import pytest

from rstar.config import Config, Method
from rstar.models.engine import Completion, Request, StopReason
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.prompts.code_steps import USER
from rstar.prompts.fenced import END_BLOCK, EXAMPLES, output, prompt
from rstar.search.fenced import FENCED
from rstar.search.format import Reading
from rstar.search.solver import Solution, Solver
from rstar.specs import Fake
from tests.search.plain import PlainSandbox
from tests.search.scripted import METHODS, nodes_of, settings


def completion(text: str, reason: StopReason = "eos", stop: str | None = None) -> Completion:
    return Completion(text, (), (), reason, stop)


def code(text: str) -> Reading:
    return Reading(code=text, shows=True)


STYLES: dict[str, tuple[str, Reading]] = {
    "text and a block": ("I add.\n```python\nx = 3 + 4\nprint(x)\n```\n", code("x = 3 + 4\nprint(x)")),
    "a block alone, without an end": ("```python\nprint(7)", code("print(7)")),
    "a capital language": ("Here:\n```Python\nprint(7)\n```", code("print(7)")),
    "py, with attributes": ("```py title=a\nprint(7)\n```", code("print(7)")),
    "without a language": ("```\nprint(7)\n```", code("print(7)")),
    "tildes": ("Compute.\n\n~~~python\nprint(7)\n~~~\nThat is it.", code("print(7)")),
    "tildes around another fence": ("~~~\nprint('```')\n~~~", code("print('```')")),
    "tildes in a sentence": ("~~~ is no fence\n```python\nprint(7)\n```", code("print(7)")),
    "in a list": ("1. Compute:\n   ```python\n   print(7)\n   ```\n", code("print(7)")),
    "two blocks": ("A\n```python\na = 3\n```\nB\n```python\nprint(a)\n```", code("a = 3\nprint(a)")),
    "text after the block": ("```python\nprint(7)\n```\nThis prints the sum.", code("print(7)")),
    "a guessed answer after the block": ("```python\nprint(7)\n```\nThe answer is \\boxed{8}.", code("print(7)")),
    "four backticks": ("````python\nprint('```')\n````", code("print('```')")),
    "braces": ("```{.python .numberLines}\nprint(7)\n```", code("print(7)")),
    "lines that end as on Windows": ("Add:\r\n```python\r\nprint(7)\r\n```\r\n", code("print(7)")),
    "another language first": ("```bash\npip install x\n```\n```python\nprint(7)\n```", code("print(7)")),
    "a plan in a block first": ("```\n1. add the rolls\n```\n```python\nprint(7)\n```", code("print(7)")),
    "the expected output": ("1. Add\n   ```python\n   print(7)\n   ```\n   ```\n   8\n   ```\n", code("print(7)")),
    "the answer in a block": ("The final answer is:\n```\n7 rolls\n```", Reading(answer="7 rolls")),
    "a second start": ("Add:\n```\nSo I add:\n```python\nprint(7)\n```\n", code("print(7)")),
    "a draft while thinking": (
        "<think>\n```python\nprint(8)\n```\nno\n</think>\n```python\nprint(7)\n```\n",
        code("print(7)"),
    ),
    "thinking without an end": ("<think>\n```python\nprint(8)\n```\nno", Reading(failure="no_answer")),
    "a heading": ("### Step 1\n**Sum**\n```python\nprint(7)\n```\n", code("print(7)")),
    "boxed": ("So \\boxed{7} rolls are left.", Reading(answer="7")),
    "bold": ("The answer is **7**.", Reading(answer="7")),
    "a sentence": ("Therefore, the final answer is 7 rolls.", Reading(answer="7 rolls")),
    "a heading for the answer": ("**Answer:** 7", Reading(answer="7")),
    "a formula": ("Thus the answer: $\\frac{1}{6}$", Reading(answer="$\\frac{1}{6}$")),
    "in tags": ("<answer>7</answer>", Reading(answer="7")),
    "a statement with a number": ("Nora has 7 rolls left.", Reading(answer="7")),
    "thinking first": ("<think>maybe 8? no</think>The answer is 7.", Reading(answer="7")),
    "code in the thinking": ("<think>Or\n```python\n0\n``` no</think>\n```python\nprint(7)\n```", code("print(7)")),
    "thinking alone, with a draft": ("<think>Or\n```python\nprint(8)\n```\n</think>\n", Reading(failure="no_answer")),
    "thinking alone, with an answer": ("<think>So \\boxed{7}.</think>", Reading(answer="7")),
    "code without a fence": ("x = 7\nprint(x)\n", code("x = 7\nprint(x)")),
    "a formula without a fence": ("x = 7", Reading(answer="x = 7")),
    "a fence at the end of a line": ("The code: ```python\nprint(7)\n```\nIt prints 8.", code("print(7)")),
    "a session": ("```pycon\n>>> x = 7\n>>> if x:\n...     print(x)\n7\n```", code("x = 7\nif x:\n    print(x)")),
    "a session of Python": ("```python\n>>> print(7)\n7\n```", code("print(7)")),
    "a session without a fence": (">>> print(7)\n7\n", code("print(7)")),
    "a notebook": ("```\nIn [1]: print(7)\n7\n```", code("print(7)")),
    "a request for facts": ("I need to know more. Please provide 2 more facts.", Reading(failure="no_answer")),
    "a yes": ("The answer is yes.", Reading(answer="yes")),
    "a plan": ("Let me think about this problem in more detail.", Reading(failure="no_answer")),
    "a table in a block": ("```text\na | b\n```\nI need more time.", Reading(failure="no_answer")),
    "a refusal": ("I'm sorry, but I can't help with that.", Reading(failure="no_answer")),
    "nothing": ("  \n", Reading(failure="no_step")),
}


@pytest.mark.parametrize("style", STYLES)
def test_styles(style: str) -> None:
    text, expected = STYLES[style]
    assert FENCED.read(completion(text)) == expected


def test_a_stop_string_can_be_an_opening_fence() -> None:
    opened = completion(f"I add:{END_BLOCK}", "stop", END_BLOCK)
    assert FENCED.read(opened) == Reading(more=True)
    closed = completion(f"I add:{END_BLOCK}print(7){END_BLOCK}", "stop", END_BLOCK)
    assert FENCED.read(closed) == code("print(7)")
    for more in ("```json\n[7]", "```bash\npip install x", "<think>Or\n```python\nprint(8)", "Answer:\n```\n7 rolls"):
        assert FENCED.read(completion(more + END_BLOCK, "stop", END_BLOCK)) == Reading(more=True)
    assert FENCED.read(completion(f"The answer is 7.\n{USER}", "stop", f"\n{USER}")) == Reading(answer="7")
    assert FENCED.read(completion("```python\nprint(", "length")) == Reading(failure="length")


def test_examples_are_read_as_they_are_meant() -> None:
    for _, turns, last in EXAMPLES:
        for turn, _ in turns:
            assert FENCED.read(completion(turn + END_BLOCK, "stop", END_BLOCK)).code
        assert FENCED.read(completion(last)).answer
    shown = prompt("How much?", 2)
    assert shown.count(f"{USER}\nOutput:") == 3
    assert shown.endswith(f"{USER}\nHow much?\n<|assistant|>:\n")


def written(request: Request) -> str:
    return request.context.text.partition("How much?\n<|assistant|>:\n")[2]


def instruct(request: Request, sample: int) -> str:
    """An instruct model: a variable, its square with a fence that has no language, and the answer."""
    text = written(request)
    if "Output" not in text:
        return f"I choose.\n```python\na = {3 + sample % 2}\n```\n"
    if text.count("Output") == 1:
        return "print(a**2)\n```\n" if text.endswith(END_BLOCK) else "I square it:\n```\nprint(a**2)\n```\n"
    printed = text.rpartition("Output:\n```\n")[2].partition("\n```")[0]
    return f"The square is **{printed}**. The answer is \\boxed{{{printed}}}."


def solve(method: Method, script: object = instruct, **search: object) -> tuple[Solution, PlainSandbox]:
    box = PlainSandbox()
    wanted = {"format": "fenced", "expansions": 3, "rollouts": 6, "samples": 4, "beam_width": 2, **search}
    config = Config(search=settings(method, **wanted))
    solver = Solver(config, policy=FakeEngine(script=script), sandbox=box)  # type: ignore[arg-type]
    (solution,) = solver.solve([Problem("p", "How much?")])
    assert box.live == 0
    return solution, box


@pytest.mark.parametrize("method", METHODS)
def test_every_method_works_with_instruct_models(method: Method) -> None:
    solution, box = solve(method)
    assert solution.answer in ("9", "16")
    assert all(t.text.count("Output:") == 2 for t in solution.trajectories)
    assert set(box.runs) <= {"a = 3", "a = 4", "print(a**2)"}, "no step runs the steps before it again"


def test_the_transcript() -> None:
    solution, _ = solve("greedy")
    (trajectory,) = solution.trajectories
    assert trajectory.text == (
        f"I choose.\n```python\na = 3\n```\n{output('(no output)')}"
        f"I square it:\n```\nprint(a**2)\n```\n{output('9')}"
        "The square is **9**. The answer is \\boxed{9}."
    )
    assert [segment.author for segment in trajectory.segments] == ["policy", "tool", "policy", "tool", "policy"]
    assert bytes(trajectory.ids[1:]).decode() == trajectory.prompt.text + trajectory.text


def test_an_error_is_shown_if_the_branch_survives_it() -> None:
    def script(request: Request, sample: int) -> str:
        if "Output" not in written(request):
            return "```python\nprint(1)\nprint(nothing)\n```"
        return "The answer is 1."

    solution, _ = solve("greedy", script, errors_threshold=1)
    assert "Output:\n```\n1\nNameError: name 'nothing' is not defined (line 1)\n```" in solution.trajectories[0].text
    ended, _ = solve("greedy", script)
    assert ended.answer is None
    assert ended.failures == {"code_error": 1}


def test_a_turn_that_never_ends_fails() -> None:
    def endless(request: Request, sample: int) -> str:
        return f"Then {request.context.text.count('Then')}:\n```json\n[7]\n```\n"

    solution, box = solve("greedy", endless, max_step_tokens=50, max_depth=4)
    assert solution.failures == {"length": 1}
    assert not box.runs
    assert solution.tokens_out <= 200


def test_a_context_that_fills_within_a_turn_ends_one_problem() -> None:
    engine = FakeEngine(Fake(max_context=2000), script=lambda request, sample: "Then:\n```json\n[7]\n```\n")
    config = Config(search=settings("greedy", format="fenced", max_step_tokens=1900))
    (solution,) = Solver(config, policy=engine, sandbox=PlainSandbox()).solve([Problem("p", "How much?")])
    assert solution.failures == {"length": 1}


def planned(request: Request, sample: int) -> str:
    """A plan in a block, at which each sample stops, and then code that differs by the seed of what follows."""
    turn = written(request)
    if "Output" in turn:
        return f"The answer is {turn.rpartition('Output:')[2].split()[1]}."
    if "Plan" in turn:
        return f"```python\nprint({request.seed % 997})\n```\n"
    return "Plan:\n```text\nadd\n```\n"


@pytest.mark.parametrize("method", ["sample", "best-of-n"])
def test_what_follows_equal_beginnings_is_sampled_independently(method: Method) -> None:
    solution, _ = solve(method, planned, samples=6)
    assert len({trajectory.answer for trajectory in solution.trajectories}) == 6
    again, _ = solve(method, planned, samples=6)
    assert [one.text for one in again.trajectories] == [one.text for one in solution.trajectories]


def test_equal_turns_are_one_node_also_if_they_were_written_in_parts() -> None:
    def fails(request: Request, sample: int) -> str:
        return "```python\nraise ValueError\n```\n" if "Plan" in written(request) else "Plan:\n```text\nadd\n```\n"

    solution, box = solve("mcts", fails, rollouts=5, expansions=2)
    (node,) = nodes_of(solution)[1:]
    assert node.votes > 2, "all widenings wrote it"
    assert len(box.runs) == 1
