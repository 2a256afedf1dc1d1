"""Training runs side by side: equal budgets, means over seeds, and differences with the seeds' interval."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import ConfigError, DataError
from rstar.evals.metrics import mean_of_runs, run_difference
from rstar.rl.compare import compare_settings, read_settings, setting_charts

EVALUATION = {
    "pass@4": 0.5,
    "calls": 1.0,
    "error_share": 0.5,
    "error_share_right": 0.2,
    "response_tokens": 9,
    "unfinished": 0,
}


def written(folder: Path, rewards: list[float], means: dict[int, float]) -> Path:
    """A run with a reward per step, and a mean per evaluation; the end of the folder's name is its seed."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"identity": {"seed": int(folder.name[-1])}}))
    steps = [{"step": step, "reward": reward, "turns": 10.0 * reward} for step, reward in enumerate(rewards, 1)]
    evaluations = [{"step": step, "mean": mean, **EVALUATION} for step, mean in means.items()]
    for name, lines in (("metrics.jsonl", steps), ("evaluations.jsonl", evaluations)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Path]:
    return {
        "a1": written(tmp_path / "a1", [0.0, 0.2, 0.4, 0.9], {0: 0.1, 3: 0.3, 4: 0.9}),
        "a2": written(tmp_path / "a2", [0.0, 0.4, 0.6], {0: 0.1, 3: 0.4}),
        "b1": written(tmp_path / "b1", [0.0, 0.1, 0.2], {0: 0.1, 3: 0.2}),
        "b2": written(tmp_path / "b2", [0.0, 0.1, 0.4], {0: 0.1, 3: 0.2}),
    }


def test_worked_by_hand(runs: dict[str, Path]) -> None:
    """Step 4 of one run does not count, because the others have not reached it."""
    settings = read_settings([f"a={runs['a1']},{runs['a2']}", f"b={runs['b1']},{runs['b2']}"])
    a, b = compare_settings(settings, last=2)
    assert (a.name, a.runs, a.differences) == ("a", 2, {})
    assert a.figures["reward"] == (pytest.approx(0.4), pytest.approx(12.706 * 0.1))  # runs: 0.3 and 0.5
    assert a.figures["mean"] == (pytest.approx(0.35), pytest.approx(12.706 * 0.05))
    assert a.figures["rise"][0] == pytest.approx(0.25)
    assert a.figures["turns"][0] == pytest.approx(4.0)
    assert "entropy" not in a.figures
    # b's runs: 0.15 and 0.25; variances 0.02 and 0.005, over two runs each; 1.47 degrees of freedom
    assert b.differences["reward"] == (pytest.approx(-0.2), pytest.approx(12.706 * (0.01 + 0.0025) ** 0.5))
    assert b.differences["mean"] == (pytest.approx(-0.15), pytest.approx(12.706 * 0.05))


def test_one_run_has_no_interval(runs: dict[str, Path]) -> None:
    a, b = compare_settings(read_settings([f"a={runs['a1']},{runs['a2']}", str(runs["b1"])]), last=1)
    assert b.name == "b1"
    assert b.figures["reward"] == (0.2, None)
    assert b.differences == {}
    assert a.figures["reward"][1] is not None


def test_curves_are_means_over_the_runs(runs: dict[str, Path]) -> None:
    accuracy, reward, *_ = setting_charts(read_settings([f"a={runs['a1']},{runs['a2']}", f"b={runs['b1']}"]))
    assert accuracy.series == {"a": [(0, 10.0), (3, pytest.approx(35.0))], "b": [(0, 10.0), (3, 20.0)]}
    assert [y for _, y in reward.series["a"]] == pytest.approx([0.0, 0.3, 0.5])


def test_what_cannot_be_compared_is_said(runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"empty: no training run"):
        read_settings([f"a={runs['a1']}", str(tmp_path / "empty")])
    with pytest.raises(ConfigError, match="two settings are called 'a'"):
        read_settings([f"a={runs['a1']}", f"a={runs['a2']}"])
    (runs["b1"] / "metrics.jsonl").unlink()
    with pytest.raises(DataError, match=r"b1/metrics.jsonl: the run has no finished step yet"):
        read_settings([str(runs["b1"])])


