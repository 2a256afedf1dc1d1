"""Sandbox for model-written Python: the public interface for the other packages."""

from rstar.sandbox.api import CodeError, Limits, Result, Sandbox, State
from rstar.sandbox.folders import temporary_folder
from rstar.sandbox.levels import LEVELS, Capabilities, Level, probe
from rstar.sandbox.parent.local import LocalSandbox
from rstar.sandbox.parent.memory import MemoryHeldError, OversizedRunError, memory_for_programs
from rstar.sandbox.parent.pool import RunLostError
from rstar.sandbox.parent.scheduler import FOREGROUND_SECONDS
from rstar.sandbox.parent.threads import threads_for_programs

__all__ = [
    "FOREGROUND_SECONDS",
    "LEVELS",
    "Capabilities",
    "CodeError",
    "Level",
    "Limits",
    "LocalSandbox",
    "MemoryHeldError",
    "OversizedRunError",
    "Result",
    "RunLostError",
    "Sandbox",
    "State",
    "memory_for_programs",
    "probe",
    "temporary_folder",
    "threads_for_programs",
]
