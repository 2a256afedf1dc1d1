"""Work-ups: staged problems of the clinical kind. A history, then tests, then a diagnosis.

A case states a table of conditions and the findings that each of them requires. Behind it lies a record: the finding of
every topic of the history and of every test. A solver does not see the record. It asks about topics, orders tests, and
names the condition. So the domain is closed: the table and the record decide the answer, and `stage_rewards` checks
every stage. Conditions, tests and findings are invented, and no case describes a patient.

The table is made of the leaves of a decision tree that branches on topics first and on tests below. A condition
requires the findings on the path to its leaf; all other findings may be anything. Every finding of a topic or test has
a branch, which has three consequences:

* Whatever the record, exactly one condition fits all of it.
* Exactly the topics and tests on that condition's path are needed. Without one of them, the branch of another finding
  would also hold a condition that fits.
* Every condition of a table can be the diagnosis, so the table alone says nothing about it.

This module generates and verifies. How an agent reaches the record is `rstar.agent.workup`'s matter.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rstar.seeds import derive

FAMILY = "workup"

_SHAPES = {1: (1, 2, 1, 2), 2: (1, 3, 1, 2), 3: (2, 2, 1, 2), 4: (2, 2, 1, 3), 5: (2, 2, 2, 2)}
"""Level → needed topics and findings of each, needed tests and findings of each."""

_SPARE_TOPICS, _SPARE_TESTS = 2, 3
"""Topics and tests on offer, beyond the number that a case needs."""

_COMPLAINTS = ("fatigue", "a headache", "dizziness", "weight loss", "a tremor", "back pain", "fainting", "chills")
_TOPICS = {
    "travel": ("none", "coast", "highlands"),
    "diet": ("mixed", "raw fish", "no meat"),
    "sleep": ("sound", "broken", "none"),
    "work": ("farm", "mine", "office"),
    "family": ("no illness", "same illness", "unknown"),
    "onset": ("sudden", "slow", "in waves"),
    "pain": ("none", "dull", "sharp"),
}
_TESTS = {
    "ferrax level": ("low", "normal", "high"),
    "opal stain": ("pale", "blue", "violet"),
    "tern reflex": ("weak", "brisk", "absent"),
    "marl count": ("low", "normal", "high"),
    "quill culture": ("clear", "cloudy", "grown"),
    "sedra scan": ("clear", "striped", "dense"),
    "brine patch": ("flat", "raised", "dry"),
    "lumen trace": ("even", "broken", "doubled"),
}
_STARTS = (
    "Bren", "Cald", "Dor", "Fen", "Gral", "Hes", "Jor", "Kel", "Lorn", "Mav", "Nor", "Orl", "Pel", "Quen", "Rud",
    "Sorb", "Tesk", "Varn",
)  # fmt: skip
_ENDS = ("ack", "eld", "ic", "in", "old", "ova", "une")
_KINDS = ("fever", "syndrome", "ague", "palsy")


@dataclass(frozen=True, slots=True)
class Case:
    """A case.

    Attributes:
        level: difficulty, 1 to 5.
        complaint: why the patient comes; says nothing about the diagnosis.
        conditions: name → the findings that it requires, by topic or test.
        topics: topic of the history → the recorded finding.
        tests: test → the recorded finding.
        diagnosis: the one condition that fits all recorded findings.
    """

    level: int
    complaint: str
    conditions: Mapping[str, Mapping[str, str]]
    topics: Mapping[str, str]
    tests: Mapping[str, str]
    diagnosis: str

    def fitting(self, findings: Mapping[str, str]) -> list[str]:
        """The conditions that require nothing else than these `findings`, by topic or test; others are unknown."""
        return [
            name
            for name, required in self.conditions.items()
            if all(findings.get(query, finding) == finding for query, finding in required.items())
        ]

    @property
    def needed_topics(self) -> list[str]:
        """The topics without which the history would leave more conditions open."""
        return [name for name in self.topics if name in self.conditions[self.diagnosis]]

    @property
    def needed_tests(self) -> list[str]:
        """The tests that are needed, besides the history, to leave a single condition."""
        return [name for name in self.tests if name in self.conditions[self.diagnosis]]

    def question(self) -> str:
        """The problem's text: the table and what can be asked and ordered, but no recorded finding."""
        lines = [f"A patient comes with {self.complaint}. One of these conditions is the cause:"]
        for name, required in self.conditions.items():
            lines.append(f"- {name} ({'; '.join(f'{query}: {finding}' for query, finding in required.items())})")
        lines += [
            "A condition requires the findings in its line; all other findings can be anything.",
            f"History, with ask(topic): {', '.join(self.topics)}.",
            f"Tests, with order(test): {', '.join(self.tests)}.",
            "The history ends with the first test. Ask and order only what is needed. Which condition is the cause?",
        ]
        return "\n".join(lines)

    def row(self, name: str) -> dict[str, Any]:
        """Line of a problem file with the id `name`. The diagnosis is in the gold answer and its check only."""
        return {
            "id": name,
            "question": self.question(),
            "answer": self.diagnosis,
            "family": FAMILY,
            "level": self.level,
            "record": {"topics": dict(self.topics), "tests": dict(self.tests)},
            "check": {
                "kind": FAMILY,
                "diagnosis": self.diagnosis,
                "topics": self.needed_topics,
                "tests": self.needed_tests,
            },
        }


