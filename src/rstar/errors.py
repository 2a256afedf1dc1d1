"""The vocabulary of errors, by boundary.

Three things are kept apart everywhere: *infrastructure* failure (an exception of this module), a *wrong answer* (a
verdict, never an exception), and a *model error* (data: a step whose code failed, a completion without an answer).
"""

BAD_INPUT = 2
"""Exit status of a command that was given what cannot be: a `DataError`, a `ConfigError`."""

NO_ANSWER = 3
"""Exit status of `rstar solve` for a single question without an answer: no failure, and no bad input."""


class RstarError(Exception):
    """Anything this package raises on purpose. The message names what is wrong and where."""


class DataError(RstarError):
    """Bad input data: names the file, the line and the reason."""


class ConfigError(RstarError):
    """A configuration that cannot work: names the key, and the nearest valid one where there is one."""


class ResumeError(ConfigError):
    """A run folder written by a different configuration: names the `keys` that differ."""

    def __init__(self, message: str, keys: frozenset[str] = frozenset()) -> None:
        """`keys` are those of the identity that differ, none for a folder that cannot be continued anyway."""
        super().__init__(message)
        self.keys = keys


class ServerError(RstarError):
    """A server cannot be reached, refuses or fails. Whoever talks to one raises it as its own kind of failure."""


class StorageError(RstarError):
    """A run folder cannot be written to (a full disk, say): what was stored before is kept."""


class EngineError(RstarError):
    """The model or its server failed (not: the model said something wrong)."""


class ContextFullError(EngineError):
    """The context leaves the model no room for another token. Search ends the branch there, as ``length``."""


class SandboxError(RstarError):
    """The sandbox itself failed (not: the snippet failed)."""


class IsolationError(SandboxError):
    """This machine cannot give the isolation level that was asked for."""


class TrainingError(RstarError):
    """A training's process failed; it has said why."""
