"""Names of models and of values: read, written again, and refused with a reason."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rstar.specs import (
    MODEL_FORMS,
    Bundled,
    Fake,
    FakeKind,
    LocalModel,
    Model,
    ModelSetting,
    Ppm,
    Rule,
    Server,
    Value,
    ValueSetting,
    parse_model,
    parse_value,
)

PATHS = st.text(st.characters(codec="utf-8"), min_size=1)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="?"), min_size=1)
URLS = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["127.0.0.1", "localhost", "a.example.org", "[::1]"]),
    st.just("") | st.integers(1, 65535).map(":{}".format),
    st.sampled_from(["", "/", "/v1", "/a b/v1", "/v1?key=x"]),
)
FAKES = st.builds(
    Fake,
    st.sampled_from(get_args(FakeKind)),
    seed=st.integers(0, 2**64 - 1),
    latency=st.floats(0, allow_infinity=False, allow_nan=False),
    rate=st.floats(0, 1),
    max_context=st.integers(1, 2**40),
)
FOLDERS = st.builds(LocalModel, PATHS)
SERVERS = st.builds(Server, URLS, NAMES, st.none() | PATHS)
MODELS = st.just(Bundled()) | FOLDERS | SERVERS | FAKES
VALUES = st.sampled_from([*get_args(Rule), "auto"]) | st.builds(
    Ppm, st.just(Bundled()) | FOLDERS.filter(lambda model: model.path_as_given != "tiny")
)
ODD = st.text(st.sampled_from("#?:/@ [a1") | st.characters(codec="utf-8"))


@given(MODELS)
def test_the_name_of_a_model_stands_for_it(model: Model) -> None:
    assert parse_model(str(model)) == model


@given(VALUES)
def test_the_name_of_a_value_stands_for_it(value: Value) -> None:
    assert parse_value(str(value)) == value


@given(URLS | ODD | st.builds("{}{}".format, URLS, ODD), NAMES | ODD, st.none() | ODD)
def test_a_server_without_a_name_of_its_own_is_refused(url: str, name: str, tokenizer: str | None) -> None:
    try:
        server = Server(url, name, tokenizer)
    except ValueError:
        return
    assert parse_model(str(server)) == server


def test_models_without_a_name_of_their_own_are_refused() -> None:
    with pytest.raises(ValueError, match="ppm:tiny is the bundled PPM"):
        Ppm(LocalModel("tiny"))
    with pytest.raises(ValueError, match="the path is empty"):
        LocalModel("")
    for url, name in (("http://h#x", "m"), ("http://h", "m?x")):
        with pytest.raises(ValueError, match=r"a URL without '#' and a model name without '\?'"):
            Server(url, name)


class Settings(BaseModel):
    model: ModelSetting = Bundled()
    value: ValueSetting = "auto"


@given(MODELS, VALUES)
def test_settings_are_text_in_files_and_typed_in_python(model: Model, value: Value) -> None:
    settings = Settings(model=model, value=value)
    assert (settings.model, settings.value) == (model, value)
    plain = settings.model_dump(mode="json")
    assert plain == {"model": str(model), "value": str(value)}
    assert Settings.model_validate(plain) == settings


@pytest.mark.parametrize("wrong", [3, None, True, ["tiny"], {"model": "tiny"}, Path("tiny")])
@pytest.mark.parametrize("field", ["model", "value"])
def test_a_setting_that_is_no_name_is_refused(field: str, wrong: object) -> None:
    with pytest.raises(ValueError, match="expected a name, as a string"):
        Settings.model_validate({field: wrong})


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("tiny", Bundled()),
        ("tiny:peer", Bundled("peer")),
        ("tiny:agent-start", Bundled("agent-start")),
        ("hf:~/models/qwen", LocalModel("~/models/qwen")),
        ("openai:http://h:8000/v1#a/model", Server("http://h:8000/v1", "a/model")),
        ("openai:http://h#m?tokenizer=~/a%20b", Server("http://h", "m", "~/a b")),
        ("openai:http://h#m?api=chat&continues=no", Server("http://h", "m", api="chat", continues="no")),
        ("openai:http://a:1/v1,http://b:2/v1#m", Server("http://a:1/v1,http://b:2/v1", "m")),
        ("fake:steps", Fake()),
        ("fake:fail?rate=1&seed=7", Fake("fail", seed=7, rate=1.0)),
    ],
)
def test_models(text: str, model: Model) -> None:
    assert parse_model(text) == model


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("auto", "auto"),
        ("agreement", "agreement"),
        ("grounded", "grounded"),
        ("logprob", "logprob"),
        ("ppm:tiny", Ppm(Bundled())),
        ("ppm:~/ppm", Ppm(LocalModel("~/ppm"))),
    ],
)
def test_values(text: str, value: Value) -> None:
    assert parse_value(text) == value
    assert Settings.model_validate({"value": text}).value == value


def test_a_home_folder_is_found() -> None:
    assert LocalModel("~/models").path == Path.home() / "models"
    assert str(LocalModel("~/models")) == "hf:~/models"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "",
            "model '' is not one of tiny, tiny:actions, tiny:peer, tiny:agent, tiny:agent-start, hf:PATH, "
            "openai:URL#MODEL, fake:KIND",
        ),
        ("gpt", "model 'gpt' is not one of tiny"),
        ("tinny", "did you mean 'tiny'?"),
        (
            "tiny:x",
            "model 'tiny:x' is not one of the bundled tiny, tiny:actions, tiny:peer, tiny:agent, tiny:agent-start",
        ),
        ("tiny:action", "did you mean 'tiny:actions'?"),
        ("opnai:http://h#m", "did you mean 'openai'?"),
        ("hf:", "model 'hf:' is not one of"),
        ("vllm:m", "vLLM does not run inside this process"),
        ("openai:http://h", "expected openai:URL#MODEL"),
        ("openai:http://h#", "expected openai:URL#MODEL"),
        ("openai:ftp://h#m", "expected openai:URL#MODEL"),
        ("openai:http:///v1#m", "expected openai:URL#MODEL"),
        ("openai:http://h:x#m", "Port could not be cast"),
        ("openai:http://h#m?tokeniser=a", "unknown option tokeniser; the options are tokenizer, api, continues"),
        ("openai:http://h,ftp://i#m", "expected openai:URL#MODEL"),
        ("openai:http://h,#m", "expected openai:URL#MODEL"),
        ("openai:http://h#m?api=chats", "api: expected auto, completions, chat"),
        ("openai:http://h#m?api=chat&tokenizer=a", "api=chat has no token ids"),
        ("fake:stepz", "fake model 'stepz' is not one of steps, noise, fail; did you mean 'steps'?"),
        ("fake:steps?sed=1", "unknown option 'sed'; did you mean 'seed'?"),
        ("fake:steps?seed=x", "option 'seed': 'x' is not a number"),
        ("fake:steps?seed=1.5", "option 'seed': '1.5' is not a number"),
        ("fake:steps?seed=-1", "option 'seed': -1 is out of range"),
        ("fake:steps?latency=inf", "option 'latency': inf is out of range"),
        ("fake:steps?latency=nan", "option 'latency': nan is out of range"),
        ("fake:fail?rate=1.5", "option 'rate': 1.5 is out of range"),
        ("fake:steps?max_context=0", "option 'max_context': 0 is out of range"),
    ],
)
def test_bad_names_of_models(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_model(text)
    assert reason in str(caught.value)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match=r"URL must not contain credentials.*engine\.key_file") as caught:
        parse_model("openai:http://me:secret@h#m")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gold", "value 'gold' is not one of auto, agreement, grounded, logprob, ppm:PATH, ppm:tiny"),
        ("agreemnt", "did you mean 'agreement'?"),
        ("ppm:", "value 'ppm:' is not one of"),
        ("ppm", "value 'ppm' is not one of"),
        ("", "value '' is not one of"),
    ],
)
def test_bad_names_of_values(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_value(text)
    assert reason in str(caught.value)


def test_all_forms_are_told() -> None:
    assert {form.partition(":")[0] for form in MODEL_FORMS} == {"tiny", "hf", "openai", "fake"}
