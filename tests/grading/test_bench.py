"""The benchmark of the grader: its cases are right, and a wrong grader is seen."""

from rstar.grading.bench import EXPRESSIONS, bench_grading, exact_pairs, measure
from rstar.grading.equality import is_equivalent


def test_speed_comes_with_mistakes() -> None:
    pairs = exact_pairs(400)
    assert len({gold for gold, _, _ in pairs}) > 350
    assert 100 < sum(equal for *_, equal in pairs) < 300
    for work in (pairs, EXPRESSIONS):
        speed = measure(is_equivalent, work, 0.01)
        assert (speed.wrong, speed.pairs) == (0, len(work))
        assert speed.verdicts_per_cpu_second > 0
    assert measure(lambda gold, said: True, pairs, 0.01).wrong == sum(not equal for *_, equal in pairs)


def test_all_kinds_of_work() -> None:
    found = bench_grading(0.01)
    assert {"exact golds", "expressions"} <= set(found)
    assert not found["exact golds"].wrong
