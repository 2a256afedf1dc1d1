"""A scripted model: what tests of the search let it write."""

from collections.abc import Callable

from rstar.config import Config, Method, SearchConfig
from rstar.models.engine import Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.search.solver import Solution, Solver
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
