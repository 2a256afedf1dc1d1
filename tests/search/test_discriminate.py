import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.config import MutualConfig
from rstar.grading import is_equivalent
from rstar.models.engine import Context, Request
from rstar.models.fake import FakeEngine
from rstar.problems import Problem
from rstar.prompts.domains import open_domain
from rstar.sandbox.api import Limits
from rstar.search.discriminate import Candidate, Discriminator, agrees, choose_candidate, cut_places, survivors
from rstar.search.stated import stated_answer
from rstar.search.tree import Node
from rstar.specs import Fake
from rstar.trajectories import Segment, Step
from tests.search.plain import PlainSandbox


@given(st.lists(st.text("abc", min_size=1, max_size=4), max_size=60), st.integers(1, 8), st.integers(0, 99))
def test_cuts_are_at_words_between_20_and_80_percent(words: list[str], cuts: int, seed: int) -> None:
    text = " ".join(words)
    places = cut_places(text, cuts, seed)
    assert places == sorted(set(places)) == cut_places(text, cuts, seed)
    assert 1 <= len(places) <= cuts
    if places == [0]:
        assert len(words) < 4
        return
    for place in places:
        before = text[:place].split()
        assert not text[:place].endswith(" ")
        assert text[place:].startswith(" ")
        assert before == words[: len(before)]
        assert 0.2 <= len(before) / len(words) <= 0.8


def test_cuts_keep_lines_and_drop_indentation() -> None:
    text = "a b\n  c d\n\ne f"
    found = {text[:place] for seed in range(200) for place in cut_places(text, 1, seed)}
    assert found == {"a b\n", "a b\n  c", "a b\n  c d\n\n"}


def test_cuts_cover_the_range() -> None:
    text = " ".join("abcdefghij")
    assert {place for seed in range(200) for place in cut_places(text, 1, seed)} == {3, 5, 7, 9, 11, 13, 15}


@pytest.mark.parametrize(
    ("answers", "strict", "mid", "loose", "majority"),
    [
        ([1, 1, 1, 1], True, True, True, True),
        ([1, 1, 2, 2], False, True, True, True),
        ([1, 1, 2, 3], False, True, True, True),
        ([1, 2, 2, 3], False, False, True, False),
        ([1, 2, 3, None], False, False, True, True),
        ([2, 2, None, None], False, False, False, False),
        ([None, None], False, False, False, False),
        ([1], True, True, True, True),
        ([1, None, None], False, False, True, True),
    ],
)
def test_modes_by_hand(answers: list[int | None], strict: bool, mid: bool, loose: bool, majority: bool) -> None:
    modes = ("strict", "mid", "loose", "majority")
    assert [agrees(mode, answers, own=1) for mode in modes] == [strict, mid, loose, majority]


@given(st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=8))
def test_stricter_modes_keep_less(answers: list[int | None]) -> None:
    strict, mid, loose = (agrees(mode, answers, own=1) for mode in ("strict", "mid", "loose"))
    assert strict <= mid <= loose


def candidate(answer: str, *qs: float, kept: bool = True, value: float = 0.5) -> Candidate:
    node = Node(None, None, Context(""), None)
    for q in qs:
        node = Node(node, Step((Segment("x", "policy"),)), Context(""), None, visits=2, total=2 * q)
    node.answer, node.value = answer, value
    return Candidate(node, kept)


def chosen(candidates: list[Candidate], final: str) -> str | None:
    found = asyncio.run(choose_candidate(candidates, final, is_equivalent))
    return None if found is None else found.node.answer


def test_score_is_the_product_of_mean_values() -> None:
    assert candidate("1", 0.5, 0.8, 0.5).score == pytest.approx(0.2)


def test_product_takes_the_best_survivor() -> None:
    best, second = candidate("1", 0.9, 0.9), candidate("2", 0.9, 0.8)
    assert chosen([second, best], "product") == "1"
    rejected = candidate("1", 0.9, 0.9, kept=False)
    assert chosen([rejected, second], "product") == "2"
    assert chosen([rejected], "product") == "1", "nothing survived: all candidates count"
    assert chosen([], "product") is None


