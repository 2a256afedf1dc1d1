"""What commands print: whole in pipes, fitted in terminals, with notices, reasons and exit codes."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import rstar, start

QUESTION = "What is " + " + ".join(str(n) for n in range(1, 60)) + ", all in all?"
LONGEST_ID = "the-name-of-problem-17"
ALONE = ["--set", "engine.processes=0"]
"""The bundled model in the command's own process: soon ready."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run `run` and a comparison `c` of two long-named methods."""
    here = tmp_path_factory.mktemp("runs")
    rows = [{"id": LONGEST_ID, "question": QUESTION, "answer": "1"}, {"id": "b", "question": "q", "answer": "2"}]
    (here / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (here / "c.toml").write_text(
        'policy = "fake:steps"\n[[entry]]\nname = "greedy decoding"\nsearch.method = "greedy"\n'
        '[[entry]]\nname = "verified best-of-N, early stop"\nsearch = { method = "sample", samples = 2 }\n'
    )
    fake = ["--policy", "fake:steps", "--set", "search.rollouts=2"]
    rstar("solve", "--problems", "p.jsonl", *fake, "--out", "run", cwd=here)
    rstar("compare", "c.toml", "--problems", "p.jsonl", "--out", "c", cwd=here)
    return here


def in_terminal(
    folder: Path, width: int, *arguments: str, term: str = "xterm", code: int = 0, errors: bool = False
) -> str:
    """What a command prints in a terminal of this many columns: its output, and on request its errors."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": term}
    ours, theirs = pty.openpty()
    os.set_blocking(ours, True)
    subprocess.run(["stty", "cols", str(width)], stdin=theirs, check=True)
    with open(os.devnull, "r+b") as nothing:
        null = nothing.fileno()
        process = start(arguments, (null, theirs, theirs if errors else null), folder, environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            text += os.read(ours, 1 << 16)
        except OSError:  # the terminal's other side is closed
            break
    os.close(ours)
    process.join()
    assert process.exitcode == code, text.decode()
    return text.decode()


def plain(text: str) -> list[str]:
    """The lines without colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").split("\n")


TABLES = {
    "view": ["view", "run"],
    "compare": ["compare", "c.toml", "--problems", "p.jsonl", "--out", "c"],
    "families": ["problems", "families"],
    "settings": ["info", "--settings"],
    "info": ["info"],
}
NEEDED = {
    "view": [LONGEST_ID, "wrong"],
    "compare": ["accuracy [95%]", "p"],
    "families": ["two-equations", "unknowns"],
    "settings": ["search.rollouts", "12"],
    "info": ["model tiny", "bundled"],
}


@pytest.mark.parametrize("name", TABLES)
def test_nothing_is_cut_in_a_pipe(folder: Path, name: str) -> None:
    text = rstar(*TABLES[name], cwd=folder).stdout
    for part in NEEDED[name]:
        assert part in text
    assert "too narrow" not in text
    if name == "view":
        assert "…" not in text
        assert QUESTION in text
        assert all(column in text for column in ("rollouts", "tokens", "seconds"))
    if name == "compare":
        assert all(column in text for column in ("difference", "any correct", "tokens"))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["view", "compare"])
def test_tables_fit_and_keep_what_matters(folder: Path, name: str, width: int) -> None:
    text = in_terminal(folder, width, *TABLES[name])
    lines = plain(text)
    assert max(map(len, lines)) <= width
    for part in NEEDED[name]:
        assert part in "\n".join(lines)


def test_a_comparison_has_no_tree_and_may_be_damaged(folder: Path) -> None:
    error = rstar("view", "c", "b", code=2, cwd=folder).stderr
    assert "c/greedy decoding" in error
    (folder / "damaged").mkdir()
    for lines in ("[]", '[{"group": "g", "cpu": null}]'):
        (folder / "damaged" / "comparison.json").write_text(f'{{"first": "a", "lines": {lines}}}')
        assert "comparison.json: damaged" in rstar("view", "damaged", code=2, cwd=folder).stderr


def test_a_tree_is_whole_in_a_pipe(folder: Path) -> None:
    tree = rstar("view", "run", LONGEST_ID, cwd=folder).stdout
    assert QUESTION in tree.splitlines()[0]
    assert "…" not in tree


def test_view_as_json(folder: Path) -> None:
    found = json.loads(rstar("view", "run", "--json", cwd=folder).stdout)
    assert [row["id"] for row in found["results"]] == [LONGEST_ID, "b"]
    assert found["summary"]["n"] == 2
    tree = json.loads(rstar("view", "run", "b", "--json", cwd=folder).stdout)
    assert tree["result"]["id"] == "b"
    assert tree["nodes"][0]["parent"] == -1


