import asyncio
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.config import Config
from rstar.search.choose import COVERED, Group, Votes, choose, choose_as_set, decided, masses
from rstar.trajectories import Segment, Step, Trajectory

PROMPT = Segment("q", "template")


def same(a: str, b: str) -> bool:
    return Fraction(a) == Fraction(b)


def trajectory(answer: str | None, value: float | None = None, mass: float = 1.0) -> Trajectory:
    step = Step((Segment("x", "policy"),))
    return Trajectory(PROMPT, (step,), "answer" if answer is not None else "code_error", answer, value, mass=mass)


def chosen(trajectories: list[Trajectory], how: str, top_k: int | None = None) -> str | None:
    found = asyncio.run(choose(trajectories, how, same, top_k))  # type: ignore[arg-type]
    return found.answer if found else None


def test_ways_to_choose() -> None:
    found = [
        trajectory("3", 0.9),
        trajectory("1/2", 0.4),
        trajectory("0.5", 0.5),
        trajectory(None, 1.0),
        trajectory("7", -0.9, mass=3.0),
    ]
    assert chosen(found, "best") == "3"
    assert chosen(found, "majority") == "7"
    assert chosen(found, "weighted") == "0.5", "1/2 and 0.5 are one answer; the better valued form stands for it"
    assert chosen(found, "majority", top_k=3) == "0.5"
    assert chosen([trajectory(None)], "best") is None
    assert chosen([], "majority") is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=20), st.randoms())
def test_majority_has_the_most_mass_whatever_the_order(drawn: list[tuple[int, int]], random: object) -> None:
    found = [trajectory(str(answer), mass=mass) for answer, mass in drawn]
    random.shuffle(found)  # type: ignore[attr-defined]
    winner = chosen(found, "majority")
    count = {a: sum(v for b, v in drawn if b == a) for a, _ in drawn}
    assert winner is not None
    assert count[int(winner)] == max(count.values())


def test_votes() -> None:
    async def run() -> None:
        votes = Votes(same)
        assert votes.leader() is None
        assert not votes.settled(0.5, 1)
        found = [("3", 9, 0.25), ("1/2", 1, 0.5), ("0.5", 1, 0.125), ("0.50", 1, 0.125)]
        for known in range(1, 5):  # counted anew each time, not on top
            await votes.count(found[:known])
        leader = votes.leader()
        assert leader is not None
        assert (leader.answer, leader.votes, leader.mass, votes.total) == ("1/2", 3, 0.75, 1.0)
        assert await votes.share("0.500") == 0.75
        assert votes.settled(0.75, 3)
        assert not votes.settled(0.75, 4)
        assert not votes.settled(0.76, 3)

    asyncio.run(run())


def test_equivalent_answers_that_come_at_once_are_one_group() -> None:
    async def groups() -> list[str]:
        votes = Votes(lambda a, b: time.sleep(0.002) is None and abs(float(a) - float(b)) < 1e-9)
        await asyncio.gather(*(votes.group(answer) for answer in ("7", "0.5", ".5", "0.50", "7.0", "0.500")))
        return [group.answer for group in votes.groups]

    assert asyncio.run(groups()) == ["7", "0.5"]


SHARE = st.floats(0, 1)


@given(st.lists(st.tuples(st.floats(0, 0.1), SHARE), max_size=8))
def test_masses_are_the_probabilities_of_what_was_found_unless_that_is_little(found: list[tuple[float, float]]) -> None:
    exact = [probability for probability, _ in found]
    assert masses(list(found)) == (exact if sum(exact) >= COVERED else [share for _, share in found])


@given(st.lists(st.tuples(st.none() | SHARE, SHARE), min_size=1, max_size=8))
def test_masses_are_shares_of_samples_where_a_probability_is_unknown(found: list[tuple[float | None, float]]) -> None:
    shares = [share for _, share in found]
    assert masses([*found, (None, 0.5)]) == [*shares, 0.5]


@pytest.mark.parametrize(
    ("method", "value", "answer"),
    [
        ("mcts", "ppm", "2"),
        ("beam", "ppm", "2"),
        ("mcts", "agreement", "1"),
        ("best-of-n", "ppm", "1"),
        ("sample", "ppm", "2"),
    ],
)
def test_a_tree_weighs_the_values_of_a_ppm_by_probability(method: str, value: str, answer: str) -> None:
    """ "1" has the highest value, "2" nearly the same value and nine times the probability."""
    found = [trajectory("1", 0.9, mass=0.1), trajectory("2", 0.8, mass=0.9)]
    config = Config(search={"method": method}).search
    best = asyncio.run(choose_as_set(found, config, value, same))
    assert best is not None
    assert best.answer == answer


WEIGHED = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20), st.sampled_from([0.25, 0.5, 1.0])), max_size=6)


@given(WEIGHED, st.integers(0, 20), st.integers(0, 4))
def test_an_answer_is_decided_if_no_other_can_get_more(
    found: list[tuple[int, int, float]], unseen: int, winner: int
) -> None:
    """Whatever gets all of the rest; probabilities are multiples of 1/256, so sums are exact."""
    groups = [Group(str(number)) for number in range(5)]
    weighed = [(groups[number], share / 256, factor) for number, share, factor in found]
    sums = [sum(share * factor for number, share, factor in found if number == one) for one in range(5)]
    if decided(weighed, unseen / 256):
        leader = max(range(5), key=lambda one: sums[one])
        sums[winner] += unseen
        assert max(range(5), key=lambda one: sums[one]) == leader
    else:
        first, second = sorted(sums, reverse=True)[:2]
        assert second + unseen >= first
