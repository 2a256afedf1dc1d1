from pathlib import Path

import pytest

from rstar.config import AgentConfig, BeamConfig, Config, MctsConfig, build, resolve
from rstar.errors import ConfigError
from rstar.evolve.settings import EvolveConfig
from rstar.sections import flatten, merged, settings_of
from rstar.specs import Fake, Ppm, parse_model, parse_value
from rstar.train.ppm import PPMConfig


def test_layers_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('policy = "fake:steps"\n[search]\nexpansions = 3\ntop_p = 0.5\n')
    config = resolve(file, ["search.expansions=64"], {"search.method": "beam", "seed": None})
    assert config.policy == Fake("steps")
    assert config.search == BeamConfig(expansions=64, top_p=0.5)
    assert config.seed == 0


def test_override_values_are_toml_or_text() -> None:
    config = resolve(overrides=["search.early_stop=true", "policy=openai:http://h#m", "search.temperature=0.5"])
    assert isinstance(config.search, MctsConfig)
    assert config.search.early_stop is True
    assert config.policy == parse_model("openai:http://h#m")
    assert config.search.temperature == 0.5


@pytest.mark.parametrize(
    ("key", "near"), [("search.rolouts", "search.rollouts"), ("rollouts", "search.rollouts"), ("sed", "seed")]
)
def test_unknown_key_names_the_nearest(key: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown key '{key}', did you mean '{near}'"):
        resolve(overrides=[f"{key}=1"])


def test_every_bad_key_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        build({"search": {"rollouts": 0, "c": -1}}, where="x.toml")
    assert "x.toml: search.rollouts = 0" in str(caught.value)
    assert "x.toml: search.c = -1" in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["search.method=sample", "search.temperature=0"], "all samples would be the same: use method greedy"),
        (["search.rollouts"], "expected KEY=VALUE"),
        (["policy.x=1"], "policy"),
        (["policy=gpt"], "policy = 'gpt': model 'gpt' is not one of tiny"),
        (["value=gold"], "value = 'gold': value 'gold' is not one of auto, agreement"),
        (
            ["search.method=sample", "search.rollouts=3"],
            "search.rollouts is a setting of (mcts, mutual|mutual, mcts); the method here is sample",
        ),
        (["search.samples=3"], "search.samples is a setting of sample, best-of-n, agent; the method here is mcts"),
        (
            ["search.method=greedy", "search.temperature=0.5"],
            "search.temperature is a setting of sample, best-of-n, beam",
        ),
        (["search.method=greedy", "search.temperture=0.5"], "unknown key 'search.temperture'"),
        (["search.method=mtcs"], "did you mean 'mcts'?"),
        (["search.method=magic"], "expected one of greedy, sample, best-of-n, beam, mcts, mutual, agent"),
        (["search.rollouts=true"], "search.rollouts = True: expected a number or text, not true/false"),
        (["search.rollouts='4'"], "search.rollouts = '4': expected an integer"),
        (["policy=tiny:agent", "search.method=mcts"], "policy 'tiny:agent': solves problems only with method agent"),
        (["search.method=sample", "search.samples=10001"], "search.samples = 10001: expected at most 10000"),
        (["search=3"], "search = 3: expected a group of settings, such as search.method"),
    ],
)
def test_refusals(overrides: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        resolve(overrides=overrides)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("search.rollouts", "x", "expected an integer"),
        ("search.rollouts", "1.5", "expected an integer"),
        ("search.c", "x", "expected a number"),
        ("search.keep_trees", "x", "expected true or false"),
        ("search.rollouts", "0", "expected at least 1"),
        ("sandbox.seconds", "0", "expected more than 0"),
        ("search.top_p", "2", "expected at most 1"),
        ("sandbox.place", "3", "expected text"),
    ],
)
def test_a_bad_value_is_answered_by_what_is_expected(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^configuration: {key} = .*: {reason}$"):
        resolve(overrides=[f"search.method={'beam' if key.endswith('top_p') else 'mcts'}", f"{key}={value}"])


def test_agents_are_bundled_agents_unless_named() -> None:
    assert str(resolve(overrides=["search.method=agent"]).policy) == "tiny:agent"
    assert str(resolve(overrides=["search.method=agent", "policy=tiny"]).policy) == "tiny"
    assert str(resolve(overrides=["search.method=greedy"]).policy) == "tiny"
    assert str(Config(search=AgentConfig()).policy) == "tiny:agent"


def test_files_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("a = = 1")
    with pytest.raises(ConfigError, match=r"bad.toml: not valid TOML"):
        resolve(bad)
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml"):
        resolve(tmp_path / "none.toml")


def test_digest_ignores_what_cannot_change_results() -> None:
    base = Config().digest()
    assert resolve(overrides=["search.concurrency=3", "engine.processes=2", "sandbox.workers=7"]).digest() == base
    assert resolve(overrides=["search.rollouts=13"]).digest() != base
    assert resolve(overrides=["sandbox.seconds=1.0"]).digest() != base


def test_every_setting_explains_itself() -> None:
    for kind in (Config, PPMConfig, EvolveConfig):
        for one in settings_of(kind):
            assert one.field.description, f"{kind.__name__}: {one.key}"


def test_settings_say_which_methods_have_them() -> None:
    found: dict[str, set[str]] = {}
    for one in settings_of(Config):
        found.setdefault(one.key, set()).update(one.variants)
    assert found["search.rollouts"] == {"mcts", "mutual"}
    (method,) = (one for one in settings_of(Config) if one.key == "search.method")
    assert method.field.default == "mcts", "the default of the union, not of its last variant"
    assert found["search.samples"] == {"sample", "best-of-n", "agent"}
    assert found["search.max_depth"] == {"greedy", "sample", "best-of-n", "beam", "mcts", "mutual"}
    assert found["search.temperature"] == {"sample", "best-of-n", "beam", "mcts", "mutual", "agent"}
    assert found["search.method"] == found["search.concurrency"] == found["seed"] == set(), "always there"


def test_what_a_run_folder_says_is_read_again() -> None:
    config = resolve(overrides=["policy=fake:noise?seed=3", "value=ppm:~/m", "search.method=beam", "search.top_k=2"])
    assert config.value == Ppm(parse_model("hf:~/m"))
    assert build(config.model_dump(mode="json")) == config
    assert config.identity()["policy"] == "fake:noise?seed=3"
    assert config.identity()["value"] == "ppm:~/m"


def test_a_name_is_text_or_already_parsed() -> None:
    assert Config(policy=Fake("noise"), value=parse_value("grounded")) == Config(policy="fake:noise", value="grounded")
    with pytest.raises(ConfigError, match="policy = 3: expected a name, as a string"):
        build({"policy": 3})


def test_lists_of_tables_are_merged_place_by_place() -> None:
    base = {"a": 1, "b": {"c": 2, "d": 3}, "e": [{"x": 1, "y": 2}, {"x": 3}], "f": [1, 2]}
    over = {"b": {"c": 4}, "e": [{"x": 5}, {"y": 6}], "f": [7], "g": 8}
    assert merged(base, over) == {
        "a": 1, "b": {"c": 4, "d": 3}, "e": [{"x": 5, "y": 2}, {"x": 3, "y": 6}], "f": [7], "g": 8,
    }  # fmt: skip
    assert base["b"] == {"c": 2, "d": 3}


def test_flatten() -> None:
    assert flatten({"a": 1, "b": {"c": {"d": 2}, "e": 3}}) == {"a": 1, "b.c.d": 2, "b.e": 3}
