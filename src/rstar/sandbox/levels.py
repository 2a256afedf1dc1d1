"""Isolation levels, their mechanisms, and a probe of which levels this machine supports.

`probe` tries each mechanism in a separate process, so its answer holds for this user in this container. `LocalSandbox`
does not rely on it: it sets up the mechanisms of its level and refuses to run if one fails.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast, get_args

from rstar.errors import SandboxError
from rstar.sandbox import channel
from rstar.sandbox.jail.paths import search_path
from rstar.sandbox.parent.spawn import spawn

Level = Literal["full", "no-namespaces", "limits"]
"""Strongest first; `isolation` describes what each covers."""

MechanismName = Literal["namespaces", "landlock", "seccomp", "rlimits"]

LEVELS: dict[Level, tuple[MechanismName, ...]] = {
    "full": ("namespaces", "landlock", "seccomp", "rlimits"),
    "no-namespaces": ("landlock", "seccomp", "rlimits"),
    "limits": ("rlimits",),
}
"""Mechanisms of each level."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """Whether one mechanism works here, and if not, the `reason`."""

    name: MechanismName
    works: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Probed capabilities of this machine."""

    mechanisms: tuple[Mechanism, ...]

    def missing(self, level: Level) -> tuple[Mechanism, ...]:
        """Mechanisms of `level` that do not work here."""
        needed = LEVELS[level]
        return tuple(each for each in self.mechanisms if each.name in needed and not each.works)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Supported levels, strongest first."""
        return tuple(level for level in get_args(Level) if not self.missing(level))

    @property
    def strongest(self) -> Level | None:
        """The strongest supported level."""
        return next(iter(self.levels), None)


@cache
def probe() -> Capabilities:
    """Try every mechanism (about 0.2 s; the answer is cached).

    Raises:
        SandboxError: the probe process did not answer.
    """
    ours, theirs = channel.pair()
    with tempfile.TemporaryFile() as stderr, ours:
        process = spawn("rstar.sandbox.parent.probe", theirs, stderr)
        ours.settimeout(30)
        channel.send(ours, {"path": search_path()})
        try:
            received = channel.receive(ours)
        finally:
            process.kill()
            process.wait()
        stderr.seek(0)
        if received is None:
            raise SandboxError(f"the isolation mechanisms could not be tried: {stderr.read().decode(errors='replace')}")
    refusals = cast(dict[MechanismName, str | None], received[0])
    return Capabilities(tuple(Mechanism(name, reason is None, reason or "") for name, reason in refusals.items()))
