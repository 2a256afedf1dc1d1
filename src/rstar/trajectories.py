"""The record of a solution attempt, shared by search, training data, evaluation and the viewer.

A trajectory is a prompt followed by segments. Each segment has one author: the policy wrote it, a tool returned it, or
a template inserted it. Invariant: where the engine knows token ids, the concatenated ids of the prompt and all segments
are exactly what the model saw. Segments of different authors are never joined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Literal, NamedTuple

Author = Literal["policy", "tool", "template"]

FinishReason = Literal[
    "answer", "no_answer", "gave_up", "code_error", "no_step", "too_deep", "length", "repeated", "deadline"
]
"""Why a trajectory ended. ``answer``: with an answer. ``no_answer``: the last step has none. ``gave_up``: an agent said
that it has none. ``code_error``: too many failed steps in a row. ``no_step``: the model ended the text, or wrote no
step. ``too_deep``: too many steps. ``length``: the step or the context was full. ``repeated``: an agent repeated calls
that had failed. ``deadline``: its time was up."""


class Segment(NamedTuple):
    """A piece of text with one author.

    Attributes:
        text: as the model saw or wrote it.
        author: who wrote it.
        ids: its token ids; empty if the engine does not know them.
        logprobs: natural log-probability of each token under the policy; None if unknown, and for other authors.
    """

    text: str
    author: Author
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None

    def to_json(self, tokens: bool) -> dict[str, Any]:
        """JSON form; with `tokens`, including ids and log-probabilities (to five decimals)."""
        row: dict[str, Any] = {"author": self.author, "text": self.text}
        if tokens:
            row["ids"] = list(self.ids)
            if self.logprobs is not None:
                row["logprobs"] = list(map(round, self.logprobs, repeat(5)))
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Segment:
        """Inverse of `to_json`. Raises `LookupError`, `TypeError` or `ValueError` for a malformed row."""
        text, author, logprobs = row["text"], row["author"], row.get("logprobs")
        if author not in ("policy", "tool", "template"):
            raise ValueError(f"author {author!r}")
        if not text.isascii():
            text.encode()  # raises for a lone surrogate, which cannot be written
        if logprobs is not None:
            logprobs = tuple(logprobs)
            if not math.isfinite(sum(logprobs)):
                raise ValueError("a log-probability that is not finite")
        return cls(text, author, tuple(row.get("ids", ())), logprobs)


class ToolCall(NamedTuple):
    """A tool call of an agent's turn, and how it went.

    Attributes:
        name: of the tool; empty if the call could not be read.
        arguments: as the model wrote them, JSON data.
        status: how it ended; see `rstar.agent.tools.ToolStatus`.
        response: what the model was shown.
    """

    name: str
    arguments: Mapping[str, Any]
    status: str
    response: str


class Step(NamedTuple):
    """One step: the policy's text, the result of running it, and what followed before the next step.

    Attributes:
        segments: the sampled step; then, if any, the tool's output and the answer that the policy wrote after it. The
            opening of an action (`rstar.search.actions`), a template, may come first.
        status: sandbox status of its code; None if nothing ran.
        error: ``Type: message (line n)`` of a failed run.
        values: name and value of variables newly bound by its code, if short.
        calls: tool calls of an agent's turn, in order.
        version: version of the weights that wrote it.
        action: name of the action in mutual reasoning; None for other methods.
    """

    segments: tuple[Segment, ...]
    status: str | None = None
    error: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    calls: tuple[ToolCall, ...] = ()
    version: int = 0
    action: str | None = None

    @property
    def written(self) -> Segment:
        """The sampled step, without what came before and after it."""
        return self.segments[self._place]

    @property
    def _place(self) -> int:
        """Index of the sampled step."""
        return int(self.segments[0].author == "template" and len(self.segments) > 1)

    @property
    def shown(self) -> str:
        """The text after the sampled step."""
        return "".join([segment.text for segment in self.segments[self._place + 1 :]])

    @property
    def text(self) -> str:
        """Text of all segments."""
        return "".join([segment.text for segment in self.segments])

    @property
    def ran(self) -> bool:
        """Whether its code, if any, ran without an error."""
        return self.status in ("ok", None)

    @property
    def lacks_logprobs(self) -> bool:
        """Whether the sampled step has no log-probabilities."""
        return bool(self.written.text) and not self.written.logprobs

    def to_json(self, tokens: bool) -> dict[str, Any]:
        """JSON form; `tokens`: see `Segment.to_json`."""
        row: dict[str, Any] = {
            "segments": [segment.to_json(tokens) for segment in self.segments],
            "status": self.status,
            "error": self.error,
        }
        if self.values:
            row["values"] = dict(self.values)
        if self.calls:
            row["calls"] = [call._asdict() for call in self.calls]
        if self.version:
            row["version"] = self.version
        return row if self.action is None else row | {"action": self.action}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Step:
        """Inverse of `to_json`. Raises `LookupError`, `TypeError`, `AttributeError` or `ValueError` if malformed."""
        segments = tuple(map(Segment.from_json, row["segments"]))
        if not segments:
            raise ValueError("a step without segments")
        values = tuple(row["values"].items()) if "values" in row else ()
        calls, version = tuple(ToolCall(**call) for call in row.get("calls", ())), row.get("version", 0)
        return cls(segments, row.get("status"), row.get("error"), values, calls, version, row.get("action"))


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A solution attempt from the prompt to its end.

    Attributes:
        prompt: the model's input.
        steps: in order.
        finish_reason: why it ended; None: still open.
        answer: final answer, if `finish_reason` is ``answer``.
        value: the search's value of it (higher is better); None if not scored.
        votes: number of identical samples it represents.
        mass: estimated probability that the policy ends here: by its log-probabilities (`rstar.search.choose.masses`),
            or the share of samples that took each step, multiplied over the steps. Independent samples have equal
            masses.
    """

    prompt: Segment
    steps: tuple[Step, ...]
    finish_reason: FinishReason | None
    answer: str | None = None
    value: float | None = None
    votes: int = 1
    mass: float = 1.0

    @property
    def segments(self) -> Iterator[Segment]:
        """All segments after the prompt, in order."""
        return (segment for step in self.steps for segment in step.segments)

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids of the prompt and all segments, as the model saw them."""
        return self.prompt.ids + tuple(token for segment in self.segments for token in segment.ids)

    @property
    def text(self) -> str:
        """The solution as the model saw it, without the prompt."""
        return "".join([segment.text for step in self.steps for segment in step.segments])

    @property
    def logprob(self) -> float:
        """Sum of the natural log-probabilities of the sampled steps. Answers that copy the output are not sampled."""
        return sum(sum(step.written.logprobs or ()) for step in self.steps)

    @property
    def lacks_logprobs(self) -> bool:
        """Whether a sampled step has no log-probabilities."""
        return any(step.lacks_logprobs for step in self.steps)

    def turns(self) -> list[str]:
        """The text in turns, alternating between the policy (first) and all other authors."""
        turns: list[str] = []
        policy = False
        for segment in self.segments:
            if turns and (segment.author == "policy") == policy:
                turns[-1] += segment.text
            else:
                turns.append(segment.text)
            policy = segment.author == "policy"
        return turns

    def record(self) -> dict[str, Any]:
        """The form stored in ``results.jsonl``."""
        return {
            "text": self.text,
            "finish": self.finish_reason,
            "answer": self.answer,
            "value": None if self.value is None else round(self.value, 6),
            "logprob": round(self.logprob, 4),
            "votes": self.votes,
            "mass": float(f"{self.mass:.6g}"),
            "error": next((step.error for step in reversed(self.steps) if step.error), None),
        }


def answered(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """The trajectories that reached an answer, in order."""
    return [trajectory for trajectory in trajectories if trajectory.answer is not None]