def test_runs_that_differ_in_more_than_the_seed_are_refused(runs: dict[str, Path]) -> None:
    def identify(run: str, **identity: object) -> None:
        plain = {"seed": 1, "algorithm": "grpo", "evaluate_rollouts": 4, "held_out": {"seed": 7}}
        (runs[run] / "config.json").write_text(json.dumps({"identity": plain | identity}))

    with pytest.raises(ConfigError, match="a1 is named twice"):
        read_settings([f"a={runs['a1']},{runs['a1']}"])
    with pytest.raises(ConfigError, match="a1 is named twice"):
        read_settings([f"a={runs['a1']}", f"b={runs['a1']}"])
    identify("a1")
    identify("a2", seed=2)
    identify("b1", algorithm="grpo-roc")
    assert len(read_settings([f"a={runs['a1']},{runs['a2']}", f"b={runs['b1']}"])) == 2
    with pytest.raises(ConfigError, match=r"a1 and .*b1 may differ in their seeds only: algorithm is 'grpo' and"):
        read_settings([f"a={runs['a1']},{runs['b1']}"])
    identify("b1")
    with pytest.raises(ConfigError, match=r"a1 and .*b1 have the same seed, so they are not two independent runs"):
        read_settings([f"a={runs['a1']},{runs['b1']}"])
    identify("b1", held_out={"seed": 8})
    with pytest.raises(ConfigError, match=r"must be evaluated in the same way: held_out\.seed is 7 and 8"):
        read_settings([f"a={runs['a1']}", f"b={runs['b1']}"])


def test_runs_are_read_up_to_an_evaluation_that_they_have_in_common(tmp_path: Path) -> None:
    """One has steps beyond its last evaluation, the other a later evaluation."""
    rewards = [0.1, 0.2, 0.3, 0.4, 0.5]
    one = written(tmp_path / "a1", rewards, {0: 0.1, 2: 0.3})
    other = written(tmp_path / "a2", rewards, {0: 0.1, 2: 0.5, 4: 0.9})
    (row,) = compare_settings(read_settings([f"a={one},{other}"]), last=1)
    assert row.figures["mean"][0] == pytest.approx(0.4)
    assert row.figures["reward"][0] == pytest.approx(0.2)
    early = written(tmp_path / "b1", rewards, {0: 0.1})
    with pytest.raises(ConfigError, match="have not yet been evaluated after the same step"):
        read_settings([f"a={one}", f"b={early}"])


def test_steps_without_calls_have_no_share_of_failed_ones(tmp_path: Path) -> None:
    run = written(tmp_path / "a1", [0.1, 0.2], {0: 0.1, 2: 0.3})
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines[1]["error_share_right"] = 0.5
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (row,) = compare_settings(read_settings([str(run)]), last=2)
    assert row.figures["error_share_right"] == (0.5, None)


def test_the_command_prints_a_table_and_draws_a_picture(runs: dict[str, Path], tmp_path: Path) -> None:
    arguments = ["rl", "compare", f"a={runs['a1']},{runs['a2']}", f"b={runs['b1']},{runs['b2']}", "--last", "2"]
    done = CliRunner().invoke(app, [*arguments, "--png", str(tmp_path / "curves.png")])
    assert done.exit_code == 0, done.output
    for text in ("after 3 steps", "35.0% ± 63.5%", "against a", "-15.0 ± 63.5", "curves.png"):
        assert text in done.output
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert found["steps"] == 3
    assert [row["name"] for row in found["settings"]] == ["a", "b"]


RUNS = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40)


@given(RUNS, RUNS)
def test_the_difference_has_the_sign_of_its_direction(values: list[float], others: list[float]) -> None:
    difference, half = run_difference(values, others)
    back, same = run_difference(others, values)
    assert (back, same) == (pytest.approx(-difference), pytest.approx(half))
    assert half >= 0
    mean, of_mean = mean_of_runs(values)
    assert min(values) - 1e-9 <= mean <= max(values) + 1e-9
    assert of_mean is not None


@pytest.mark.parametrize(("count", "point"), [(2, 12.706), (11, 2.228), (12, 2.201), (31, 2.042), (121, 1.980)])
def test_intervals_are_those_of_student(count: int, point: float) -> None:
    """Against the printed table of the t distribution: values with a standard deviation of √count."""
    values = [0.0] * (count - 1) + [float(count)]
    _, half = mean_of_runs(values)
    assert half == pytest.approx(point, abs=0.001)
