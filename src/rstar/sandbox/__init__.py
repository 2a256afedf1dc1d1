"""Running Python that a model wrote."""

from rstar.sandbox.api import CodeError, Limits, Result, Sandbox, State
from rstar.sandbox.levels import LEVELS, Level, Report, probe
from rstar.sandbox.local import LocalSandbox

__all__ = ["LEVELS", "CodeError", "Level", "Limits", "LocalSandbox", "Report", "Result", "Sandbox", "State", "probe"]
