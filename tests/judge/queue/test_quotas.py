"""A client may have as much as is still free."""

from hypothesis import given
from hypothesis import strategies as st

from rstar.judge.queue.quotas import ClientQuotas

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30)), max_size=80)


@given(STEPS, st.integers(0, 300))
def test_whoever_comes_later_finds_some(steps: list[tuple[str, int]], total: int) -> None:
    shares, held = ClientQuotas(total), dict.fromkeys("abc", 0)
    for client, amount in steps:
        if shares.take(client, amount):
            held[client] += amount
        assert {name: shares.held(name) for name in "abc"} == held
        assert sum(held.values()) <= total
        half = (total - sum(held.values())) // 2
        assert shares.take("new", half)  # a new client may have half of what is left
        shares.add("new", -half)
    assert len([amount for amount in held.values() if amount > total / 2]) <= 1


def test_one_alone_has_half() -> None:
    shares = ClientQuotas(100)
    assert sum(shares.take("one") for _ in range(100)) == 50
    assert sum(shares.take("other") for _ in range(100)) == 25
    shares.add("one", -50)
    assert sum(shares.take("other") for _ in range(100)) == 25
    assert not shares.take("new", 26)
    assert shares.take("new", 25)


def test_one_of_one_can_be_had() -> None:
    shares = ClientQuotas(1)
    assert [shares.take("one"), shares.take("other"), shares.take("one")] == [True, False, False]


def test_nothing_always_fits() -> None:
    """Also where more is held than there is: what is lost must not refuse those who want none."""
    shares = ClientQuotas(10)
    shares.add("one", 30)
    assert shares.take("one", 0)
    assert not shares.take("other")
