"""Whose folder it is, and what ``bf16 = "auto"`` means in it."""

import json
from pathlib import Path

import pytest

from rstar.errors import ConfigError, DataError, ResumeError
from rstar.train import folder as folders
from rstar.train.folder import training_folder
from rstar.train.settings import TrainConfig

CONFIG = TrainConfig(device="cpu")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "data.jsonl"
    file.write_text("{}\n")
    return file


@pytest.mark.parametrize("able", [True, False])
def test_a_run_keeps_the_arithmetic_that_it_began_with(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(folders, "computes_bf16", lambda device: able)
    with training_folder(CONFIG, [data], out) as (config, _):
        assert config.bf16 is able
    assert json.loads((out / "config.json").read_text())["identity"]["bf16"] is able
    monkeypatch.setattr(folders, "computes_bf16", lambda device: not able)  # another machine
    with training_folder(CONFIG, [data], out) as (config, _):
        assert config.bf16 is able
    with training_folder(CONFIG.model_copy(update={"bf16": able}), [data], out) as (config, _):
        assert config.bf16 is able
    refused = training_folder(CONFIG.model_copy(update={"bf16": not able}), [data], out)
    with pytest.raises(ResumeError, match="bf16"), refused:
        pass


def test_where_and_how_visibly_is_no_part_of_the_identity(tmp_path: Path, data: Path) -> None:
    with training_folder(CONFIG, [data], tmp_path / "out"):
        pass
    other = TrainConfig(device="auto", threads=1, checkpoint_seconds=5, tensorboard=False)
    with training_folder(other, [data], tmp_path / "out"):
        pass


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, data: Path) -> None:
    thesis = tmp_path / "out" / "model" / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    refused = training_folder(CONFIG, [data], tmp_path / "out")
    with pytest.raises(ResumeError, match="not empty: it holds 'model'"), refused:
        pass
    assert thesis.read_text() == "years of work"
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("[]")
    refused = training_folder(CONFIG, [data], other)
    with pytest.raises(ResumeError, match="is not the configuration of a run"), refused:
        pass


def test_a_base_that_is_not_there_claims_nothing(tmp_path: Path, data: Path) -> None:
    refused = training_folder(CONFIG.model_copy(update={"base": Path("tiny")}), [data], tmp_path / "out")
    with pytest.raises(ConfigError, match="base = 'tiny': not a model folder"), refused:
        pass
    assert not (tmp_path / "out" / "config.json").exists()


def test_a_new_folder_in_which_a_training_is_refused_is_gone_again(tmp_path: Path, data: Path) -> None:
    def refuse(out: Path, wrote: str = "") -> None:
        with training_folder(CONFIG, [data], out):
            if wrote:
                (out / wrote).write_text("half")
            raise DataError("bad lines")

    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with pytest.raises(DataError, match="bad lines"):
            refuse(tmp_path / name, "tokens.npz")
        assert not (tmp_path / name).exists()
    with training_folder(CONFIG, [data], tmp_path / "known"):
        pass
    with pytest.raises(DataError, match="bad lines"):
        refuse(tmp_path / "known")
    assert (tmp_path / "known" / "config.json").exists()
    with pytest.raises(DataError, match="bad lines"):
        refuse(tmp_path / "hours", "checkpoint.pt")
    assert (tmp_path / "hours" / "checkpoint.pt").exists()


def test_two_trainings_cannot_share_it(tmp_path: Path, data: Path) -> None:
    with (
        training_folder(CONFIG, [data], tmp_path / "out"),
        pytest.raises(ResumeError, match="in use"),
        training_folder(CONFIG, [data], tmp_path / "out"),
    ):
        pass
    with training_folder(CONFIG, [data], tmp_path / "out"):
        pass
