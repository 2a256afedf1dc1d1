"""A training as a process: what it says, and its exit status."""

import subprocess
import sys
from pathlib import Path

import pytest

from rstar.errors import BAD_INPUT, TrainingError
from rstar.models.decoder_files import load_decoder
from rstar.models.ppm.model import load_ppm
from rstar.train import command
from rstar.train.__main__ import main
from rstar.train.command import run_training
from tests.train.trainings import prepare

SHORT = "tokens = 1000\nwarmup_tokens = 0\nbatch_tokens = 512\nmicro_tokens = 512\ndevice = 'cpu'\nbase = '{0}'\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    prepare(folder)
    (folder / "recipe.toml").write_text(SHORT.format(folder / "base"))
    return folder


def arguments(home: Path, out: Path, kind: str = "sft") -> list[str]:
    data = home / ("train.jsonl" if kind == "sft" else "pairs.jsonl")
    return [kind, str(home / "recipe.toml"), "--data", str(data), "--out", str(out)]


@pytest.mark.parametrize(("kind", "load"), [("sft", load_decoder), ("ppm", load_ppm)])
def test_it_trains(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, load) -> None:
    assert main(arguments(home, tmp_path / "out", kind)) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"model written to {tmp_path / 'out' / 'model'}\n", "")  # no bar: no terminal
    assert load(tmp_path / "out" / "model").config.hidden_size == 16


def test_a_process_of_its_own(home: Path, tmp_path: Path) -> None:
    """Its status tells bad input from failure."""
    (tmp_path / "bad.toml").write_text("tokns = 3\n")
    given = arguments(home, tmp_path / "out")
    given[1] = str(tmp_path / "bad.toml")
    done = subprocess.run([sys.executable, "-m", "rstar.train", *given], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (BAD_INPUT, "")
    assert done.stderr == f"error: {tmp_path / 'bad.toml'}: unknown key 'tokns', did you mean 'tokens'?\n"


def test_exit_statuses(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = arguments(home, tmp_path / "out")
    missing[3] = str(tmp_path / "none.jsonl")
    assert main(missing) == BAD_INPUT
    assert "error: data file" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["sft", "recipe.toml", "--out", "out"])
    assert left.value.code == BAD_INPUT
    for error, status, said in (
        (TrainingError("the loss is nan \x1b[2J"), 1, "error: the loss is nan \ufffd[2J\n"),
        (KeyboardInterrupt(), 130, ""),
    ):

        def fail(*_: object, error: BaseException = error) -> Path:
            raise error

        capsys.readouterr()
        monkeypatch.setattr(command, "train_sft", fail)
        assert main(arguments(home, tmp_path / "out")) == status
        assert capsys.readouterr().err == said


def test_only_the_main_process_has_something_to_say(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as left:
        run_training("sft", tmp_path / "none.toml", [], tmp_path / "out")
    assert left.value.code == 1
    assert run_training("sft", home / "recipe.toml", [home / "train.jsonl"], tmp_path / "out") is None
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_settings_over_the_recipe(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(command, "train_sft", lambda config, data, out, report: seen.append((config, data, out)))
    run_training("sft", home / "recipe.toml", [Path("a"), Path("b")], tmp_path, ["tokens=7"], "sums")
    ((config, data, out),) = seen
    assert (config.tokens, config.warmup_tokens, config.wandb) == (7, 0, "sums")
    assert (data, out) == ([Path("a"), Path("b")], tmp_path)


def test_without_torch_the_missing_package_is_named(home: Path, tmp_path: Path) -> None:
    program = "import sys; sys.modules['torch'] = None; from rstar.train.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *arguments(home, tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == BAD_INPUT
    assert done.stderr == "error: training: needs torch; install rstar[local]\n"
