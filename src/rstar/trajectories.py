"""The one record of a solution attempt; search, training data, evaluation and the viewer all read it.

A trajectory is a prompt and then segments in order. A segment has one author: the policy wrote it, a tool returned it,
or a template put it there. Invariant: where the engine knows token ids, the ids of the prompt and of all segments, put
one after the other, are exactly what the model saw. Nothing is joined that somebody would have to cut apart later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Author = Literal["policy", "tool", "template"]

Ending = Literal["answer", "no_answer", "code_error", "no_step", "too_deep", "length"]
"""How a trajectory ended. ``answer``: with an answer. ``no_answer``: the last step holds none. ``code_error``: too many
failed steps in a row. ``no_step``: the model ended the text, or wrote no step. ``too_deep``: too many steps.
``length``: the step, or the context, was full."""


class Segment(NamedTuple):
    """A piece of text with one author.

    Attributes:
        text: as the model saw or wrote it.
        author: who wrote it.
        ids: its token ids; empty where the engine does not know them.
        logprobs: natural log-probability of each token under the policy; None where unknown, and for other authors.
    """

    text: str
    author: Author
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None

    def plain(self, tokens: bool) -> dict[str, Any]:
        """For JSON; with `tokens` also ids and log-probabilities (to five decimals)."""
        row: dict[str, Any] = {"author": self.author, "text": self.text}
        if tokens:
            row["ids"] = list(self.ids)
            if self.logprobs is not None:
                row["logprobs"] = [round(one, 5) for one in self.logprobs]
        return row

    @classmethod
    def of_plain(cls, row: Mapping[str, Any]) -> Segment:
        """What `plain` made. Raises `LookupError`, `TypeError` or `ValueError` for anything else."""
        text, author, logprobs = row["text"], row["author"], row.get("logprobs")
        if author not in ("policy", "tool", "template"):
            raise ValueError(f"author {author!r}")
        text.encode()  # a lone surrogate could not be written again
        if logprobs is not None and not all(map(math.isfinite, logprobs)):
            raise ValueError("a log-probability that is not finite")
        return cls(text, author, tuple(row.get("ids", ())), None if logprobs is None else tuple(logprobs))


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what the policy wrote, what running it gave, and what followed before the next step.

    Attributes:
        segments: the step itself, which the policy sampled; then, where there are any, the tool's output and the answer
            that the policy wrote after it.
        status: the sandbox's status of its code, None when nothing was run.
        error: ``Type: message (line n)`` of a failed run.
        values: name and value of the variables that its code bound anew, as far as they are short.
    """

    segments: tuple[Segment, ...]
    status: str | None = None
    error: str | None = None
    values: tuple[tuple[str, str], ...] = ()

    @property
    def written(self) -> Segment:
        """The step itself, without what followed."""
        return self.segments[0]

    @property
    def shown(self) -> str:
        """The text that followed the step itself."""
        return "".join(segment.text for segment in self.segments[1:])

    @property
    def text(self) -> str:
        """All text."""
        return "".join(segment.text for segment in self.segments)

    @property
    def ran(self) -> bool:
        """Whether its code ran without an error, if it has any."""
        return self.status in ("ok", None)

    @property
    def lacks_logprobs(self) -> bool:
        """Whether the policy did not tell the log-probabilities of the step itself."""
        return bool(self.written.text) and not self.written.logprobs

    def plain(self, tokens: bool) -> dict[str, Any]:
        """For JSON; `tokens`: see `Segment.plain`."""
        row: dict[str, Any] = {
            "segments": [segment.plain(tokens) for segment in self.segments],
            "status": self.status,
            "error": self.error,
        }
        return row | ({"values": dict(self.values)} if self.values else {})

    @classmethod
    def of_plain(cls, row: Mapping[str, Any]) -> Step:
        """What `plain` made. Raises `LookupError`, `TypeError`, `AttributeError` or `ValueError` for anything else."""
        segments = tuple(map(Segment.of_plain, row["segments"]))
        if not segments:
            raise ValueError("a step without segments")
        return cls(segments, row.get("status"), row.get("error"), tuple(row.get("values", {}).items()))


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A solution attempt from the prompt to where it ended.

    Attributes:
        prompt: what the model was given.
        steps: in order.
        ending: how it ended; None: it goes on.
        answer: the final answer, when `ending` is ``answer``.
        value: what the search's value says of it (higher is better), None when it was not scored.
        votes: how many identical samples it stands for.
        mass: how likely the policy is to end here, as far as its samples tell: the share of the samples that went this
            way at each step, multiplied. The masses of independent samples are equal.
    """

    prompt: Segment
    steps: tuple[Step, ...]
    ending: Ending | None
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
        """Token ids of the prompt and all segments: what the model saw."""
        return self.prompt.ids + tuple(token for segment in self.segments for token in segment.ids)

    @property
    def text(self) -> str:
        """The whole solution as the model saw it, without the prompt."""
        return "".join(segment.text for segment in self.segments)

    @property
    def logprob(self) -> float:
        """Sum of the log-probabilities of the steps, natural log. An answer that copies output is not sampled."""
        return sum(sum(step.written.logprobs or ()) for step in self.steps)

    @property
    def lacks_logprobs(self) -> bool:
        """Whether the policy did not tell the log-probabilities of a step."""
        return any(step.lacks_logprobs for step in self.steps)

    def turns(self) -> list[str]:
        """The text by turns, what the policy wrote first: neighbours of one author count as one turn."""
        found: list[str] = []
        policy = False
        for segment in self.segments:
            if found and (segment.author == "policy") == policy:
                found[-1] += segment.text
            else:
                found.append(segment.text)
            policy = segment.author == "policy"
        return found

    def record(self) -> dict[str, Any]:
        """The form in which it is kept in ``results.jsonl``."""
        return {
            "text": self.text,
            "finish": self.ending,
            "answer": self.answer,
            "value": None if self.value is None else round(self.value, 6),
            "logprob": round(self.logprob, 4),
            "votes": self.votes,
            "mass": round(self.mass, 6),
            "error": next((step.error for step in reversed(self.steps) if step.error), None),
        }


def answered(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that reached an answer, in order."""
    return [trajectory for trajectory in trajectories if trajectory.answer is not None]
