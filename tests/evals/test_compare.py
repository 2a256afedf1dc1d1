"""Recipes of comparisons, groups of problems, and the table."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rstar.errors import ConfigError
from rstar.evals.compare import (
    Outcome,
    Outcomes,
    compare_budgets,
    compare_methods,
    comparison_charts,
    comparison_table,
    cpu_seconds,
    entries_of,
    groups_by,
    read_entries,
)
from rstar.evals.metrics import sign_test
from rstar.evals.run import FinishedRun

SAMPLES = {"name": "samples", "search": {"method": "sample", "samples": 4, "record_tokens": True}}


def outcomes(**found: list[tuple[str, bool]]) -> Outcomes:
    """Entries with the kind of each problem and whether it is solved; solving costs 10 tokens."""
    return {
        name: {
            str(number): Outcome(right, True, 10 * right, {"kind": kind, "level": number % 2})
            for number, (kind, right) in enumerate(problems)
        }
        for name, problems in found.items()
    }


def test_an_entry_takes_the_samples_of_an_earlier_one() -> None:
    again = {"name": "again", "samples_of": "samples", "value": "logprob", "search": {"choose": "weighted"}}
    source, entry = entries_of([SAMPLES, again], {"policy": "fake:steps"}, {"seed": 3}, "r.toml")
    assert (source.samples_of, entry.samples_of) == (None, "samples")
    assert entry.config.value == "logprob"
    assert entry.config.search.choose == "weighted"
    assert (entry.config.search.method, entry.config.search.samples, entry.config.seed) == ("sample", 4, 3)
    assert not entry.config.search.keep_trees


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ([{"name": "again", "samples_of": "samples"}, SAMPLES], "'samples' is not an earlier entry"),
        ([SAMPLES, {"name": "again", "samples_of": 3}], "3 is not an earlier entry"),
        (
            [SAMPLES, {"name": "b", "samples_of": "samples"}, {"name": "again", "samples_of": "b"}],
            "'b' is not an earlier entry with samples of its own",
        ),
        ([{"name": "samples"}, {"name": "again", "samples_of": "samples"}], "needs search.record_tokens = true"),
        (
            [SAMPLES, {"name": "again", "samples_of": "samples", "seed": 1, "search": {"samples": 8}}],
            "seed, search.samples cannot be set together with samples_of",
        ),
    ],
)
def test_samples_that_cannot_be_taken_are_named(tables: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ConfigError, match=f"r.toml: entry 'again': .*{problem}"):
        entries_of(tables, {}, {}, "r.toml")


BUDGETS = """
budgets = {budgets}
policy = "fake:steps"
[[entry]]
name = "mcts"
search.method = "mcts"
[[entry]]
name = "greedy"
search.method = "greedy"
[[entry]]
name = "samples"
search = {{ method = "sample", record_tokens = true }}
[[entry]]
name = "again"
samples_of = "samples"
value = "logprob"
search.choose = "best"
"""


def test_entries_run_once_for_each_budget(tmp_path: Path) -> None:
    (recipe := tmp_path / "r.toml").write_text(BUDGETS.format(budgets=[300, 1000]))
    entries = read_entries(recipe, {})
    assert [(entry.name, entry.method, entry.budget, entry.samples_of) for entry in entries] == [
        ("greedy", "greedy", None, None),
        ("mcts at 300", "mcts", 300, None),
        ("samples at 300", "samples", 300, None),
        ("again at 300", "again", 300, "samples at 300"),
        ("mcts at 1000", "mcts", 1000, None),
        ("samples at 1000", "samples", 1000, None),
        ("again at 1000", "again", 1000, "samples at 1000"),
    ]
    assert [entry.config.search.max_tokens for entry in entries if entry.budget] == [300] * 3 + [1000] * 3


@pytest.mark.parametrize(("budgets", "problem"), [("[0]", "numbers of tokens"), ("3", "list"), ("[5, 5]", "twice")])
def test_bad_budgets_are_refused(tmp_path: Path, budgets: str, problem: str) -> None:
    (recipe := tmp_path / "r.toml").write_text(BUDGETS.format(budgets=budgets))
    with pytest.raises(ConfigError, match=f"r.toml: budgets: .*{problem}"):
        read_entries(recipe, {})


def test_every_budget_has_its_table_and_every_method_its_curve(tmp_path: Path) -> None:
    (recipe := tmp_path / "r.toml").write_text(BUDGETS.format(budgets=[10, 20]))
    entries = read_entries(recipe, {})
    found = {
        entry.name: {str(n): Outcome(n < (entry.budget or 5), True, entry.budget or 5, {}) for n in range(20)}
        for entry in entries
    }
    rows = compare_budgets(entries, found, {"all": lambda meta: True})
    assert [[row.name for row in some] for some in rows.values()] == [
        ["mcts at 10", "samples at 10", "again at 10", "greedy"],
        ["mcts at 20", "samples at 20", "again at 20", "greedy"],
    ]
    assert [(row.won, row.lost) for row in rows["all", 20]] == [(None, None), (0, 0), (0, 0), (0, 15)]
    cpu = {"mcts at 10": 1.0, "mcts at 20": 2.0, "greedy": 0.5}
    tokens, seconds = comparison_charts(entries, rows, cpu)
    assert tokens.series["mcts"] == [(10, 50), (20, 100)]
    assert tokens.series["greedy"] == [(5, 25)]
    assert seconds.series == {"mcts": [(1, 50), (2, 100)], "greedy": [(0.5, 25)]}


def test_the_cpu_time_of_samples_counts_for_those_who_choose_among_them(tmp_path: Path) -> None:
    entries = entries_of(
        [SAMPLES, {"name": "again", "samples_of": "samples", "value": "logprob", "search": {"choose": "best"}}],
        {"policy": "fake:steps"}, {}, "r.toml",
    )  # fmt: skip

    def runs(**problems: int) -> dict[str, FinishedRun]:
        seconds = {"samples": 8.0, "again": 2.0}
        return {
            name: FinishedRun(tmp_path, [], {"n": 4, "cpu": {"seconds": seconds[name], "problems": count}})
            for name, count in problems.items()
        }

    assert cpu_seconds(entries, runs(samples=4, again=4)) == {"samples": 2.0, "again": 2.5}
    assert cpu_seconds(entries, runs(samples=4, again=3)) == {"samples": 2.0}, "killed before its last problem"
    assert cpu_seconds(entries, runs(samples=3, again=4)) == {}
    assert cpu_seconds(entries, runs(again=4) | {"samples": FinishedRun(tmp_path, [], {"n": 4})}) == {}


def test_every_entry_is_compared_with_the_first() -> None:
    found = outcomes(
        mcts=[("word", True)] * 6 + [("search", True)] * 2 + [("word", False)] * 2,
        greedy=[("word", True)] * 5 + [("word", False)] + [("search", False)] * 2 + [("word", True), ("word", False)],
    )
    first, other = compare_methods(found)
    assert (first.n, first.right, first.search_n, first.search_right) == (10, 8, 2, 2)
    assert (first.p, first.won, first.lost) == (None, None, None)
    assert (other.right, other.won, other.lost) == (6, 1, 3)
    assert other.p == sign_test([(True, False)] * 3 + [(False, True)])
    assert (first.tokens, other.tokens) == (8, 6)


def test_groups_are_compared_apart() -> None:
    found = outcomes(
        mcts=[("word", True), ("search", True), ("ratio", False)],
        greedy=[("word", True), ("search", False), ("ratio", True)],
    )
    labels = [one.meta for one in found["mcts"].values()]
    groups = groups_by("kind=search", labels)
    assert list(groups) == ["kind=search", "kind other than search"]
    inside, rest = (compare_methods(found, among)[1] for among in groups.values())
    assert (inside.n, inside.won, inside.lost) == (1, 0, 1)
    assert (rest.n, rest.won, rest.lost) == (2, 1, 0)
    assert list(groups_by("kind", labels)) == ["kind=ratio", "kind=search", "kind=word"]
    by_level = {name: compare_methods(found, among)[0].n for name, among in groups_by("level", labels).items()}
    assert by_level == {"level=0": 2, "level=1": 1}


def test_problems_without_the_label_are_a_group() -> None:
    groups = groups_by("kind", [{"kind": "word"}, {}])
    assert [name for name, among in groups.items() if among({})] == ["kind=None"]
    assert [name for name, among in groups_by("kind=word", [{"kind": "word"}, {}]).items() if among({})] == [
        "kind other than word"
    ]


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        ("family", "no problem has the label 'family'; labels of these problems: kind, level"),
        ("kind=words", "no problem has kind = 'words'; values: search, word"),
    ],
)
def test_groups_that_are_empty_are_named(by: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"--by {by}: {problem}"):
        groups_by(by, [{"kind": "word", "level": 1}, {"kind": "search"}])


def test_the_table_tells_the_difference() -> None:
    rows = compare_methods(outcomes(a=[("word", True)] * 4, b=[("word", True), *[("word", False)] * 3]))
    console = Console(width=120)
    with console.capture() as shown:
        console.print(comparison_table(rows, "some"))
    assert "-75.0 [-100.0, +1.6]" in shown.get()
    assert "search families" not in shown.get()
    mixed = compare_methods(outcomes(a=[("word", True), ("search", True)]))
    assert "search families [95%]" in [column.name for column in comparison_table(mixed).columns]
