"""Self-evolution as a whole: the smoke variant of the bundled recipe, and a small one that is killed five times."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.datasets import ProblemSet
from rstar.errors import ConfigError, DataError, ResumeError
from rstar.evals.compare import Row
from rstar.evolve.rounds import (
    Result,
    _evenly_spaced,
    _Evolution,
    _problems_by_round,
    _unsolved,
    evolve,
    read_results,
)
from rstar.evolve.settings import EvolveConfig, ProblemSource, Round
from rstar.models.spec import fingerprint, local_folder
from rstar.problems import Problem
from rstar.sections import read_recipe
from rstar.specs import Bundled, Fake
from rstar.tiny.generate import draw_set

RECIPE = Path(__file__).parents[2] / "recipes" / "tiny" / "evolve.toml"
SMALL = """
base = "tiny"
seed = 3
accumulate = true
problems = { n = 24, seed = 5, levels = "3", family = ["word", "algebra"] }
held_out = { n = 4, seed = 6, split = "numbers", levels = "2" }
search = { expansions = 4 }
extract = { distance = 1 }
policy = { tokens = 6_000, batch_tokens = 1024, micro_tokens = 1024, warmup_tokens = 0, checkpoint_seconds = 0.001 }
ppm = { tokens = 6_000, batch_tokens = 1024, micro_tokens = 1024, warmup_tokens = 0, inputs = ["numbers", "values"] }
round = [{ rollouts = 6, take = 12 }, { rollouts = 3, take = 12, value = "ppm", unsolved = [6], most = 2 }]
entry = [
  { name = "greedy", search = { method = "greedy" } },
  { name = "mcts", value = "ppm", search = { rollouts = 2, record_tokens = true } },
  { name = "voted", samples_of = "mcts", search = { choose = "majority" } },
]
"""
WEIGHTS = local_folder(Bundled())
TEN = {"problems": ProblemSource(n=10)}


def start(recipe: Path, out: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rstar", "evolve", "run", str(recipe), "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_smoke_variant_of_the_recipe(tmp_path):
    assert start(RECIPE, tmp_path, "--smoke").wait() == 0
    rounds = json.loads((tmp_path / "rounds.json").read_text())["rounds"]
    assert [one["name"] for one in rounds] == ["base", "round 1", "round 2", "round 3", "round 4"]
    names = ["greedy", "majority of 16", "MCTS + PPM"]
    assert [[row["name"] for row in one["evaluation"]] for one in rounds] == [names[:2], *[names] * 4]
    assert all(row["n"] == 20 for one in rounds for row in one["evaluation"])
    solved = [one["solved"]["all"] for one in rounds[1:]]
    assert [n for _, n in solved] == [25, 50, 75, 80]
    assert solved[0][0] < solved[1][0] < solved[2][0] <= solved[3][0]
    assert {"level 1", "level 2", "level 3"} <= rounds[1]["solved"].keys()
    kept = [one["counts"]["found"]["solutions kept"] for one in rounds[1:]]
    assert kept == sorted(kept)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "round 4" in page
    for folder in ("policy", "ppm"):
        assert (tmp_path / "round4" / folder / "model" / "tokenizer.json").exists()
    table = CliRunner().invoke(app, ["view", str(tmp_path)]).stdout
    assert "round 4" in table
    assert "report.html" in table
    searched = CliRunner().invoke(app, ["view", str(tmp_path / "round1" / "search")]).stdout
    assert f"{solved[0][0]} of 25 problems with a verified solution" in searched
    recipe = (tmp_path / "round4" / "policy.toml").read_text()
    assert "round" not in recipe.partition("base = ")[2].splitlines()[0]  # from the base, not from round 3


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_five_times_ends_with_the_same_table(tmp_path):
    recipe = tmp_path / "evolve.toml"
    recipe.write_text(SMALL)
    began = time.monotonic()
    assert start(recipe, tmp_path / "whole").wait() == 0
    seconds = time.monotonic() - began
    draw = random.Random(5)
    kills = 0
    while kills < 5:
        run = start(recipe, tmp_path / "killed")
        try:
            # Beginning takes time, too: parts of the whole that let five kills fall into all of its stages.
            run.wait(3 + draw.uniform(0, seconds / 4))
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.wait()
            kills += 1
        else:
            assert run.returncode == 0
            if kills >= 2:
                break  # it got to its end between two kills
            shutil.rmtree(tmp_path / "killed")
    (tmp_path / "killed").rename(tmp_path / "moved")  # to another disk, say
    assert start(recipe, tmp_path / "moved").wait() == 0
    for name in ("rounds.json", "report.html", "round2/data/pairs.jsonl"):
        assert (tmp_path / "moved" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    for kind in ("policy", "ppm"):
        model = f"round2/{kind}/model/model.safetensors"
        assert (tmp_path / "moved" / model).read_bytes() == (tmp_path / "whole" / model).read_bytes(), model


def small(folder: Path, old: str = "", new: str = ""):
    file = folder / "evolve.toml"
    file.write_text(SMALL.replace(old, new, 1))
    return read_recipe(EvolveConfig, file)


def never(*_):
    raise AssertionError("nothing may be done")


def test_what_cannot_be_is_said_before_any_work(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(DataError, match="round 1 takes 30 new problems, but there are only 24"):
        evolve(small(tmp_path, "take = 12", "take = 30"), out, never, bar)
    assert not out.exists()
    with pytest.raises(DataError, match="round 1 takes 13 new problems, but there are only 10"):  # its own problems
        evolve(small(tmp_path, "take = 12", "take = 13").model_copy(update=TEN), out, never, bar)
    out.mkdir()
    (out / "config.json").write_text(
        json.dumps({"identity": small(tmp_path, "distance = 1", "distance = 2").identity()})
    )
    with pytest.raises(ResumeError, match="begun with another configuration") as caught:
        evolve(small(tmp_path), out, never, bar)
    assert caught.value.keys == {"base", "extract.distance"}
    file = tmp_path / "train.jsonl"
    file.write_text('{"question": "What is 3 + 4?"}\n')
    config = small(tmp_path).model_copy(update={"problems": ProblemSource(file=file)})
    with pytest.raises(DataError, match="no gold answer"):
        evolve(config, tmp_path / "other", never, bar)


def test_what_is_needed_later_is_looked_for_first(tmp_path):
    out = tmp_path / "run"
    for old, new, said in (
        ('base = "tiny"', 'base = "hf:/no/model"', "/no/model"),
        ("seed = 3", 'seed = 3\nfirst_policy = "opnai:http://127.0.0.1:9#m"', "opnai"),
        ('name = "mcts", value = "ppm"', 'name = "mcts", value = "pmp"', "value 'pmp'"),
        ("seed = 3", 'seed = 3\nlauncher = ["torchrunn"]', "launcher: program 'torchrunn' not found"),
        ("seed = 3", 'seed = 3\nserve = ["vlm", "{model}", "{port}"]', "serve: program 'vlm' not found"),
        ("expansions = 4", "expansions = 4, keep_trees = false", "keep_trees"),
        ("expansions = 4", "expansions = 4, temperature = 0", "temperature = 0"),
        ("unsolved = [6]", "unsolved = [0]", "at least one rollout"),
    ):
        with pytest.raises(ConfigError, match=said):
            evolve(small(tmp_path, old, new), out, never, bar)
    assert not out.exists() or not list(out.iterdir())


def draw_lines(n, seed):
    """The problems that a source of n problems draws."""
    return (drawn.row() for drawn in draw_set(n, seed, "train"))


def test_files_of_problems_belong_to_the_run(tmp_path):
    file, held_out, out = tmp_path / "train.jsonl", tmp_path / "held-out.jsonl", tmp_path / "run"
    lines = [json.dumps({"id": str(n), "question": f"What is {n} + 4?", "answer": str(n + 4)}) for n in range(40)]
    file.write_text("\n".join(lines[:30]))
    held_out.write_text("\n".join(lines[29:]))
    config = small(tmp_path).model_copy(
        update={"problems": ProblemSource(file=file), "held_out": ProblemSource(file=held_out)}
    )
    with pytest.raises(
        DataError, match="1 of 11 held-out problems are also training problems \\(problems\\), such as '29'"
    ):
        evolve(config, out, never, bar)
    held_out.write_text("\n".join(lines[30:]))
    replayed = config.model_copy(update={"replay": [ProblemSource(n=5, seed=2)]})
    held = list(draw_lines(5, 2))[4]
    (tmp_path / "drawn.jsonl").write_text(json.dumps(held))
    overlap = replayed.model_copy(update={"held_out": ProblemSource(file=tmp_path / "drawn.jsonl")})
    with pytest.raises(DataError, match=r"1 of 1 held-out problems are also training problems \(replay\)"):
        evolve(overlap, tmp_path / "other", lambda text: None, bar)
    with pytest.raises(AssertionError, match="nothing may be done"):
        evolve(config, out, never, bar)
    file.write_text("\n".join(lines[:29]))
    with pytest.raises(ResumeError, match="begun with another configuration") as caught:
        evolve(config, out, never, bar)
    assert caught.value.keys == {"problems.sha256"}
    file.unlink()
    with pytest.raises(DataError, match=r"problems\.file: .* does not exist"):
        evolve(config, out, never, bar)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "problems.jsonl").write_text("mine")
    with pytest.raises(ResumeError, match=r"it holds 'problems\.jsonl'"):
        evolve(small(tmp_path), out, never, bar)
    assert (out / "problems.jsonl").read_text() == "mine"


def test_without_a_ppm_what_needs_one_is_not_evaluated(tmp_path):
    (tmp_path / "run").mkdir()
    run = _Evolution(small(tmp_path), tmp_path / "run", never, bar)
    assert [one.name for one in run._entries(Fake(), None)] == ["greedy"]
    assert [one.name for one in run._entries(Fake(), tmp_path)] == ["greedy", "mcts", "voted"]


def test_a_table_is_read_again(tmp_path):
    result = Result("base", [Row("greedy", 4, 2, 1, 0, 3, 7.5, None)], {"found": {"trees": 3}}, {"all": (1, 2)})
    (tmp_path / "rounds.json").write_text(json.dumps({"rounds": [result.to_json()]}))
    assert read_results(tmp_path) == [result]
    for damaged in ("", "[]", '{"rounds": [{"name": "base"}]}', '{"rounds": [3]}'):
        (tmp_path / "rounds.json").write_text(damaged)
        with pytest.raises(DataError, match=r"rounds\.json: damaged"):
            read_results(tmp_path)
    refused = CliRunner().invoke(app, ["view", str(tmp_path), "train-13-0"])
    assert "a self-evolution run" in str(refused.exception)


def test_a_run_that_goes_on_does_not_shorten_the_table(tmp_path):
    (tmp_path / "run").mkdir()
    run = _Evolution(small(tmp_path), tmp_path / "run", never, bar)
    results = [Result(name, [], {}, {"all": (1, 2)}) for name in ("base", "round 1", "round 2")]
    assert not run._is_stored(results[:2])
    (tmp_path / "run" / "rounds.json").write_text(json.dumps({"rounds": [one.to_json() for one in results]}))
    assert run._is_stored(results[:2])
    assert run._is_stored(results)
    assert not run._is_stored([results[0], Result("round 1", [], {}, {"all": (2, 2)})])


def test_a_model_that_is_served_is_known_by_its_weights(tmp_path):
    serve = f'serve = ["{sys.executable}", "{{model}}", "{{port}}"]\nserve_port = 8123\n'
    for name in ("served", "here"):
        (tmp_path / name).mkdir()
    served, here = (
        _Evolution(small(tmp_path, "seed = 3", text), tmp_path / name, never, bar)._served_identity(WEIGHTS)
        for name, text in (("served", "seed = 3\n" + serve), ("here", "seed = 3"))
    )
    assert here == {}  # said by the run itself
    assert served == {"policy": "a folder", "policy.weights": fingerprint(WEIGHTS), "engine.dtype": "served"}


def test_policies_are_trained_on_the_references_again(tmp_path, monkeypatch):
    trained: list[tuple[str, list[str]]] = []

    def train(kind, config, data, out, launcher):
        trained.append((out.name, [file.name for file in data]))
        if len(trained) == 2:
            assert not config.curriculum
            assert all(file.stat().st_size for file in data)
            raise StopIteration
        return WEIGHTS

    monkeypatch.setattr("rstar.evolve.rounds.train", train)
    bootstrap = "bootstrap = { problems = [{ n = 3 }, { n = 4, seed = 1 }], train = { tokens = 9 } }"
    recipe = small(tmp_path, 'base = "tiny"', f"replay = [{{ n = 5, seed = 2 }}]\n{bootstrap}")
    recipe = recipe.model_copy(update={"round": [Round(rollouts=3, take=4)]})
    with pytest.raises(StopIteration):
        evolve(recipe, tmp_path / "run", lambda text: None, bar)
    assert trained == [("sft", ["stage1.jsonl", "stage2.jsonl"]), ("policy", ["replay1.jsonl", "sft.jsonl"])]


def bar(total, what):
    return nullcontext(lambda *_: None)


def test_rounds_share_the_problems_by_difficulty():
    problems = [Problem(str(n), "q", {"level": 1 + n % 4}) for n in range(20)]
    rounds = [Round(take=3, levels="1-2"), Round(take=4), Round(levels="4"), Round(take=2, levels="1")]
    shares = _problems_by_round(ProblemSet(problems, {}), rounds)
    assert [[p.id for p in share.problems] for share in shares] == [
        ["0", "1", "4"],
        ["2", "3", "5", "6"],
        ["3", "7", "11", "15", "19"],
        ["8", "12"],
    ]
    with pytest.raises(DataError, match="round 2 takes 11 new problems of level 3-4, but there are only 10"):
        _problems_by_round(ProblemSet(problems, {}), [Round(take=9, levels="1-2"), Round(take=11, levels="3-4")])
    with pytest.raises(DataError, match="round 1 takes all new problems of level 5, but there are only 0"):
        _problems_by_round(ProblemSet(problems, {}), [Round(levels="5")])


def test_longer_searches_keep_the_problems_that_shorter_ones_left():
    problems = [Problem(str(n), "?") for n in range(10)]
    solved = {str(n): n % 2 == 0 for n in range(9)}  # 9 was not searched yet
    first = _unsolved(problems, solved, 3)
    assert [problem.id for problem in first] == ["1", "3", "5"]
    again = _unsolved(first, solved | {"3": True}, 3)
    assert [problem.id for problem in again] == ["1", "5"], "not 7, which the first further search left out"
    assert _unsolved(again, solved | {"1": True, "5": True}, None) == []


def test_problems_are_spread():
    problems = [Problem(str(n), "q") for n in range(10)]
    assert [problem.id for problem in _evenly_spaced(problems, 3)] == ["0", "3", "6"]
    assert _evenly_spaced(problems, 10) == _evenly_spaced(problems, 99) == problems