def test_sum_by_hand() -> None:
    """Equivalent answers share their values: 0.5 and 1/2 have 0.6 + 0.3 of 1.6, and both survived (0.5625 + 1)."""
    candidates = [
        candidate("3", 0.9, value=0.7),
        candidate("0.5", 0.4, value=0.6),
        candidate("1/2", 0.6, value=0.3),
        candidate("3", 0.8, value=0.2, kept=False),
    ]
    assert chosen(candidates, "sum") == "1/2", "3 has 0.7 of 1.6 and one of two survived: 0.4375 + 0.5"
    assert chosen(candidates, "product") == "3"


@given(st.lists(st.booleans(), max_size=6))
def test_survivors_are_never_empty_without_need(kept: list[bool]) -> None:
    candidates = [candidate("1", 0.5, kept=one) for one in kept]
    left = survivors(candidates)
    assert len(left) == (sum(kept) or len(kept))


@pytest.mark.parametrize("domain", ["word-problems", "competition", "yes-no"])
@pytest.mark.parametrize("action", ["step", "question"])
def test_a_peer_that_writes_the_same_text_agrees(domain: str, action: str) -> None:
    """Wherever a solution is cut; its sub-questions and their answers included."""
    opened = open_domain(domain)
    for question, solution in opened.examples[action].worked:  # type: ignore[index]
        prompt = opened.prompt("finish", question, 2)

        def rest(request: Request, sample: int, prompt: str = prompt, solution: str = solution) -> str:
            return solution[len(request.context.text) - len(prompt) :]

        for seed in range(20):
            peer = FakeEngine(Fake(max_context=20_000), script=rest)
            config = MutualConfig(cuts=4, agreement="strict")
            problem = Problem("p", question)
            checks = Discriminator(problem, opened, peer, PlainSandbox(), config, Limits(), seed, 2, is_equivalent)  # type: ignore[arg-type]
            root = Node(None, None, Context(opened.prompt("step", question, 0)), None)
            node = Node(root, Step((Segment(solution, "policy"),)), Context(root.context.text + solution), None)
            node.answer = stated_answer(solution, yes_no=domain == "yes-no")
            assert node.answer is not None
            assert asyncio.run(checks.check(node)).kept
            checks.release()


@pytest.mark.parametrize(
    ("domain", "solution", "answer", "peer_writes"),
    [
        (
            "word-problems",
            "Step 1: 6 boxes of 24 eggs are 144 eggs.\nStep 2: So 44 eggs are left for him to sell on another day.",
            "44",
            " for him.",
        ),
        (
            "word-problems",
            "Step 1: 4 * 18 = 72 and 72 - 57 = 15.\nResult: 15.\nSo at the end, the baker has 15 rolls left.",
            "15",
            " 17 rolls left.",
        ),
        (
            "yes-no",
            "Step 1: So no, they could not meet, since there is no place where both of them live in the wild.",
            "no",
            " doubt that they live together in the north.",
        ),
        (
            "competition",
            "Step 1: The primes are 2 and 3.\nStep 2: So option B is correct, since only it names both.",
            "B",
            " C is the prime.",
        ),
    ],
)
def test_what_the_policy_said_is_not_the_answer_of_the_peer(
    domain: str, solution: str, answer: str, peer_writes: str
) -> None:
    """A cut behind the answer would let a peer agree that writes something else."""
    opened = open_domain(domain)
    peer = FakeEngine(Fake(max_context=20_000), script=lambda request, sample: peer_writes)
    config = MutualConfig(cuts=20, agreement="loose")
    checks = Discriminator(Problem("p", "?"), opened, peer, PlainSandbox(), config, Limits(), 1, 2, is_equivalent)  # type: ignore[arg-type]
    root = Node(None, None, Context(opened.prompt("step", "?", 0)), None)
    node = Node(root, Step((Segment(solution, "policy"),)), Context(root.context.text + solution), None)
    node.answer = answer
    assert not asyncio.run(checks.check(node)).kept
    checks.release()
