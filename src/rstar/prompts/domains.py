"""Domains of mutual reasoning: folders with the instruction and the worked examples of each action.

A domain is a folder with ``domain.toml`` and one file of prompts for each action in use (`FILES`)::

    # domain.toml
    about = "Word problems with one number as the answer."
    code = false              # true: steps hold Python code, which runs in the sandbox
    yes_no = false            # optional; true: every problem asks for a yes or no

    # step.toml
    instruction = "Solve the problem step by step …"
    [[example]]
    question = "A baker makes 4 trays of 18 rolls. How many rolls are that?"
    solution = \"\"\"Step 1: …\"\"\"

The bundled domains are in ``prompts/mutual``. This module renders prompts. `rstar.search.actions` defines what the
actions are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from rstar.errors import ConfigError
from rstar.prompts import code_steps
from rstar.prompts.code_steps import ASSISTANT, USER
from rstar.sections import read_toml

FILES = {"step": "step", "finish": "step", "question": "question", "reanswer": "reanswer", "rephrase": "rephrase"}
"""The actions (A1 to A5 of arXiv 2408.06195, section 3.2), each with the name of its file in a domain's folder. One
step and the rest of the steps share a prompt, and so its prefix in the model's cache."""


@dataclass(frozen=True, slots=True)
class Examples:
    """How an action is explained: an instruction, and worked examples as (question, solution)."""

    instruction: str
    worked: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of problems.

    Attributes:
        name: name or path of its folder.
        about: one sentence.
        code: whether steps hold Python code, which runs in the sandbox.
        yes_no: whether every problem asks for a yes or no.
        own: whether it is one's own folder, not a bundled domain.
        examples: of each action in use, and of ``finish``, with which the peer completes solutions.
    """

    name: str
    about: str
    code: bool
    yes_no: bool
    own: bool
    examples: Mapping[str, Examples]

    def digest(self) -> str:
        """A short hash of all that prompts depend on."""
        examples = {action: (one.instruction, one.worked) for action, one in self.examples.items()}
        content = json.dumps([self.code, self.yes_no, examples], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def prompt(self, action: str, question: str, shots: int) -> str:
        """The model's input for an action before the first step.

        Args:
            action: one of `FILES`.
            question: the problem's text.
            shots: number of worked examples; 0: no instruction either, for models trained on the actions.
        """
        if not shots:
            return self._opening(question)
        examples = self.examples[action]
        worked = [f"{self._opening(asked)}{solution.strip()}\n\n" for asked, solution in examples.worked[:shots]]
        return f"{examples.instruction.strip()}\n\n{''.join(worked)}{self._opening(question)}"

    def _opening(self, question: str) -> str:
        return code_steps.prompt(question) if self.code else f"{USER}\n{question}\n{ASSISTANT}\n"


def bundled_domains() -> list[str]:
    """Names of the domains that come with rstar."""
    return sorted(entry.name for entry in (files("rstar") / "prompts" / "mutual").iterdir() if entry.is_dir())


def open_domain(name: str, actions: Collection[str] = tuple(FILES)) -> Domain:
    """A bundled domain by its name, or one's own by the path of its folder.

    Args:
        name: of the domain.
        actions: those in use; files of others are not needed.

    Raises:
        ConfigError: no such domain, or a file is missing or malformed; names the file and the key.
    """
    known = bundled_domains()
    folder = Path(str(files("rstar") / "prompts" / "mutual" / name)) if name in known else Path(name).expanduser()
    if not (folder / "domain.toml").is_file():
        raise ConfigError(
            f"search.domain {name!r}: not one of {', '.join(known)}, and no folder with a domain.toml; "
            "docs/mutual.md describes the files"
        )
    about = read_toml(folder / "domain.toml")
    _check(folder / "domain.toml", about := {"yes_no": False, **about}, {"about": str, "code": bool, "yes_no": bool})
    used = {action: folder / f"{file}.toml" for action, file in FILES.items() if action in {*actions, "finish"}}
    examples = {action: _examples(file) for action, file in used.items()}
    return Domain(name, about["about"], about["code"], about["yes_no"], name not in known, examples)


def _examples(file: Path) -> Examples:
    if not file.is_file():
        raise ConfigError(f"{file}: the domain has no prompts for this action")
    tree = read_toml(file)
    _check(file, tree, {"instruction": str, "example": list})
    for number, example in enumerate(tree["example"], 1):
        _check(f"{file}, example {number}", example, {"question": str, "solution": str})
    worked = tuple((example["question"].strip(), example["solution"].strip()) for example in tree["example"])
    return Examples(tree["instruction"], worked)


def _check(where: Path | str, tree: Any, keys: Mapping[str, type]) -> None:
    """Raise `ConfigError` unless `tree` has exactly these keys, of these types, none of them empty text."""
    if not isinstance(tree, dict):
        raise ConfigError(f"{where}: expected a table")
    if unknown := sorted(set(tree) - set(keys)):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(keys)}")
    for key, kind in keys.items():
        if key not in tree:
            raise ConfigError(f"{where}: the key {key!r} is missing")
        if type(tree[key]) is not kind or tree[key] == "" or (kind is list and not tree[key]):
            raise ConfigError(f"{where}: {key}: expected {_KINDS[kind]}")


_KINDS = {str: "a text that is not empty", bool: "true or false", list: "at least one [[example]]"}
