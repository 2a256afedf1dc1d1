"""Copies of local models for inference servers.

Servers remove special tokens from texts, and the markers of the step format are special tokens of the bundled models.
In a copy they are ordinary tokens, so that every server returns them. A chat template lets servers answer messages.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rstar.errors import ConfigError
from rstar.models.spec import check_folder
from rstar.prompts.code_steps import ASSISTANT, MARKERS, USER

CHAT_TEMPLATE = f"""\
{{%- for message in messages -%}}
{{%- if message.role == "system" -%}}
{{{{ message.content }}}}

{{% elif message.role == "user" -%}}
{USER}
{{{{ message.content }}}}
{{% else -%}}
{ASSISTANT}
{{{{ message.content }}}}
{{%- if not (loop.last and continue_final_message) %}}

{{% endif -%}}
{{%- endif -%}}
{{%- endfor -%}}
{{%- if add_generation_prompt -%}}
{ASSISTANT}
{{% endif -%}}
"""
"""Turns with the role marks of `rstar.prompts.code_steps`; Jinja."""


def export(folder: Path, out: Path) -> None:
    """Copy the model in `folder` to `out`, a new folder, ready for a server.

    Raises:
        ConfigError: `folder` holds no model, or `out` exists.
    """
    check_folder(folder, str(folder))
    if out.exists():
        raise ConfigError(f"{out}: already exists; name a new folder")
    files = [file for pattern in ("*.json", "*.safetensors", "*.jinja") for file in sorted(folder.glob(pattern))]
    out.mkdir(parents=True)
    for file in files:
        shutil.copyfile(file, out / file.name)
    tokenizer = json.loads((out / "tokenizer.json").read_text(encoding="utf-8"))
    for token in tokenizer.get("added_tokens", ()):
        token["special"] = token["special"] and token["content"] not in MARKERS
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    if not (out / "chat_template.jinja").exists():
        (out / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
