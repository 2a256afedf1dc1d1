"""The tools of a work-up: ask about the history, then order tests. Both look up what is recorded for the case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from rstar.agent.calls import Call
from rstar.agent.tools import Session, Tool, ToolResult, bad_call, refused
from rstar.errors import DataError
from rstar.problems import Problem
from rstar.trajectories import Trajectory

ASK = Tool(
    "ask",
    "Asks the patient about a topic of the history and returns the answer. The history ends with the first test.",
    {"topic": "The topic, as the problem names it."},
)
ORDER = Tool("order", "Orders a test and returns its result.", {"test": "The test, as the problem names it."})
WORKUP_TOOLS = (ASK, ORDER)


class Record(NamedTuple):
    """What is recorded for a case: finding by topic, and by test. See `rstar.tiny.workup`."""

    topics: Mapping[str, str]
    tests: Mapping[str, str]

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """The record of a problem. Raises `DataError` if it has none, or a malformed one."""
        parts = []
        for name in cls._fields:
            part = problem.record.get(name)
            if not isinstance(part, dict) or not all(isinstance(finding, str) for finding in part.values()):
                raise DataError(f"environment 'workup': problem {problem.id!r} has no record of its {name}")
            parts.append({plain_name(query): finding for query, finding in part.items()})
        return cls(*parts)


class WorkupSession:
    """A work-up at one moment.

    Args:
        record: of the case.
        tested: a test has been ordered, so the history is over.
    """

    def __init__(self, record: Record, *, tested: bool = False) -> None:
        self._record, self._tested = record, tested

    async def call(self, call: Call) -> tuple[Session, ToolResult]:
        """See `Session.call`."""
        if (reason := bad_call(WORKUP_TOOLS, call)) is not None:
            return self, refused(reason)
        asks = call.name == ASK.name
        if asks and self._tested:
            return self, refused("the history ended with the first test")
        kind, findings = ("topic", self._record.topics) if asks else ("test", self._record.tests)
        name = plain_name(call.arguments[kind])
        if name not in findings:
            return self, refused(f"there is no {kind} {name!r}; the {kind}s are {', '.join(findings)}")
        after = self if self._tested or asks else WorkupSession(self._record, tested=True)
        return after, ToolResult(f"{name}: {findings[name]}")

    def release(self) -> None:
        """See `Session.release`; a work-up holds nothing."""


def made(trajectory: Trajectory, tool: Tool) -> Sequence[str]:
    """What a trajectory asked about (`ASK`) or ordered (`ORDER`), without the calls that were refused."""
    (parameter,) = tool.parameters
    calls = [call for step in trajectory.steps for call in step.calls if (call.name, call.status) == (tool.name, "ok")]
    return [plain_name(call.arguments[parameter]) for call in calls]


def plain_name(name: str) -> str:
    """The form in which names of topics and tests are compared: lower case, single spaces."""
    return " ".join(name.lower().split())