def draw_case(rng: random.Random, level: int) -> Case:
    """Draw a case of a level from 1 to 5."""
    topic_depth, topic_arity, test_depth, test_arity = _SHAPES[level]
    topics = _offered(rng, _TOPICS, topic_depth + _SPARE_TOPICS, topic_arity)
    tests = _offered(rng, _TESTS, test_depth + _SPARE_TESTS, test_arity)
    paths = [
        history | rest for history in _leaves(rng, topics, topic_depth) for rest in _leaves(rng, tests, test_depth)
    ]
    rng.shuffle(paths)
    names = [f"{start}{rng.choice(_ENDS)} {rng.choice(_KINDS)}" for start in rng.sample(_STARTS, len(paths))]
    conditions = {
        name: {query: path[query] for query in (*topics, *tests) if query in path}
        for name, path in zip(names, paths, strict=True)
    }
    diagnosis = rng.choice(list(conditions))
    record = {query: rng.choice(findings) for query, findings in (topics | tests).items()} | conditions[diagnosis]
    return Case(
        level,
        rng.choice(_COMPLAINTS),
        conditions,
        {topic: record[topic] for topic in topics},
        {test: record[test] for test in tests},
        diagnosis,
    )


def draw_cases(n: int, seed: int, levels: Sequence[int]) -> Iterator[Case]:
    """Draw `n` cases, with equal shares of the levels; case i depends on (seed, levels, i) alone."""
    for i in range(n):
        level = levels[i % len(levels)]
        yield draw_case(random.Random(derive(seed, FAMILY, level, i)), level)


def _offered(
    rng: random.Random, known: Mapping[str, tuple[str, ...]], many: int, arity: int
) -> dict[str, tuple[str, ...]]:
    """Topics or tests, each with `arity` possible findings."""
    return {name: tuple(rng.sample(known[name], arity)) for name in rng.sample(list(known), many)}


def _leaves(
    rng: random.Random, queries: Mapping[str, tuple[str, ...]], depth: int, path: Mapping[str, str] | None = None
) -> Iterator[dict[str, str]]:
    """The paths of a random decision tree: at each node a query that is not above it, with a branch per finding."""
    path = path or {}
    if not depth:
        yield dict(path)
        return
    query = rng.choice([name for name in queries if name not in path])
    for finding in queries[query]:
        yield from _leaves(rng, queries, depth - 1, {**path, query: finding})


class StageRewards(NamedTuple):
    """The reward of each stage, in [0, 1].

    Attributes:
        history: share of the needed topics that were asked about. Asking about more costs nothing.
        tests: the needed tests that were ordered, as a share of all tests that were needed or ordered.
        diagnosis: 1 for the right condition, else 0.
    """

    history: float
    tests: float
    diagnosis: float

    @property
    def total(self) -> float:
        """The reward of the whole, in [-0.5, 1]: at most 0 for a wrong diagnosis, at least 0.5 for the right one.

        So its sign says whether the diagnosis is right, and its size how well the case was worked up.
        """
        return (self.history + self.tests) / 4 + self.diagnosis - 0.5


def stage_rewards(
    needed_topics: Collection[str],
    needed_tests: Collection[str],
    asked: Collection[str],
    ordered: Collection[str],
    *,
    right: bool,
) -> StageRewards:
    """Verify the stages of a work-up.

    Args:
        needed_topics, needed_tests: see `Case`; neither is empty.
        asked, ordered: topics and tests that the solver chose.
        right: whether it named the right condition.

    >>> stage_rewards(["travel"], ["marl count"], ["travel", "diet"], ["marl count", "opal stain"], right=True)
    StageRewards(history=1.0, tests=0.5, diagnosis=1.0)
    """
    topics, tests = set(needed_topics), set(needed_tests)
    history = len(topics & set(asked)) / len(topics)
    return StageRewards(history, len(tests & set(ordered)) / len(tests | set(ordered)), float(right))
