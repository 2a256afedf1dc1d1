"""Sandbox for model-written Python: the public interface for the other packages."""

from rstar.sandbox.api import CodeError, Limits, Result, Sandbox, State
from rstar.sandbox.folders import temporary_folder
from rstar.sandbox.levels import LEVELS, Level, Report, probe
from rstar.sandbox.parent.local import LocalSandbox
from rstar.sandbox.parent.pressure import TooMuchError, machine_share
from rstar.sandbox.parent.priorities import PATIENCE

__all__ = [
    "LEVELS",
    "PATIENCE",
    "CodeError",
    "Level",
    "Limits",
    "LocalSandbox",
    "Report",
    "Result",
    "Sandbox",
    "State",
    "TooMuchError",
    "machine_share",
    "probe",
    "temporary_folder",
]
