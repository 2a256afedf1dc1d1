"""Run folders: resumed, sealed, refused, locked; what a crash and a full disk cost."""

import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import ConfigError, DataError, EngineError, ResumeError, StorageError
from rstar.jsonl import read_lines
from rstar.runs import CONFIG, RESULTS, TREES, RunFolder, read_config

IDENTITY = {"seed": 1, "search.c": 2.0}


def open_run(folder: Path) -> RunFolder:
    return RunFolder.open(folder, IDENTITY, {"versions": {}}, (RESULTS, TREES))


def finished(run: RunFolder) -> set[str]:
    return run.record_file(RESULTS).keys


def test_results_survive_reopening(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.add(results={"id": "a", "x": 1}, trees={"id": "a", "nodes": []})
    with open_run(tmp_path / "run") as run:
        assert finished(run) == {"a"}
        run.add(results={"id": "b", "x": 2})
        assert [row["id"] for row in run.record_file(RESULTS)] == ["a", "b"]


@given(cut=st.integers(0, 60), tree=st.booleans())
def test_a_crash_costs_at_most_the_line_being_written(
    tmp_path_factory: pytest.TempPathFactory, cut: int, tree: bool
) -> None:
    """Cut the file anywhere in its last line: what was before stays, and the rest can be written again."""
    folder = tmp_path_factory.mktemp("r") / "run"
    with open_run(folder) as run:
        for name in "ab":
            run.add(results={"id": name, "text": "ä" * 20}, trees={"id": name, "nodes": [1]})
    file = folder / (TREES if tree else RESULTS)
    content = file.read_bytes()
    first = content.index(b"\n") + 1
    file.write_bytes(content[: max(first, len(content) - cut)])
    with open_run(folder) as run:
        assert "a" in finished(run)
        if "b" not in finished(run):
            run.add(results={"id": "b", "text": "again"}, trees={"id": "b", "nodes": [2]})
        run.seal(["a", "b"], {"n": 2})
    results = list(read_lines(folder / RESULTS))
    assert [row["id"] for row in results] == ["a", "b"]
    trees = {row["id"]: row["nodes"] for row in read_lines(folder / TREES)}
    if not tree:  # a result and the tree that it came from, never the tree of a try that was lost
        assert trees == {"a": [1], "b": [2] if results[1]["text"] == "again" else [1]}


def test_a_tree_without_its_result_is_dropped(tmp_path: Path) -> None:
    """A crash between the two leaves it; the problem is solved again."""
    with open_run(tmp_path / "run") as run:
        run.add(results={"id": "a"}, trees={"id": "a", "nodes": [1]})
        run.record_file(TREES).append({"id": "b", "nodes": [1]})
    with open_run(tmp_path / "run") as run:
        assert run.record_file(TREES).keys == {"a"}
        run.add(results={"id": "b"}, trees={"id": "b", "nodes": [2]})
    assert [row["nodes"] for row in read_lines(tmp_path / "run" / TREES)] == [[1], [2]]


def test_record_files_have_any_names(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", IDENTITY, record_files=("rounds.jsonl",)) as run:
        run.add(rounds={"id": 1})
        assert list(run.record_file("rounds.jsonl")) == [{"id": 1}]
    with RunFolder.open(tmp_path / "run", IDENTITY) as run:
        assert not run.new


def test_sealed_files_do_not_depend_on_the_order_of_finishing(tmp_path: Path) -> None:
    for folder, order in (("one", "abc"), ("two", "cab")):
        with open_run(tmp_path / folder) as run:
            for name in order:
                run.add(results={"id": name}, trees={"id": name, "nodes": []})
            run.seal("abc", {"n": 3})
    for name in (RESULTS, TREES, "summary.json", "config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_another_configuration_is_refused_and_named(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.begin()
    with pytest.raises(ResumeError) as caught:
        RunFolder.open(tmp_path / "run", {"seed": 2, "search.c": 2.0, "new": 0}, {})
    assert "seed: 1 there, 2 now" in str(caught.value)
    assert "new" in str(caught.value)
    assert "search.c" not in str(caught.value)
    assert caught.value.keys == {"seed", "new"}


def test_a_refusal_shows_no_digests(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", {"problems": "0" * 64}, {}) as run:
        run.begin()
    with pytest.raises(ResumeError, match=r"problems: the content has changed$"):
        RunFolder.open(tmp_path / "run", {"problems": "1" * 64}, {})


def test_a_run_of_another_kind_is_refused_in_few_lines(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.begin()
    with pytest.raises(ResumeError, match=r"… and 20 more: perhaps a run of another kind") as caught:
        RunFolder.open(tmp_path / "run", {f"key{i}": i for i in range(30)}, {})
    assert len(caught.value.keys) == 32
    assert len(str(caught.value).splitlines()) == 14


def test_the_configuration_is_read(tmp_path: Path) -> None:
    assert read_config(tmp_path) is None
    with open_run(tmp_path / "run") as run:
        assert run.new
        run.begin()
    assert read_config(tmp_path / "run") == {"identity": IDENTITY, "versions": {}}


def test_a_run_that_never_began_claims_nothing(tmp_path: Path) -> None:
    with open_run(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json.part").write_text("{")  # killed at the first write
    with RunFolder.open(tmp_path / "run", {"seed": 2}, {}) as run:
        run.begin()
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["config.json"]


def test_a_run_that_failed_before_it_achieved_anything_claims_nothing(tmp_path: Path) -> None:
    def fail(add: bool) -> None:
        with open_run(tmp_path / "run") as run:
            run.begin()
            if add:
                run.add(results={"id": "a"})
            raise EngineError("no such model")

    for achieved in (False, True):
        with pytest.raises(EngineError):
            fail(achieved)
        assert (tmp_path / "run").exists() == achieved


def test_folders_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match=f"cannot make the folder {folder}"):
            open_run(folder)


def test_half_characters_are_kept(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.add(results={"id": "a", "text": "\ud800 é"})
        run.seal(["a"], {"text": "\ud800"})
        assert list(run.record_file(RESULTS)) == [{"id": "a", "text": "\ud800 é"}]


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ResumeError, match=r"not a run folder.*letter\.txt"):
        open_run(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ResumeError, match="not the configuration of a run"):
        open_run(tmp_path)


def test_a_full_disk_is_said_so_and_loses_nothing(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with open_run(tmp_path / "run") as run:
            run.add(results={"id": "a", "text": "y" * 3000}, trees={"id": "a", "nodes": []})
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limit[1]))
            with pytest.raises(StorageError, match="records stored earlier are kept"):
                run.add(results={"id": "b", "text": "y" * 3000}, trees={"id": "b", "nodes": []})
            assert finished(run) == {"a"}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    with open_run(tmp_path / "run") as run:
        assert finished(run) == {"a"}
        run.add(results={"id": "b"})
        assert [row["id"] for row in run.record_file(RESULTS)] == ["a", "b"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with open_run(tmp_path / "run"), pytest.raises(ResumeError, match="in use"):
        open_run(tmp_path / "run")
    with open_run(tmp_path / "run"):
        pass


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.add(results={"id": "a"})
    file = tmp_path / "run" / RESULTS
    file.write_bytes(b"garbage\n" + file.read_bytes())
    with pytest.raises(DataError, match="damaged at byte 0"):
        open_run(tmp_path / "run")
    assert (tmp_path / "run" / CONFIG).exists()
    file.unlink()
    with open_run(tmp_path / "run") as run:  # the lock was given back
        assert finished(run) == set()
