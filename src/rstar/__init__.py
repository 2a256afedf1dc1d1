"""Small language models that reason: rStar, rStar-Math and rStar2-Agent as one system.

The Python API::

    import rstar

    solver = rstar.Solver(rstar.resolve(overrides=["search.rollouts=16"]))
    for solution in solver.solve([rstar.Problem("1", "What is 17 * 23?")]):
        print(solution.answer)

Importing this package loads no other module; each name's module is imported on first use.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rstar.answers import AnswerKey
    from rstar.config import Config, resolve
    from rstar.problems import Problem
    from rstar.search.solver import Solution, Solver

    __version__: str

__all__ = ["AnswerKey", "Config", "Problem", "Solution", "Solver", "__version__", "resolve"]

_MODULES = {
    "AnswerKey": "rstar.answers",
    "Config": "rstar.config",
    "Problem": "rstar.problems",
    "Solution": "rstar.search.solver",
    "Solver": "rstar.search.solver",
    "resolve": "rstar.config",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("rstar")
    if name not in _MODULES:
        raise AttributeError(f"module 'rstar' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
