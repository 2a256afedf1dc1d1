"""Errors by boundary.

Three outcomes stay apart everywhere: *infrastructure* failure (an exception of this module), a *wrong answer* (a
verdict, never an exception), and a *model error* (data: a step whose code failed, a completion without an answer).
"""

BAD_INPUT = 2
"""Exit status for bad input: a `DataError` or a `ConfigError`."""

NO_ANSWER = 3
"""Exit status of `rstar solve` if a single question gets no answer: neither a failure nor bad input."""


class RstarError(Exception):
    """Base class of all errors raised on purpose. The message names what is wrong and where."""


class DataError(RstarError):
    """Bad input data: names the file, the line and the reason."""


class ConfigError(RstarError):
    """A configuration that cannot work: names the key and, if there is one, the nearest valid key."""


class ResumeError(ConfigError):
    """A run folder with a different configuration: names the `keys` that differ."""

    def __init__(self, message: str, keys: frozenset[str] = frozenset()) -> None:
        """`keys` are the identity keys that differ; empty for a folder that cannot be resumed for another reason."""
        super().__init__(message)
        self.keys = keys


class ServerError(RstarError):
    """A server is unreachable, refuses or fails. Clients convert it to the error of their own boundary."""


class StorageError(RstarError):
    """A run folder cannot be written (for example, a full disk); records stored earlier are kept."""


class EngineError(RstarError):
    """The model or its server failed (not: the model gave a wrong answer)."""


class ContextFullError(EngineError):
    """The context has no room for another token. Search ends the branch as ``length``."""


class SandboxError(RstarError):
    """The sandbox itself failed (not: the snippet failed)."""


class IsolationError(SandboxError):
    """This machine cannot provide the requested isolation level."""


class TrainingError(RstarError):
    """The training process failed; it has reported the reason."""
