import json
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.errors import ConfigError, DataError, EngineError, ResumeError, StorageError
from rstar.runs import RESULTS, TREES, Run, read_lines

IDENTITY = {"seed": 1, "search.c": 2.0}


def open_run(folder: Path) -> Run:
    return Run.open(folder, IDENTITY, {"versions": {}})


def test_results_survive_reopening(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.add({"id": "a", "x": 1}, {"id": "a", "nodes": []})
    with open_run(tmp_path / "run") as run:
        assert run.finished == {"a"}
        run.add({"id": "b", "x": 2})
        assert [row["id"] for row in run.results()] == ["a", "b"]


@given(cut=st.integers(0, 60), tree=st.booleans())
def test_a_crash_costs_at_most_the_line_being_written(
    tmp_path_factory: pytest.TempPathFactory, cut: int, tree: bool
) -> None:
    """Cut the file anywhere in its last line: what was before stays, and the rest can be written again."""
    folder = tmp_path_factory.mktemp("r") / "run"
    with open_run(folder) as run:
        for name in "ab":
            run.add({"id": name, "text": "ä" * 20}, {"id": name, "nodes": [1]})
    file = folder / (TREES if tree else RESULTS)
    content = file.read_bytes()
    first = content.index(b"\n") + 1
    file.write_bytes(content[: max(first, len(content) - cut)])
    with open_run(folder) as run:
        assert "a" in run.finished
        if "b" not in run.finished:
            run.add({"id": "b", "text": "again"}, {"id": "b", "nodes": [2]})
        run.seal(["a", "b"], {"n": 2})
    results = list(read_lines(folder / RESULTS))
    assert [row["id"] for row in results] == ["a", "b"]
    trees = {row["id"]: row["nodes"] for row in read_lines(folder / TREES)}
    if not tree:  # a result and the tree that it came from, never the tree of a try that was lost
        assert trees == {"a": [1], "b": [2] if results[1]["text"] == "again" else [1]}


def test_sealed_files_do_not_depend_on_the_order_of_finishing(tmp_path: Path) -> None:
    for folder, order in (("one", "abc"), ("two", "cab")):
        with open_run(tmp_path / folder) as run:
            for name in order:
                run.add({"id": name}, {"id": name, "nodes": []})
            run.seal("abc", {"n": 3})
    for name in (RESULTS, TREES, "summary.json", "config.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_another_configuration_is_refused_and_named(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.begin()
    with pytest.raises(ResumeError) as caught:
        Run.open(tmp_path / "run", {"seed": 2, "search.c": 2.0, "new": 0}, {})
    assert "seed: 1 there, 2 now" in str(caught.value)
    assert "new" in str(caught.value)
    assert "search.c" not in str(caught.value)


def test_a_run_that_never_began_claims_nothing(tmp_path: Path) -> None:
    with open_run(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.part").write_text("{")  # killed at the first write
    with Run.open(tmp_path / "run", {"seed": 2}, {}) as run:
        run.begin()
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["config.json"]


def test_a_run_that_failed_before_it_achieved_anything_claims_nothing(tmp_path: Path) -> None:
    def fail(add: bool) -> None:
        with open_run(tmp_path / "run") as run:
            run.begin()
            if add:
                run.add({"id": "a"})
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
        run.add({"id": "a", "text": "\ud800 é"})
        run.seal(["a"], {"text": "\ud800"})
        assert list(run.results()) == [{"id": "a", "text": "\ud800 é"}]


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
            run.add({"id": "a", "text": "y" * 3000}, {"id": "a", "nodes": []})
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limit[1]))
            with pytest.raises(StorageError, match="what was finished before is kept"):
                run.add({"id": "b", "text": "y" * 3000}, {"id": "b", "nodes": []})
            assert run.finished == {"a"}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    with open_run(tmp_path / "run") as run:
        assert run.finished == {"a"}
        run.add({"id": "b"})
        assert [row["id"] for row in run.results()] == ["a", "b"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with open_run(tmp_path / "run"), pytest.raises(ResumeError, match="in use"):
        open_run(tmp_path / "run")
    with open_run(tmp_path / "run"):
        pass


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.add({"id": "a"})
    file = tmp_path / "run" / RESULTS
    file.write_bytes(b"garbage\n" + file.read_bytes())
    with pytest.raises(DataError, match="damaged at byte 0"):
        open_run(tmp_path / "run")


def test_lines_are_json_objects(tmp_path: Path) -> None:
    with open_run(tmp_path / "run") as run:
        run.add({"id": "a", "text": "two\nlines"})
    (line,) = (tmp_path / "run" / RESULTS).read_text().splitlines()
    assert json.loads(line)["text"] == "two\nlines"
