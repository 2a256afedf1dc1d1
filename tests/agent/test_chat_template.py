"""Conversations that are only appended to equal what the model's own template renders as a whole."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pytest
import trl
from hypothesis import given
from hypothesis import strategies as st

from rstar.agent.chat_template import ChatTemplate
from rstar.agent.tools import PYTHON_TOOLS
from rstar.errors import ConfigError

TEMPLATES = Path(__file__).parent / "templates"
PUBLISHED = Path(next(iter(trl.__path__))) / "chat_templates"
"""The templates of published models, as the library TRL has them."""
_QWEN = {"eos_token": "<|im_end|>"}
_LLAMA = {"eos_token": "<|eot_id|>", "bos_token": "<|begin_of_text|>"}
TOKENS = {
    "qwen": _QWEN,
    "qwen2_5": _QWEN,
    "qwen3": _QWEN,
    "qwen3_instruct_2507": _QWEN,
    "llama": _LLAMA,
    "llama3_1": _LLAMA,
    "llama3_2": _LLAMA,
}
WORDS = st.text(st.sampled_from("ab <>{}|\n.,!"), min_size=1).map(str.strip).filter(bool)
FAMILIES = pytest.mark.parametrize("family", list(TOKENS))


def source_of(family: str) -> str:
    own = TEMPLATES / f"{family}.jinja"
    return (own if own.exists() else PUBLISHED / own.name).read_text()


@cache
def template(family: str) -> ChatTemplate:
    return ChatTemplate(source_of(family), TOKENS[family])


@cache
def plain(family: str) -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["strftime_now"] = lambda form: "01 Jan 2025"
    return environment.from_string(source_of(family))


def rendered(family: str, messages: list[dict[str, str]], tools: list[Any] | None) -> str:
    """The whole conversation, by plain Jinja."""
    return plain(family).render(messages=messages, tools=tools, add_generation_prompt=True, **TOKENS[family])


@FAMILIES
@given(
    question=WORDS,
    system=WORDS,
    turns=st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=3)), max_size=4),
)
def test_appended_conversations_equal_rendered_ones(
    family: str, question: str, system: str, turns: list[tuple[str, list[str]]]
) -> None:
    chat = template(family)
    tools = [tool.schema() for tool in PYTHON_TOOLS]
    text = TOKENS[family].get("bos_token", "") + chat.prompt(question, system, tools)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    for written, responses in turns:
        text += written + chat.responses(responses)
        messages.append({"role": "assistant", "content": written})
        messages += [{"role": "tool", "content": response} for response in responses]
    assert text == rendered(family, messages, tools)


@FAMILIES
def test_a_further_message_is_appended_too(family: str) -> None:
    chat = template(family)
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "r"},
    ]
    bos = TOKENS[family].get("bos_token", "")
    assert bos + chat.prompt("q", "", []) + "a" + chat.message("r") == rendered(family, messages, None)


@FAMILIES
def test_the_end_of_a_turn_is_the_models_own_token(family: str) -> None:
    assert template(family).turn_end == TOKENS[family]["eos_token"]


def test_prompts_do_not_depend_on_the_day() -> None:
    assert "Today Date: 01 Jan 2025" in template("llama").prompt("q", "", [])


def test_a_template_that_drops_turns_or_fails_is_named() -> None:
    with pytest.raises(ConfigError, match=r"m: the chat template drops the assistant's text"):
        ChatTemplate("{{ messages[0].content }}", {}, "m")
    with pytest.raises(ConfigError, match=r"m: the chat template cannot be read"):
        ChatTemplate("{% if %}", {}, "m")
    with pytest.raises(ConfigError, match=r"m: the chat template fails: only two messages"):
        ChatTemplate("{{ raise_exception('only two messages') }}", {}, "m")


@pytest.mark.parametrize("named", [False, True])
def test_a_template_is_read_from_a_model_folder(tmp_path: Path, named: bool) -> None:
    source = (TEMPLATES / "qwen.jinja").read_text()
    templates: object = [{"name": "default", "template": source}] if named else source
    settings = {"chat_template": templates, "eos_token": {"content": "<|im_end|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = ChatTemplate.of_folder(tmp_path)
    assert found is not None
    assert found.turn_end == "<|im_end|>"


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_templates_the_one_for_tools_is_taken(tmp_path: Path, order: int) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools: {{ tools }}"}]
    end = "{% for one in messages %}{{ one.content }}{% endfor %}"
    templates = [{**one, "template": one["template"] + end} for one in named][::order]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    found = ChatTemplate.of_folder(tmp_path)
    assert found is not None
    assert found.prompt("q", "", [{"name": "f"}]) == "tools: [{'name': 'f'}]q"


def test_a_folder_may_have_no_template_but_not_a_damaged_one(tmp_path: Path) -> None:
    assert ChatTemplate.of_folder(tmp_path) is None
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ConfigError, match="the chat template cannot be read"):
        ChatTemplate.of_folder(tmp_path)
