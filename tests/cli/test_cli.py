"""The command line as a user meets it, on the fake engine and the real sandbox."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rstar.cli.app import app
from tests.cli.commands import rstar


@pytest.mark.parametrize(
    "command",
    ["", "solve", "compare", "view", "demo", "info", "problems make", "sandbox run", "train sft", "bench search"],
)
def test_help_teaches(command: str) -> None:
    text = rstar(*command.split(), "--help").stdout
    assert len(text.splitlines()) > 8


def test_question_as_json() -> None:
    found = json.loads(rstar("solve", "What is 2 + 2?", "--policy", "fake:steps", "--json").stdout)
    assert found["method"] == "mcts"
    assert {"answer", "rollouts", "tokens_out", "trajectories"} <= set(found)


def test_question_for_people() -> None:
    text = rstar("solve", "What is 2 + 2?", "--policy", "fake:steps", "--method", "mcts").stdout
    assert "What is 2 + 2?" in text
    assert "rollouts" in text


def test_drawn_problems_and_rollouts_of_an_agent(tmp_path: Path) -> None:
    command = ["solve", "--family", "search", "--method", "agent", "--policy", "fake:steps", "--samples", "3"]
    command += ["--temperature", "0.5", "--seed", "5", "--out", "run", "--limit"]
    shown = rstar(*command, "4", "--levels", "2", cwd=tmp_path).stdout
    assert "accuracy" in shown
    assert re.search(r"rollouts: mean@3 [0-9.]+%, pass@3 [0-9.]+%; [0-9.]+ turns each", shown)
    drawn = [json.loads(line) for line in (tmp_path / "run" / "problems.jsonl").read_text().splitlines()]
    results = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert [row["id"] for row in drawn] == [row["id"] for row in results]
    assert {row["rollouts"] for row in results} == {3}
    assert {row["level"] for row in drawn} == {2}
    search = json.loads((tmp_path / "run" / "config.json").read_text())["config"]["search"]
    assert (search["samples"], search["temperature"]) == (3, 0.5)
    assert "begun with another configuration" in rstar(*command, "3", cwd=tmp_path, code=2).stderr


def test_problem_file_then_view(tmp_path: Path) -> None:
    rstar(
        "problems",
        "make",
        "--n",
        "6",
        "--seed",
        "3",
        "--family",
        "game24",
        "--family",
        "word",
        "--out",
        "p.jsonl",
        cwd=tmp_path,
    )
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert len({row["id"] for row in rows}) == 6
    done = rstar(
        "solve", "--problems", "p.jsonl", "--policy", "fake:steps", "--method", "beam", "--limit", "3", "--out", "run",
        "--set", "search.expansions=4", cwd=tmp_path,
    )  # fmt: skip
    assert "accuracy" in done.stdout
    assert "run folder run" in done.stdout
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["n"] == 3
    assert rows[0]["question"][:30] in rstar("view", "run", cwd=tmp_path).stdout
    assert rows[0]["question"][:30] in rstar("view", "run", rows[0]["id"], cwd=tmp_path).stdout
    rstar("view", "run", "nothing", code=2, cwd=tmp_path)
    assert "not finished" not in rstar("view", "run", cwd=tmp_path).stdout
    (tmp_path / "run" / "summary.json").unlink()
    assert "not finished: 3 of 3 problems so far" in rstar("view", "run", cwd=tmp_path).stdout
    assert "it holds runs: run" in rstar("view", ".", code=2, cwd=tmp_path).stderr
    (tmp_path / "run" / "results.jsonl").unlink()
    assert "nothing to show yet" in rstar("view", "run", code=2, cwd=tmp_path).stderr


def test_another_problem_file_is_not_replaced(tmp_path: Path) -> None:
    command = ["problems", "make", "--seed", "7", "--out", "p.jsonl", "--n"]
    rstar(*command, "3", cwd=tmp_path)
    before = (tmp_path / "p.jsonl").read_bytes()
    rstar(*command, "3", cwd=tmp_path)  # the same problems again
    assert "p.jsonl exists and has other content" in rstar(*command, "2", code=2, cwd=tmp_path).stderr
    assert (tmp_path / "p.jsonl").read_bytes() == before


def test_an_interrupted_comparison_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rstar.cli.compare.run_entries", interrupt)
    problems, recipe = tmp_path / "p.jsonl", tmp_path / "r.toml"
    problems.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    recipe.write_text('[[entry]]\nname = "a"\npolicy = "fake:steps"\n')
    done = CliRunner().invoke(app, ["compare", str(recipe), "--problems", str(problems), "--out", "runs"])
    assert done.exit_code == 130
    assert "interrupted; to resume runs, repeat the command" in done.stderr


@pytest.mark.parametrize("handler", ["SIG_IGN", "default_int_handler"])  # in a shell's background, and elsewhere
@pytest.mark.parametrize(
    ("command", "begun", "left"),
    [
        ("problems make --n 2000000 --out new.jsonl", "new.jsonl.new.part", ["p.jsonl"]),
        ("solve --problems p.jsonl --policy fake:steps --out run", "run/results.jsonl", ["p.jsonl", "run"]),
    ],
)
def test_sigterm_interrupts(tmp_path: Path, handler: str, command: str, begun: str, left: list[str]) -> None:
    (tmp_path / "p.jsonl").write_text("".join(f'{{"question": "{n} + 1?", "answer": "2"}}\n' for n in range(20_000)))
    code = f"import signal; signal.signal(signal.SIGINT, signal.{handler}); from rstar.cli.app import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *command.split()], cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while not ((tmp_path / begun).exists() and (tmp_path / begun).stat().st_size):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        errors = process.communicate(timeout=60)[1].decode()
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert ("interrupted with" in errors) == (begun == "run/results.jsonl")
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_default_run_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps([{"question": "q"}]))
    done = rstar("solve", "--problems", "p.json", "--policy", "fake:steps", "--method", "greedy", cwd=tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name in done.stdout.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["solve"], "give a question, --problems FILE or --family NAME"),
        (["solve", "q", "--family", "search"], "give a question, --problems FILE or --family NAME"),
        (["solve", "q", "--levels", "1"], "--levels: only with --family"),
        (["solve", "--family", "search", "--levels", "9"], "levels '9': expected a level from 1 to 5"),
        (["solve", "--family", "serch"], "unknown family 'serch', did you mean 'search'?"),
        (["solve", "q", "--samples", "2"], "search.samples is a setting of sample, best-of-n, agent"),
        (["solve", "q", "--set", "search.rolouts=3"], "did you mean 'search.rollouts'"),
        (["solve", "q", "--policy", "gpt"], "model 'gpt' is not one of tiny"),
        (["solve", "q", "--value", "gold"], "agreement"),
        (["solve", "q", "--policy", "hf:/nowhere"], "/nowhere"),
        (["solve", "--problems", "bad.jsonl", "--policy", "fake:steps"], "bad.jsonl:2: 'question' must be"),
        (["solve", "--problems", "none.jsonl"], "none.jsonl"),
        (["problems", "make", "--n", "1", "--levels", "0-9", "--out", "x"], "levels '0-9'"),
        (["problems", "make", "--n", "1", "--family", "chess", "--out", "x"], "unknown family 'chess'"),
        (["view", "."], "is not a run folder"),
        (["view", "damaged"], "results.jsonl:1: damaged"),
        (["view", "foreign"], "results.jsonl:1: damaged: not an object with 'id'"),
        (["solve", "q", "--out", "run"], "--out: only with --problems"),
        (["solve", "q", "--limit", "1", "--answer-field", "a"], "--limit, --answer-field: only with --problems"),
        (["solve", "q", "--policy", "hf:org/a-model"], "hf download org/a-model --local-dir models/a-model"),
        (["solve", "q", "--value", "ppm:org/a-model"], "Models are not downloaded from a hub"),
        (["solve", "--problems", "two.jsonl"], "fields 'question' and 'problem' could both be the question"),
        (["solve", "--problems", "p.jsonl", "--question-field", "text"], "no entry has a field 'text'"),
        (["solve", "--problems", "bad.csv"], "bad.csv:2: 3 cells, but the first line names 2 columns"),
        (["grade", "--run", "damaged"], "not the folder of a finished run"),
        (["grade", "--problems", "p.jsonl", "1", "2"], "--problems needs --run"),
        (["grade", "--run", "damaged", "--file", "p.jsonl"], "exactly one of"),
        (
            ["solve", "q", "--method", "sample", "--set", "search.early_stop=true"],
            "search.early_stop is a setting of best-of-n, beam, mcts; the method here is sample",
        ),
        (["solve", "q", "--policy", "openai:http://localhost:x#m"], "Port could not be cast"),
        (["solve", "q", "--config", "latin.toml"], "latin.toml: not UTF-8 text (byte 2)"),
        (["solve", "--problems", "p.jsonl", "--policy", "fake:steps", "--out", "p.jsonl"], "cannot make the folder"),
        (["compare", ".", "--problems", "p.jsonl", "--out", "c"], "cannot read ."),
        (["problems", "make", "--n", "1", "--out", "p.jsonl/x"], "cannot write p.jsonl/x"),
        (["sandbox", "run", "none.py"], "none.py"),
        (["solve", "  "], "the question is empty"),
        (["solve", "q", "--set", "search.method=mtcs"], "did you mean 'mcts'?"),
        (["solve", "q", "--set", "search=3"], "search = 3: expected a group of settings, such as search.method"),
        (["solve", "q", "--set", "search.c=inf"], "search.c"),
        (["solve", "q", "--set", "engine.device=nowhere"], "device 'nowhere'"),
        (["solve", "q", "--policy", "fake:stepz"], "fake:stepz"),
        (
            ["compare", "fine.toml", "--problems", "p.jsonl", "--out", "c"],
            "p.jsonl: 1 problem has no gold answer, the first: '0'",
        ),
        (["compare", "r.toml", "--problems", "g.jsonl", "--out", "c"], "fake:stepz"),
        (["compare", "up.toml", "--problems", "g.jsonl", "--out", "c"], "a 'name' that can be the name of a folder"),
        (["compare", "flat.toml", "--problems", "g.jsonl", "--out", "c"], "[[entry]] tables"),
        (["problems", "make", "--n", "1", "--family", "gmae24", "--out", "x"], "did you mean 'game24'?"),
    ],
)
def test_bad_input_is_named_before_any_work(tmp_path: Path, arguments: list[str], reason: str) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "q"}\n{"q": 1}\n')
    (tmp_path / "p.jsonl").write_text('{"question": "q"}\n')
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    (tmp_path / "two.jsonl").write_text('{"question": "q", "problem": "r"}\n')
    (tmp_path / "bad.csv").write_text("question,answer\nq,1,2\n")
    (tmp_path / "g.jsonl").write_text('{"question": "q", "answer": "1"}\n')
    (tmp_path / "r.toml").write_text(
        '[[entry]]\nname = "a"\npolicy = "fake:steps"\n[[entry]]\nname = "b"\npolicy = "fake:stepz"\n'
    )
    (tmp_path / "fine.toml").write_text('[[entry]]\nname = "a"\npolicy = "fake:steps"\n')
    (tmp_path / "up.toml").write_text('[[entry]]\nname = ".."\n')
    (tmp_path / "flat.toml").write_text("entry = [1, 2]\n")
    for name, line in (("damaged", "{"), ("foreign", "{}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.jsonl").write_text(line + "\n")
    done = rstar(*arguments, code=2, cwd=tmp_path)
    assert reason in done.stderr
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "c").exists()


def test_skip_bad_goes_on_and_counts(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "q"}\n{"q": 1}\n')
    done = rstar(
        "solve",
        "--problems",
        "bad.jsonl",
        "--skip-bad",
        "--policy",
        "fake:steps",
        "--json",
        "--out",
        "run",
        cwd=tmp_path,
    )
    assert json.loads(done.stdout)["skipped"] == 1


def test_a_lost_model_is_not_a_wrong_answer(tmp_path: Path) -> None:
    done = rstar("solve", "q", "--policy", "fake:fail?rate=1", code=1, cwd=tmp_path)
    assert "error (model)" in done.stderr


def test_sandbox_run() -> None:
    good = rstar("sandbox", "run", "-", "--json", stdin="x = 20\nx + 3\n")
    found = json.loads(good.stdout)
    assert (found["status"], found["stdout"], found["error"]) == ("ok", "23\n", None)
    bad = json.loads(rstar("sandbox", "run", "-", "--json", stdin="a = 1\n1 / 0\n", code=1).stdout)
    assert (bad["status"], bad["error"]["kind"], bad["error"]["line"]) == ("error", "ZeroDivisionError", 2)
    slow = rstar("sandbox", "run", "-", "--set", "sandbox.seconds=0.3", stdin="while True: pass", code=1)
    assert "timeout" in slow.stderr


def test_half_characters_of_an_exception() -> None:
    found = json.loads(rstar("sandbox", "run", "-", "--json", stdin='raise ValueError("\\ud800")', code=1).stdout)
    assert found["error"]["message"] == "?"


def test_code_is_shown_as_it_is(tmp_path: Path) -> None:
    done = rstar("sandbox", "run", "-", stdin="print('xs[0:m:2]', '3:100:5')")
    assert "xs[0:m:2] 3:100:5" in done.stdout


def test_info() -> None:
    facts = json.loads(rstar("info", "--json").stdout)
    assert facts["versions"]["rstar"]
    assert facts["isolation"]["level"] in ("full", "no-namespaces", "limits")
    assert facts["isolation"]["mechanisms"]
    assert "isolation" in rstar("info").stdout
    known = json.loads(rstar("info", "--settings", "--json").stdout)
    rollouts = {tuple(one["methods"]): one["default"] for one in known if one["setting"] == "search.rollouts"}
    assert rollouts == {("mcts",): 12, ("mutual",): 32}
    assert all(one["meaning"] for one in known)
    assert "search.rollouts" in rstar("info", "--settings").stdout
    assert rstar("--version").stdout == f"rstar {facts['versions']['rstar']}\n"


def test_compare(tmp_path: Path) -> None:
    rstar("problems", "make", "--n", "4", "--out", "p.jsonl", cwd=tmp_path)
    (tmp_path / "r.toml").write_text(
        '[[entry]]\nname = "greedy"\nsearch.method = "greedy"\n'
        '[[entry]]\nname = "sample"\nsearch = { method = "sample", samples = 4 }\n'
    )
    arguments = ["compare", "r.toml", "--problems", "p.jsonl", "--policy", "fake:steps", "--out", "c"]
    rows = json.loads(rstar(*arguments, "--json", cwd=tmp_path).stdout)
    assert [row["name"] for row in rows] == ["greedy", "sample"]
    assert rows[0]["p"] is None
    assert (tmp_path / "c" / "sample" / "summary.json").exists()
    printed = rstar(*arguments, cwd=tmp_path).stdout
    assert "relative to greedy" in printed
    assert rstar("view", "c", cwd=tmp_path).stdout == printed
    rows = json.loads(rstar(*arguments, "--by", "level=1", "--by", "kind", "--json", cwd=tmp_path).stdout)
    groups = {row["group"]: row["n"] for row in rows if row["name"] == "sample"}
    assert all((row["cpu"] is None) == (row["n"] < 4) for row in rows), "known for all problems together only"
    assert groups.pop("all problems") == 4
    assert groups.pop("level=1") + groups.pop("level other than 1", 0) == 4
    assert sum(groups.values()) == 4
    printed = rstar(*arguments, "--by", "level=1", cwd=tmp_path).stdout
    assert "level=1 (n = " in printed
    assert rstar("view", "c", cwd=tmp_path).stdout == printed
    rstar(*arguments, "--png", "curve.png", cwd=tmp_path)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "no problem has the label 'king'" in rstar(*arguments, "--by", "king", code=2, cwd=tmp_path).stderr


def test_agents_are_compared_by_rollouts_too(tmp_path: Path) -> None:
    rstar("problems", "make", "--n", "3", "--out", "p.jsonl", cwd=tmp_path)
    (tmp_path / "r.toml").write_text(
        'policy = "fake:steps"\n[[entry]]\nname = "greedy"\nsearch.method = "greedy"\n'
        '[[entry]]\nname = "one"\nsearch = { method = "agent", samples = 4 }\n'
        '[[entry]]\nname = "two"\nseed = 1\nsearch = { method = "agent", samples = 4 }\n'
    )
    arguments = ["compare", "r.toml", "--problems", "p.jsonl", "--out", "c"]
    printed = rstar(*arguments, cwd=tmp_path).stdout
    assert "mean@4" in printed
    assert rstar("view", "c", cwd=tmp_path).stdout == printed
    as_json = rstar(*arguments, "--json", cwd=tmp_path).stdout
    assert rstar("view", "c", "--json", cwd=tmp_path).stdout == as_json
    greedy, one, two = (row["rollouts"] for row in json.loads(as_json))
    assert greedy is None
    assert (one["k"], one["problems"], one["difference"]) == (4, 3, None)
    assert two["difference"][0] == pytest.approx(two["mean"] - one["mean"])
    assert one["turns"] >= 1


def test_settings_outside_of_entries_hold_for_all(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('[{"question": "q", "answer": "1"}]')
    (tmp_path / "r.toml").write_text(
        'policy = "fake:steps"\nsearch.samples = 3\n[[entry]]\nname = "a"\nsearch.method = "sample"\n'
        '[[entry]]\nname = "b"\nsearch = { method = "sample", samples = 2 }\n'
    )
    rstar("compare", "r.toml", "--problems", "p.json", "--out", "c", cwd=tmp_path)
    found = {name: json.loads((tmp_path / "c" / name / "results.jsonl").read_text())["rollouts"] for name in "ab"}
    assert found == {"a": 3, "b": 2}


def test_every_entry_is_checked_before_the_first_runs(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('[{"question": "q", "answer": "1"}]')
    (tmp_path / "r.toml").write_text(
        'policy = "fake:steps"\n[[entry]]\nname = "a"\n[[entry]]\nname = "b"\nvalue = "agreemnt"\n'
    )
    assert "agreemnt" in rstar("compare", "r.toml", "--problems", "p.json", "--out", "c", code=2, cwd=tmp_path).stderr
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "text",
    [
        f'[[entry]]\nname = "{"a" * 300}"',
        '[[entry]]\nname = "nul\\u0000x"',
        '[[entry]]\nname = ".."',
        "",
        "serach = 3\n[[entry]]\nname = 'a'\n",
        "[[entry]]\n",
        '[[entry]]\nname = "a"\nsearch.methd = "x"',
        "x = ",
    ],
)
def test_bad_comparisons_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.toml").write_text(text)
    (tmp_path / "p.json").write_text('[{"question": "q", "answer": "1"}]')
    done = rstar("compare", "r.toml", "--problems", "p.json", "--out", "c", code=2, cwd=tmp_path)
    assert "r.toml" in done.stderr


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "rounds.json").write_text('{"rounds": []}')
    program = (
        "import sys\n"
        "for name in ('torch', 'tokenizers', 'safetensors'): sys.modules[name] = None\n"
        "sys.argv = ['rstar', *sys.argv[1:]]\n"
        "from rstar.cli.app import main\n"
        "main()\n"
    )
    for command in (["train", "settings"], ["evolve", "settings"], ["view", str(tmp_path)]):
        done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert "install rstar[local]" in done.stderr
        assert "Traceback" not in done.stderr