def test_a_run_is_graded_anew(folder: Path) -> None:
    results = json.loads(rstar("view", "run", "--json", cwd=folder).stdout)["results"]
    answers = {row["id"]: row["answer"] for row in results}
    rows = [{"id": "b", "question": "q", "solution": f"So \\boxed{{{answers['b']}}}"}]
    rows.append({"id": LONGEST_ID, "question": QUESTION, "answer": "1"})
    (folder / "corrected.json").write_text(json.dumps(rows))
    before = (folder / "run" / "results.jsonl").read_bytes()
    command = ["grade", "--run", "run", "--problems", "corrected.json"]
    text = rstar(*command, cwd=folder).stdout
    assert "1 verdict of 2 problems changed: accuracy 0.0% " in text
    assert "50.0%" in text
    found = json.loads(rstar(*command, "--json", "--out", "regraded", cwd=folder).stdout)
    assert [(change["id"], change["now"]["correct"]) for change in found["changed"]] == [("b", True)]
    assert json.loads((folder / "regraded" / "summary.json").read_text())["accuracy"] == 0.5
    assert (folder / "run" / "results.jsonl").read_bytes() == before
    assert "the path already exists" in rstar(*command, "--out", "regraded", code=2, cwd=folder).stderr
    rstar("view", "regraded", "b", cwd=folder)


def test_another_gold_answer_is_refused_with_the_way_out(folder: Path) -> None:
    rows = [{"id": LONGEST_ID, "question": QUESTION, "answer": "9"}, {"id": "b", "question": "q", "answer": "2"}]
    (folder / "other.json").write_text(json.dumps(rows))
    fake = ["--policy", "fake:steps", "--set", "search.rollouts=2"]
    done = rstar("solve", "--problems", "other.json", *fake, "--out", "run", code=2, cwd=folder)
    assert "gold answers: " in done.stderr
    assert "`rstar grade --run`" in done.stderr


def test_a_question_without_an_answer_says_why_and_exits_with_3() -> None:
    done = rstar("solve", "q", "--policy", "fake:noise", "--method", "greedy", code=3)
    assert "no answer: no branch of the search reached one (" in done.stdout
    assert json.loads(rstar("solve", "q", "--policy", "fake:noise", "--json", code=3).stdout)["answer"] is None


def test_a_lone_question_has_no_name_in_errors() -> None:
    done = rstar("solve", "q", "--policy", "fake:fail?rate=1", code=1)
    assert "problem" not in done.stderr


def test_a_question_that_is_too_long_is_named(tmp_path: Path) -> None:
    rows = [{"id": "long", "question": "1 + " * 2_000 + "1", "answer": "1"}]
    rows.append({"id": "short", "question": "Solve for x: 7x + 5 = 61.", "answer": "8"})
    (tmp_path / "p.json").write_text(json.dumps(rows))
    text = rstar("solve", "--problems", "p.json", "--method", "greedy", *ALONE, "--out", "run", cwd=tmp_path).stdout
    assert "question too long" in text
    assert "1 of 2 problems: the question is too long for the model's context" in text
    found: dict[str, Any] = json.loads(rstar("view", "run", "--json", cwd=tmp_path).stdout)
    assert "question_too_long" in found["results"][0]["notices"]
    assert found["results"][1]["notices"] == []
    assert found["summary"]["notices"]["question_too_long"] == 1
    done = rstar("solve", rows[0]["question"], "--method", "greedy", *ALONE, code=3)
    assert "no answer: the question is too long for the model's context" in done.stdout


def test_notices_of_the_bundled_model(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps([{"question": "1+1"}, {"question": "Solve for x: 7x + 5 = 61."}]))
    few = ["--set", "search.rollouts=2", "--set", "search.expansions=2", *ALONE]
    text = rstar("solve", "--problems", "p.json", *few, "--out", "run", cwd=tmp_path).stdout
    assert "1 of 2 problems: the bundled model was not trained on this wording" in text
    results = json.loads(rstar("view", "run", "--json", cwd=tmp_path).stdout)["results"]
    assert "unknown_wording" in results[0]["notices"]
    assert results[1]["notices"] == []
    assert "notice:" in rstar("view", "run", "0", cwd=tmp_path).stdout


def test_other_models_get_no_notices_of_the_bundled_one() -> None:
    found = json.loads(rstar("solve", "What is 1 + 1?", "--policy", "fake:steps", "--json").stdout)
    assert found["notices"] == []
