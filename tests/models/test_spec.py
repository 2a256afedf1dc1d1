"""Specs to engines, and what is said of bad ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rstar.config import EngineConfig, build
from rstar.errors import ConfigError
from rstar.models.fake import FakeEngine
from rstar.models.local.engine import LocalEngine
from rstar.models.openai import OpenAIEngine
from rstar.models.spec import check_model, fingerprint, open_engine
from rstar.specs import MODEL_FORMS, parse_model
from tests.models.tiny_models import write_model


def test_local_folder(tmp_path: Path) -> None:
    write_model(tmp_path)
    engine = open_engine(parse_model(f"hf:{tmp_path}"), EngineConfig(batch=9, max_context=100, processes=0))
    assert isinstance(engine, LocalEngine)
    assert (engine.name, engine.max_context) == (f"hf:{tmp_path}", 100)


def test_fake() -> None:
    engine = open_engine(parse_model("fake:steps?seed=3"))
    assert isinstance(engine, FakeEngine)
    assert engine.name == "fake:steps?seed=3"


def test_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    (tmp_path / "key").write_text("from-file\n")
    spec = "openai:http://localhost:8000/v1#org/model-7b"
    for settings, key in ((EngineConfig(), "from-environment"), (EngineConfig(key_file=tmp_path / "key"), "from-file")):
        engine = open_engine(parse_model(spec), settings)
        assert isinstance(engine, OpenAIEngine)
        assert engine.name == spec
        assert engine._client._headers == {"Authorization": f"Bearer {key}"}
        assert engine._model == "org/model-7b"
        assert engine.context("a").ids == ()
    write_model(tmp_path)
    assert open_engine(parse_model(f"{spec}?tokenizer={tmp_path}")).context("a").ids


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tinny", "did you mean 'tiny'"),
        ("opnai:http://x#y", "did you mean 'openai'"),
        ("gpt-4", "openai:URL#MODEL"),
        ("hf:", "hf:PATH"),
        ("hf:/nowhere", r"config\.json is missing"),
        ("openai:localhost#m", "expected openai:URL#MODEL"),
        ("openai:http://localhost:8000", "expected openai:URL#MODEL"),
        ("openai:http://me:word@localhost/v1#m", "must not contain credentials"),
        ("openai:http://me:word@localhost:x/v1#m", "Port could not be cast"),
        ("openai:http://localhost#m?tokeniser=x", "tokeniser"),
        ("vllm:/models/x", "use openai:URL#MODEL"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        open_engine(build({"policy": spec}).policy)
    assert "word" not in str(caught.value)


def test_unreadable_key_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="key_file"):
        open_engine(parse_model("openai:http://localhost#m"), EngineConfig(key_file=tmp_path / "none"))


@pytest.mark.parametrize("key", ["a b\nc", "sk-é"])
def test_keys_that_cannot_be_sent_are_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        open_engine(parse_model("openai:http://localhost#m"))
    assert key not in str(caught.value)


def test_a_key_is_stripped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-123 \n")
    engine = open_engine(parse_model("openai:http://localhost#m"))
    assert isinstance(engine, OpenAIEngine)
    assert engine._client._headers == {"Authorization": "Bearer sk-123"}


def test_a_fingerprint_tells_weights_apart(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_model(tmp_path / name, seed=seed)
    one, same, other = (fingerprint(tmp_path / name) for name in "abc")
    assert one == same != other
    weights = tmp_path / "b" / "model.safetensors"
    whole = bytearray(weights.read_bytes())
    whole[-9] ^= 1
    weights.write_bytes(whole)
    assert fingerprint(tmp_path / "b") != same


def test_torch_is_imported_for_local_engines_only() -> None:
    program = (
        "import sys; from rstar.models.spec import open_engine; from rstar.specs import parse_model; "
        "[open_engine(parse_model(name)) for name in ('fake:steps', 'openai:http://x#m')]"
    )
    subprocess.run([sys.executable, "-c", f"{program}; assert 'torch' not in sys.modules"], check=True)
    assert set(MODEL_FORMS) == {"tiny", "hf:PATH", "openai:URL#MODEL", "fake:KIND"}


def test_local_engines_start_without_the_compiler_of_torch() -> None:
    """Its import takes about as long as that of the rest of torch."""
    program = (
        "import sys; from rstar.models.spec import open_engine; from rstar.specs import parse_model; "
        "open_engine(parse_model('tiny')); assert 'torch' in sys.modules and 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-Math-7B", "org/model.v1"])
def test_names_of_a_hub_are_told_from_missing_folders(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_model(parse_model(f"hf:{name}"))
    assert "Models are not downloaded from a hub" in str(caught.value)
    assert f"`hf download {name} --local-dir models/{name.partition('/')[2]}`" in str(caught.value)


@pytest.mark.parametrize("name", ["/nowhere/at-all", "one", "a/b/c", "~/org/model"])
def test_missing_folders_are_no_hub_names(name: str) -> None:
    with pytest.raises(ConfigError, match=r"not a model folder: .*config\.json is missing"):
        check_model(parse_model(f"hf:{name}"))
