"""Work-ups: every case has one answer, needs what it says it needs, and does not give itself away."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.tiny.family import LEVELS
from rstar.tiny.workup import Case, draw_case, draw_cases, stage_rewards

CASES = st.builds(lambda seed, level: draw_case(random.Random(seed), level), st.integers(0), st.sampled_from(LEVELS))


def record(case: Case, *left_out: str) -> dict[str, str]:
    return {query: finding for query, finding in (case.topics | case.tests).items() if query not in left_out}


@given(CASES)
def test_exactly_one_condition_fits_all_findings(case: Case) -> None:
    assert case.fitting(record(case)) == [case.diagnosis]
    assert len(case.conditions) > 3


@given(CASES)
def test_the_needed_topics_and_tests_are_enough(case: Case) -> None:
    history = {topic: case.topics[topic] for topic in case.needed_topics}
    assert case.fitting(history) == case.fitting(case.topics)
    results = {test: case.tests[test] for test in case.needed_tests}
    assert case.fitting(history | results) == [case.diagnosis]


@given(CASES)
def test_each_of_them_is_needed(case: Case) -> None:
    assert case.needed_topics
    assert case.needed_tests
    for topic in case.needed_topics:
        others = {name: finding for name, finding in case.topics.items() if name != topic}
        assert len(case.fitting(others)) > len(case.fitting(case.topics))
    for test in case.needed_tests:
        assert len(case.fitting(record(case, test))) > 1


@given(CASES, st.randoms())
def test_every_condition_of_a_table_can_be_the_diagnosis(case: Case, rng: random.Random) -> None:
    """The record of another condition makes an equally good case with the same text."""
    other = rng.choice(list(case.conditions))
    required = case.conditions[other]
    moved = replace(
        case,
        topics={topic: required.get(topic, finding) for topic, finding in case.topics.items()},
        tests={test: required.get(test, finding) for test, finding in case.tests.items()},
        diagnosis=other,
    )
    assert moved.question() == case.question()
    test_exactly_one_condition_fits_all_findings.hypothesis.inner_test(moved)
    test_the_needed_topics_and_tests_are_enough.hypothesis.inner_test(moved)
    test_each_of_them_is_needed.hypothesis.inner_test(moved)


@given(CASES)
def test_only_the_key_holds_the_diagnosis(case: Case) -> None:
    row = case.row("one")
    assert row.pop("answer") == case.diagnosis
    assert row.pop("check")["diagnosis"] == case.diagnosis
    assert row.pop("question") == case.question()
    assert not any(name in str(row) for name in case.conditions)
    assert set(row["record"]["topics"]) > set(case.needed_topics), "some topics are not needed"
    assert set(row["record"]["tests"]) > set(case.needed_tests), "some tests are not needed"


def test_the_diagnosis_has_no_favourite_line() -> None:
    lines = [list(case.conditions).index(case.diagnosis) for case in draw_cases(400, 5, [1])]
    assert all(60 < lines.count(line) < 140 for line in range(4))


def test_cases_repeat_by_seed_and_a_longer_set_begins_with_the_shorter() -> None:
    rows = [case.row("") for case in draw_cases(20, 3, [1, 4])]
    assert [case.row("") for case in draw_cases(12, 3, [1, 4])] == rows[:12]
    assert [row["level"] for row in rows] == [1, 4] * 10
    assert rows != [case.row("") for case in draw_cases(20, 4, [1, 4])]


@pytest.mark.parametrize(
    ("asked", "ordered", "stages"),
    [
        (["a", "b"], ["x"], (1.0, 1.0)),
        (["b", "a", "c"], ["x"], (1.0, 1.0)),
        (["a"], ["x", "y"], (0.5, 0.5)),
        ([], ["y", "z"], (0.0, 0.0)),
        ([], [], (0.0, 0.0)),
    ],
)
def test_stages_are_rewarded_apart(asked: list[str], ordered: list[str], stages: tuple[float, float]) -> None:
    for right in (False, True):
        found = stage_rewards(["a", "b"], ["x"], asked, ordered, right=right)
        assert found == (*stages, float(right))
        assert (found.total > 0) == right
        assert -0.5 <= found.total <= 1
    assert stage_rewards(["a"], ["x"], ["a"], ["x"], right=True).total == 1.0
    assert stage_rewards(["a"], ["x"], ["a"], ["x"], right=False).total == 0.0
