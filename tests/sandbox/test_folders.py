"""Folders made to do harm are copied, measured and removed without harm."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from rstar.sandbox import folders
from rstar.sandbox.folders import copy_tree, exceeds, remove_tree


def deep(folder: Path, depth: int) -> None:
    here = os.getcwd()
    os.chdir(folder)
    for _ in range(depth):
        os.mkdir("d" * 50)
        os.chdir("d" * 50)
    os.chdir(here)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    folder = tmp_path / "tree"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "file").write_bytes(b"x" * 10_000)
    (folder / "a" / "b" / "empty").touch(0o500)
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to("/nowhere")
    os.mkfifo(folder / "pipe")
    return folder


def test_copy(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_tree(str(tree), str(copy))
    assert (copy / "a" / "file").read_bytes() == b"x" * 10_000
    assert os.readlink(copy / "link") == str(tmp_path / "outside")
    assert sorted(os.listdir(copy)) == ["a", "dangling", "link"]
    assert os.listdir(copy / "a" / "b") == ["empty"]


def test_a_copy_takes_no_more_room(tmp_path: Path) -> None:
    """Holes stay holes, and a file with many names stays one file."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    target.mkdir()
    with open(source / "sparse", "wb") as file:
        file.seek(1 << 20)
        file.write(b"data")
        file.truncate(1 << 30)
    (source / "one").write_bytes(b"x" * 100_000)
    for name in ("two", "inner/three"):
        os.link(source / "one", source / name)
    copy_tree(str(source), str(target))
    assert (target / "sparse").stat().st_size == 1 << 30
    with open(target / "sparse", "rb") as file:
        assert file.read((1 << 20) + 8) == bytes(1 << 20) + b"data" + bytes(4)
    assert (target / "sparse").stat().st_blocks <= 64
    assert len({(target / name).stat().st_ino for name in ("one", "two", "inner/three")}) == 1
    assert (target / "inner" / "three").read_bytes() == b"x" * 100_000


def test_copy_of_too_deep_a_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "copy").mkdir()
    deep(tmp_path / "tree", 2_000)
    gc.collect()  # leftovers of other tests must not be closed in between
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="too deep"):
        copy_tree(str(tmp_path / "tree"), str(tmp_path / "copy"))
    assert len(os.listdir("/proc/self/fd")) == before
    remove_tree(str(tmp_path / "tree"))
    remove_tree(str(tmp_path / "copy"))


def test_size(tree: Path, tmp_path: Path) -> None:
    assert exceeds(str(tree), (), 10_000)
    assert not exceeds(str(tree), (), 100_000)
    assert not exceeds(str(tmp_path / "missing"), (), 0)
    for number in range(50):
        (tree / str(number)).touch()
    assert exceeds(str(tree), (), 150_000)  # names take space, too
    deep(tree, 2_000)
    assert exceeds(str(tree), (), 1 << 30)
    remove_tree(str(tree))  # pytest cannot


def test_names_that_are_skipped_do_not_count_and_what_is_hidden_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "other"):
        (tmp_path / name / "other").mkdir(parents=True)
        (tmp_path / name / "other" / "file").write_bytes(bytes(50_000))
    assert not exceeds(str(tmp_path), {"other"}, 80_000)
    assert exceeds(str(tmp_path), {"other"}, 40_000)  # the name counts further down
    assert exceeds(str(tmp_path), (), 80_000)
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("mine/other"):
            raise PermissionError(13, "refused", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert exceeds(str(tmp_path), {"other"}, 1 << 30)


def test_remove(tree: Path, tmp_path: Path) -> None:
    deep(tree / "a", 3_000)
    (tree / "closed").mkdir(0)
    (tree / "a" / "b").chmod(0)
    remove_tree(str(tree))
    assert not tree.exists()
    assert (tmp_path / "outside" / "kept").read_text() == "kept"
    remove_tree(str(tree))


def test_no_link_put_in_the_target_is_followed(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sibling that may write in the target replaces the first copy of a hard-linked file, and then a folder."""
    outside = tmp_path / "outside" / "kept"
    (tree / "a" / "first").write_text("own")
    os.link(tree / "a" / "first", tree / "z")
    copy = tmp_path / "copy"

    def copied(swap: str) -> None:
        copy.mkdir()
        link = os.link

        def swapped(*args: object, **settings: object) -> None:
            if swap == "file":
                (copy / "a" / "first").unlink(missing_ok=True)
                (copy / "z").unlink(missing_ok=True)
                for name in ("a/first", "z"):
                    if not (copy / name).exists():
                        (copy / name).symlink_to(outside)
            link(*args, **settings)  # type: ignore[arg-type]

        monkeypatch.setattr(folders.os, "link", swapped)
        try:
            copy_tree(str(tree), str(copy))
        except OSError:
            pass
        finally:
            monkeypatch.undo()

    copied("file")
    inode = outside.stat().st_ino
    assert all(path.lstat().st_ino != inode for path in copy.rglob("*"))
    assert outside.read_text() == "kept"


def test_no_name_keeps_a_folder_from_being_removed(tree: Path) -> None:
    """Neither those that removed folders once got, nor others."""
    for number in range(3):
        (tree / f"removed {number}" / "removed 0" / "inner").mkdir(parents=True)
        (tree / f"removed {number}" / "removed 0" / "inner" / "file").touch()
    assert remove_tree(str(tree))
    assert not tree.exists()


def test_a_folder_is_removed_in_parts(tree: Path) -> None:
    for number in range(100):
        (tree / "a" / "b" / str(number)).mkdir()
        (tree / "a" / "b" / str(number) / "file").touch()
    calls = 1
    while not remove_tree(str(tree), 10):
        calls += 1
    assert 10 <= calls <= 100
    assert not tree.exists()
