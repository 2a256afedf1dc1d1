"""Recipes of self-evolution."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app
from rstar.errors import ConfigError
from rstar.evolve.settings import EvolveConfig, with_overrides
from rstar.sections import read_recipe
from rstar.specs import Bundled

RECIPE = """
base = "hf:models/base"
[problems]
file = "train.jsonl"
[held_out]
file = "test.jsonl"
[policy]
tokens = 1000
[ppm]
tokens = 500
inputs = ["numbers"]
[[round]]
rollouts = 8
[[round]]
value = "ppm"
unsolved = [64, 128]
policy = { tokens = 2000 }
[[entry]]
name = "greedy"
search = { method = "greedy" }
[smoke]
problems = { file = "few.jsonl" }
policy = { tokens = 10 }
round = [{ rollouts = 2 }]
"""


def recipe(folder: Path, text: str = RECIPE, smoke: bool = False):
    file = folder / "evolve.toml"
    file.write_text(text)
    return read_recipe(EvolveConfig, file, smoke)


def test_a_recipe(tmp_path):
    config = recipe(tmp_path)
    assert [one.rollouts for one in config.rounds] == [8, 16]
    assert config.rounds[1].unsolved == [64, 128]
    assert with_overrides(config.policy, config.rounds[1].policy).tokens == 2000
    assert with_overrides(config.ppm, config.rounds[1].ppm).inputs == ["numbers"]


def test_smoke_takes_a_table_away(tmp_path):
    text = RECIPE.replace('base = "hf:models/base"', "[bootstrap]\nproblems = [{ n = 3 }]\ntrain = { tokens = 5 }")
    assert recipe(tmp_path, text).base is None
    config = recipe(tmp_path, text + 'bootstrap = false\nbase = "tiny"\n', smoke=True)
    assert (config.base, config.bootstrap) == (Bundled(), None)


def test_smoke_is_laid_over_it(tmp_path):
    config = recipe(tmp_path, smoke=True)
    assert (config.problems.file, config.held_out.file) == (Path("few.jsonl"), Path("test.jsonl"))
    assert (config.policy.tokens, config.ppm.tokens) == (10, 500)
    assert [one.rollouts for one in config.rounds] == [2]  # as many rounds as it says
    with pytest.raises(ConfigError, match=r"the table \[smoke\] is missing"):
        recipe(tmp_path, RECIPE.partition("[smoke]")[0], smoke=True)


def test_settings_behind_set_are_laid_over_all(tmp_path):
    file = tmp_path / "evolve.toml"
    file.write_text(RECIPE)
    over = ["problems.file=other.jsonl", "policy.tokens=7", 'launcher=["torchrun", "--nproc-per-node", "2"]']
    config = read_recipe(EvolveConfig, file, smoke=True, overrides=over)
    assert (config.problems.file, config.policy.tokens) == (Path("other.jsonl"), 7)
    assert config.launcher == ["torchrun", "--nproc-per-node", "2"]
    for bad, said in (("sed=3", "unknown key 'sed', did you mean 'seed'?"), ("round.rollouts=3", "'round' is a value")):
        with pytest.raises(ConfigError, match=re.escape(said)):
            read_recipe(EvolveConfig, file, overrides=[bad])


@pytest.mark.parametrize("command", ["evolve", "train"])
def test_what_can_be_said_is_listed(command):
    listed = CliRunner().invoke(app, [command, "settings", "--json"])
    known = {one["setting"]: one for one in json.loads(listed.stdout)}
    wanted = {"evolve": ("round.rollouts", 16), "train": ("inputs", [])}[command]
    assert known[wanted[0]]["default"] == wanted[1]
    assert all(one["meaning"] for one in known.values())
    shown = CliRunner().invoke(app, [command, "settings"])
    assert shown.exit_code == 0
    assert wanted[0] in shown.stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tokens = 1000", "tokns = 1000", "unknown key 'policy.tokns', did you mean 'policy.tokens'?"),
        ("tokens = 2000", "tokns = 2000", "round 2: policy: unknown key 'tokns', did you mean 'tokens'?"),
        ("rollouts = 8", "rolouts = 8", "unknown key 'round 1.rolouts', did you mean 'round.rollouts'?"),
        ("rollouts = 8", "rollouts = true", "round 1.rollouts = True: expected a number or text, not true/false"),
        ("[problems]", "search = 3\n[problems]", "search = 3: expected a group of settings, such as search.method"),
        ("[ppm]", "[pmm]", "ppm: missing"),
        ('base = "hf:models/base"', "", "`base`"),
        ("hf:models/base", "openai:http://x#y", "expected a trainable model"),
        ('file = "train.jsonl"', "", "`file`, or `n`"),
        ('file = "train.jsonl"', 'file = "train.jsonl"\nn = 5', "`file`, or `n`"),
        ('file = "train.jsonl"', 'file = "train.jsonl"\nlevels = "1-2"', "levels: only for drawn problems"),
        ('name = "greedy"', 'name = "greedy"\nseed = 3', "entry.seed: not allowed"),
        ("tokens = 1000", 'tokens = 1000\nbase = "x"', "policies start from `base`"),
        ("tokens = 2000", 'base = "x"', "policies start from `base`"),
        ("[problems]", 'serve = ["vllm", "serve", "{model}"]\n[problems]', "serve: the command must contain {port}"),
        ("rollouts = 8", 'rollouts = 8\nvalue = "ppm"', "round 1: value must be terminal"),
        ("[policy]", '[search]\nmethod = "beam"\n[policy]', "search.method = 'beam': expected one of mcts"),
        ('inputs = ["numbers"]', 'inputs = ["sound"]', "ppm.inputs"),
        ("[problems]", "[problems", "not valid TOML"),
        ("rollouts = 8", "rollouts = 0", "round 1.rollouts = 0"),
    ],
)
def test_what_cannot_be_is_named(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=r"evolve\.toml") as error:
        recipe(tmp_path, RECIPE.replace(old, new, 1))
    assert message in str(error.value)


def test_where_it_runs_is_no_part_of_its_identity(tmp_path):
    first = recipe(tmp_path).identity()
    tables = "[engine]\nbatch = 3\n[search]\nconcurrency = 3\n"
    serve = 'serve = ["vllm", "serve", "{model}", "--port", "{port}"]\n'
    other = recipe(tmp_path, 'launcher = ["torchrun"]\n' + serve + RECIPE + tables).identity()
    assert first == other
    assert first != recipe(tmp_path, RECIPE.replace("rollouts = 8", "rollouts = 9")).identity()
    assert first != recipe(tmp_path, RECIPE + "[search]\nexpansions = 3\n").identity()


def test_recipes_of_the_project_are_valid():
    recipes = sorted((Path(__file__).parents[2] / "recipes").rglob("evolve.toml"))
    assert [file.parent.name for file in recipes] == ["math", "tiny"]
    for file in recipes:
        assert len(read_recipe(EvolveConfig, file).rounds) == 4
        assert read_recipe(EvolveConfig, file, smoke=True).rounds[-1].value == "ppm"
