"""No text of problems, models, programs or run files commands the terminal, whatever the command that shows it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import rstar
from tests.cli.test_output import in_terminal

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\x7f\u202e\u2066evil\u2069\u2028"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files in which everything that can be text is hostile."""
    here = tmp_path_factory.mktemp("hostile")
    problem = {"id": HOSTILE, "question": f"{HOSTILE} 2 + 3?", "answer": HOSTILE, "family": HOSTILE}
    (here / "p.jsonl").write_text(lines(problem))
    (here / "other.jsonl").write_text(lines(problem | {"answer": f"[b]{HOSTILE}"}))
    (here / "twice.jsonl").write_text(lines(problem, problem))
    (here / "fields.jsonl").write_text(lines({HOSTILE: HOSTILE}))
    (here / "pairs.jsonl").write_text(lines({"id": HOSTILE, "gold": "1", "pred": [HOSTILE]}))
    (here / "golds.jsonl").write_text(lines({"id": HOSTILE, "answer": f"{HOSTILE}}}{{"}))
    (here / "compare.toml").write_text(
        f'policy = "fake:steps"\n[[entry]]\nname = {json.dumps("[b]" + HOSTILE)}\nsearch.method = "greedy"\n'
    )
    (here / "setting.toml").write_text(f"{json.dumps(HOSTILE)} = 1\n")
    text = json.dumps(HOSTILE)
    (here / "prints.py").write_text(
        f"import sys\nprint({text})\nprint({text}, file=sys.stderr)\nraise ValueError({text})\n"
    )
    rstar("solve", "--problems", "p.jsonl", "--policy", "fake:steps", "--out", "run", cwd=here)
    row = json.loads((here / "run" / "results.jsonl").read_text())
    row |= {"answer": HOSTILE, "notices": ["low_value"], "correct": True}
    (here / "run" / "results.jsonl").write_text(lines(row))
    tree = json.loads((here / "run" / "trees.jsonl").read_text())
    for node in tree["nodes"][1:]:
        node |= {"text": f"\ud800{HOSTILE}", "values": {HOSTILE: HOSTILE}, "error": node["error"] and HOSTILE}
        node["answer"] = node["answer"] and HOSTILE
    (here / "run" / "trees.jsonl").write_text(lines(tree))
    shutil.copytree(here / "run", here / "damaged")
    (here / "damaged" / "results.jsonl").write_text(f"{HOSTILE}\n")
    return here


FAKE = ["--policy", "fake:steps", "--set", "search.rollouts=3"]
COMMANDS: dict[str, tuple[int, list[str]]] = {
    "view": (0, ["view", "run"]),
    "view, a tree": (0, ["view", "run", HOSTILE]),
    "view, as JSON": (0, ["view", "run", HOSTILE, "--json"]),
    "view, no such problem": (2, ["view", "run", f"no{HOSTILE}"]),
    "view, no such run": (2, ["view", f"no{HOSTILE}"]),
    "view, damaged": (2, ["view", "damaged"]),
    "solve, a question": (0, ["solve", f"{HOSTILE} 2 + 3?", *FAKE]),
    "solve, random bytes": (3, ["solve", f"{HOSTILE} 2 + 3?", "--policy", "fake:noise"]),
    "solve, as JSON": (0, ["solve", f"{HOSTILE} 2 + 3?", *FAKE, "--json"]),
    "solve, a file": (0, ["solve", "--problems", "p.jsonl", *FAKE, "--out", "OUT"]),
    "solve, a bad file": (2, ["solve", "--problems", "twice.jsonl", *FAKE]),
    "solve, another field": (2, ["solve", "--problems", "fields.jsonl", "--question-field", "x", *FAKE]),
    "solve, a failing model": (1, ["solve", "--problems", "p.jsonl", "--policy", "fake:fail?rate=1", "--out", "OUT"]),
    "solve, a bad setting": (2, ["solve", "q", "--config", "setting.toml"]),
    "solve, a bad option": (2, ["solve", "q", f"--{HOSTILE}"]),
    "solve, a bad model": (2, ["solve", "q", "--policy", HOSTILE]),
    "grade": (1, ["grade", HOSTILE, f"2{HOSTILE}", "--explain"]),
    "grade, as JSON": (1, ["grade", HOSTILE, f"2{HOSTILE}", "--json"]),
    "grade, a run": (0, ["grade", "--run", "run", "--problems", "other.jsonl"]),
    "grade, golds": (1, ["grade", "--check-golds", "golds.jsonl"]),
    "grade, a bad file": (2, ["grade", "--file", "pairs.jsonl"]),
    "compare": (0, ["compare", "compare.toml", "--problems", "p.jsonl", "--out", "OUT", "--by", "family"]),
    "compare, a bad group": (
        2,
        ["compare", "compare.toml", "--problems", "p.jsonl", "--out", "OUT", "--by", f"family={HOSTILE}no"],
    ),
    "sandbox run": (1, ["sandbox", "run", "prints.py"]),
    "sandbox run, as JSON": (1, ["sandbox", "run", "prints.py", "--json"]),
    "sandbox run, no such file": (2, ["sandbox", "run", HOSTILE]),
}


NAMELESS = {"view, damaged", "grade, a bad file"}
"""Errors that name file and line only."""


@pytest.mark.parametrize("name", COMMANDS)
def test_no_text_commands_the_terminal(folder: Path, tmp_path: Path, name: str) -> None:
    """A dumb terminal gets no colours and no progress bars: every control character would be one of the text."""
    code, arguments = COMMANDS[name]
    arguments = [str(tmp_path / "out") if argument == "OUT" else argument for argument in arguments]
    shown = in_terminal(folder, 200, *arguments, term="dumb", code=code, errors=True).replace("\r\n", "\n")
    assert not FORBIDDEN.search(shown), repr(shown)
    assert "owned" in shown or name in NAMELESS


def test_json_loses_nothing(folder: Path) -> None:
    text = rstar("view", "run", HOSTILE, "--json", cwd=folder).stdout
    assert json.loads(text)["result"]["answer"] == HOSTILE


def test_colours_are_left(folder: Path) -> None:
    shown = in_terminal(folder, 120, "view", "run")
    assert "\x1b[" in shown
    assert "\x1b[2J" not in shown
