"""Running Python that a model wrote."""

from rstar.sandbox.api import CodeError, Limits, Result, Sandbox, State
from rstar.sandbox.local import LocalSandbox

__all__ = ["CodeError", "Limits", "LocalSandbox", "Result", "Sandbox", "State"]
