"""Values that need no model, the errors of all values, and the choice of the value of a run."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.config import Config
from rstar.errors import ConfigError, EngineError
from rstar.problems import Problem
from rstar.search.choose import Votes
from rstar.search.value import Agreement, Grounded, LogProb, Preference, Value, open_value, ppm_folder, value_name
from rstar.specs import Bundled, LocalModel, Ppm, parse_value
from rstar.trajectories import Segment, Step, Trajectory

PROBLEM, PROMPT = Problem("p", "q"), Segment("q", "template")
MASSES = st.lists(st.tuples(st.sampled_from("123"), st.floats(0.01, 1)), min_size=1, max_size=8)


def step(code: str, *logprobs: float) -> Step:
    return Step((Segment(code, "policy", (), logprobs or None),))


def solved(answer: str | None, *logprobs: float) -> Trajectory:
    return Trajectory(PROMPT, (step("x", *logprobs),), None if answer is None else "answer", answer)


def score(
    value: Value,
    trajectories: Sequence[Trajectory],
    problem: Problem = PROBLEM,
    answers: Sequence[str] = (),
    masses: Sequence[float] = (),
) -> list[float | None]:
    """The scores when `answers` were found before, each with the mass at its place, or 1."""

    async def run() -> list[float | None]:
        votes = Votes(lambda a, b: float(a) == float(b))
        await votes.count(
            (answer, 1, mass) for answer, mass in zip(answers, masses or [1.0] * len(answers), strict=True)
        )
        return list(await value.score(problem, trajectories, votes))

    return asyncio.run(run())


def test_agreement_is_the_share_of_equivalent_answers() -> None:
    found = [solved("2"), solved(None), solved("1.0")]
    expected = [pytest.approx(1 / 3), None, pytest.approx(2 / 3)]
    assert score(Agreement(), found, answers=["1", "2", "1.00"]) == expected


def test_agreement_with_no_answer_yet_is_zero() -> None:
    assert score(Agreement(), [solved("1")]) == [0.0]


@given(MASSES)
def test_agreement_weighs_answers_by_mass(found: list[tuple[str, float]]) -> None:
    answers, masses = zip(*found, strict=True)
    shares = score(Agreement(), [solved(answer) for answer in dict.fromkeys(answers)], answers=answers, masses=masses)
    assert all(share is not None and 0 < share <= 1 + 1e-9 for share in shares)
    assert sum(share or 0 for share in shares) == pytest.approx(1)


def test_grounded_solutions_use_the_numbers_of_the_question() -> None:
    problem = Problem("p", "Ann, 12 years old, has 1,500 cents and pays 2.50 dollars for 3x + 12. How much?")
    shares = {
        "x3 = 1500 - 2.5 * 3\nprint(12)": 1.0,
        "# 12\nx = 1500 - 2.50 * 3": 1 / 4,
        "x = f(1,500) + 3": 1 / 4**3,
        "x12 = 1": 1 / 4**4,
        "x = '#' + f(1_500, 3, 12, 2.5)": 1.0,
        "x = 1500 * 0.12 - .03 * 2.5": 1.0,
        "x = 1500 * 2.5 * 3 * 0.012": 1 / 4,
    }
    found = [Trajectory(PROMPT, (step("x\n"), step(code)), "answer", "1") for code in shares]

    assert score(Grounded(), [*found, solved(None)], problem, answers=["1"]) == [
        *map(pytest.approx, shares.values()),
        None,
    ]


def test_grounded_without_numbers_in_the_question_is_agreement() -> None:
    found = [solved("1"), solved("2"), solved(None)]
    assert score(Grounded(), found, answers=["1", "1", "2"]) == score(Agreement(), found, answers=["1", "1", "2"])


@given(st.lists(st.floats(-50, 0), min_size=1, max_size=5), st.floats(0.01, 50))
def test_logprob_ranks_by_the_sum_of_logprobs(logprobs: list[float], less: float) -> None:
    likely, unlikely = score(LogProb(), [solved("1", *logprobs), solved(None, *logprobs, -less)])
    assert likely is not None
    assert unlikely is not None
    assert likely == pytest.approx(1 / (1 - sum(logprobs)))
    assert 1 >= likely > unlikely > 0


def test_logprob_needs_logprobs() -> None:
    with pytest.raises(EngineError, match="value 'logprob' needs log-probabilities"):
        score(LogProb(), [solved("1", -1.0), solved("1")])


def test_a_ppm_needs_a_model_folder(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    for build in (Preference, lambda folder: open_value(Ppm(LocalModel(str(folder))))):
        with pytest.raises(ConfigError, match=rf"value ppm:{missing}"):
            build(missing)


def test_a_ppm_loads_when_it_first_scores(tmp_path: Path) -> None:
    """So a damaged one is an error of the first score, and of each later one."""
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    value = Preference(tmp_path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=str(tmp_path)):
            score(value, [solved("1", -1.0)])


@pytest.mark.parametrize("rule", [Agreement, Grounded, LogProb])
def test_rules_are_opened_by_name(rule: type[Value]) -> None:
    opened = open_value(parse_value(rule.name))
    assert type(opened) is rule
    assert ppm_folder(parse_value(rule.name)) is None
    assert score(opened, []) == []


def test_auto_is_resolved_before_a_value_is_opened() -> None:
    beam = Config(search={"method": "beam"})
    assert value_name(beam) == Ppm(Bundled())
    assert value_name(beam, own_policy=True) == "agreement"
    with pytest.raises(KeyError):
        open_value("auto")
