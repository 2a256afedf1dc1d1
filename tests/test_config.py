from pathlib import Path

import pytest

from rstar.config import Config, build, flatten, resolve, settings_of
from rstar.errors import ConfigError
from rstar.evolve.settings import EvolveConfig
from rstar.train.ppm import PPMConfig


def test_layers_later_wins(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('policy = "fake:steps"\n[search]\nrollouts = 3\nc = 0.5\n')
    config = resolve(file, ["search.rollouts=64"], {"search.method": "beam", "seed": None})
    assert (config.policy, config.search.rollouts, config.search.c, config.search.method) == (
        "fake:steps",
        64,
        0.5,
        "beam",
    )
    assert config.seed == 0


def test_override_values_are_toml_or_text() -> None:
    config = resolve(overrides=["search.early_stop=true", "policy=openai:http://h#m", "search.temperature=0.5"])
    assert config.search.early_stop is True
    assert config.policy == "openai:http://h#m"
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
        (["search.method=sample", "search.temperature=0"], "nothing but copies"),
        (["search.rollouts"], "expected KEY=VALUE"),
        (["policy.x=1"], "policy"),
        (["search.method=magic"], "search.method = 'magic'"),
        (["search.rollouts=true"], "search.rollouts = True: this is no switch"),
        (["search=3"], "search = 3: a group of settings, such as search.method"),
    ],
)
def test_refusals(overrides: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        resolve(overrides=overrides)


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
        for key, field in settings_of(kind):
            assert field.description, f"{kind.__name__}: {key}"


def test_flatten() -> None:
    assert flatten({"a": 1, "b": {"c": {"d": 2}, "e": 3}}) == {"a": 1, "b.c.d": 2, "b.e": 3}
