"""README's commands do what it says: they run, in small where they are long, and print what it shows."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

SMALLER = {
    "--n 100": "--n 3",
    "--limit 20": "--limit 2",
    "search.rollouts=32": "search.rollouts=2",
    "--n 36": "--n 2",
    "search.rollouts=16": "search.rollouts=2",
    "max_tokens = 2000": "max_tokens = 200",
    "processes = 2": "processes = 0",
}
"""What makes a command, a program or the recipe of README short enough for a test."""

LEFT = re.compile(r"^(make|source|pip) |judge serve|openai:|evolve run|runs/smoke")
"""Commands that are not run here: they install, serve, need a server, or take minutes."""


def parsed(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, without comments, and what is shown below each where it is a transcript (``$``)."""
    found: list[tuple[str, list[str]]] = []
    lines = block.replace("\\\n", " ").splitlines()
    transcript = any(line.startswith("$ ") for line in lines)
    for line in lines:
        if transcript and not line.startswith("$ "):
            found[-1][1].append(line)
        elif line.strip():
            found.append((re.sub(r"\s+#\s.*", "", line.removeprefix("$ ")), []))
    return found


SHOWN = {command: lines for kind, block in BLOCKS if not kind for command, lines in parsed(block)}
"""All commands of README, in its order, with the output that it shows."""


def smaller(text: str) -> str:
    for long, short in SMALLER.items():
        text = text.replace(long, short)
    return text


def shell(command: str, folder: Path) -> str:
    """What a command prints, in a folder with the recipes; it must succeed."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, command + "\n" + done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command prints, run in README's order."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    recipe = folder / "recipes" / "tiny" / "compare-search.toml"
    recipe.write_text(smaller(recipe.read_text()))
    return {command: shell(smaller(command), folder) for command in SHOWN if not LEFT.search(command)}


def the_one(words: str) -> str:
    """The command with output in README that begins with `words`."""
    (command,) = (command for command, lines in SHOWN.items() if lines and command.startswith(words))
    return command


def test_every_command_runs(printed: dict[str, str]) -> None:
    assert len(printed) >= 9
    for command, text in printed.items():
        assert text.strip(), command


def test_what_makes_commands_smaller_is_in_them() -> None:
    recipe = (ROOT / "recipes" / "tiny" / "compare-search.toml").read_text()
    assert all(long in README + recipe for long in SMALLER)


def test_options_of_the_other_commands_are_known(tmp_path: Path) -> None:
    options: dict[str, set[str]] = {}
    for command in SHOWN:
        if LEFT.search(command) and command.startswith("rstar "):
            words = shlex.split(command)
            name = " ".join(words[1:3] if words[1] in ("judge", "evolve") else words[1:2])
            options.setdefault(name, set()).update(word for word in words if word.startswith("--"))
    assert {"solve", "judge serve", "evolve run"} <= options.keys()
    for name, given in options.items():
        told = shell(f"rstar {name} --help", tmp_path)
        assert all(option in told for option in given)


def test_targets_of_make_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(SHOWN), re.MULTILINE):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("words", ["rstar grade", "echo"])
def test_exact_output(printed: dict[str, str], words: str) -> None:
    command = the_one(words)
    assert [line.rstrip() for line in printed[command].splitlines()] == SHOWN[command]


def test_the_tree_leads_to_the_answer_shown(printed: dict[str, str]) -> None:
    """A machine that rounds otherwise may grow another tree. The question and the answer stay."""
    command = the_one('rstar solve "A list')
    shown, real = SHOWN[command], printed[command].splitlines()
    assert max(map(len, shown)) <= 100
    assert real[0].startswith(shown[0])
    assert real[1].split() == shown[2].split(), "the legend"
    assert real[-2] == shown[-2], "the answer"
    assert any("▶" in line and "⇒ 6, 7" in line for line in shown)


def test_the_agent_tries_again(printed: dict[str, str]) -> None:
    """A machine that rounds otherwise may see other attempts. The beginning and the answer stay."""
    command = the_one('rstar solve "Boxes')
    shown, real = SHOWN[command], printed[command].splitlines()
    assert real[:15] == shown[:15]
    assert shown[-2] in real, "the answer"
    assert any("Error" in line for line in shown)


def test_the_comparison_has_the_columns_and_methods_shown(printed: dict[str, str]) -> None:
    command = the_one("rstar compare")
    shown, real = ([line for line in text if line.strip()] for text in (SHOWN[command], printed[command].splitlines()))
    assert real[0].split() == shown[0].split()
    names = [re.split(r"\s{2,}", line)[0] for line in real[2:5]]
    assert names == [re.split(r"\s{2,}", line)[0] for line in shown[2:5]]


def test_the_program_runs(tmp_path: Path) -> None:
    (program,) = (block for kind, block in BLOCKS if kind == "python")
    (tmp_path / "program.py").write_text(smaller(program))
    assert "<end_of_step>" in shell("python program.py", tmp_path)
