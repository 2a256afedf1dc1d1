"""A scripted model: what tests of the search let it write."""

from collections.abc import Callable
from typing import Any, get_args

from rstar.config import AnySearch, Config, Method
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.solver import Solution, Solver
from rstar.trees import TreeNode
from tests.search.plain import PlainSandbox

METHODS: list[Method] = ["greedy", "sample", "best-of-n", "beam", "mcts"]
STEP, CODE, ANSWER = "<end_of_step>", "<end_of_code>", "<end_of_answer>"


def settings(method: Method, **wanted: object) -> dict[str, object]:
    """Those of the wanted settings that the method has."""
    known = next(kind for kind in get_args(AnySearch) if kind.model_fields["method"].default == method).model_fields
    return {"method": method, **{key: value for key, value in wanted.items() if key in known}}


def solve(
    script: Callable[[Request, int], str] | None,
    method: Method = "mcts",
    box: PlainSandbox | None = None,
    **search: object,
) -> Solution:
    """What a search with the texts of `script`, or of the fake model, finds for one problem."""
    config = Config(search=settings(method, **{"expansions": 4, "rollouts": 8, **search}))
    policy = FakeEngine(script=script)
    (solution,) = Solver(config, policy=policy, sandbox=box or PlainSandbox()).solve([Problem("p", "How much?")])
    return solution


def nodes_of(solution: Solution) -> list[TreeNode]:
    """The nodes of its tree, the root first."""
    assert solution.tree is not None
    return solution.tree.nodes


def tree_line(solution: Solution) -> dict[str, Any]:
    """Its tree as it is stored, with tokens."""
    assert solution.tree is not None
    return solution.tree.to_json(tokens=True)


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
