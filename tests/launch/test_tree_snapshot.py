"""A folder in which nothing has changed is not read again, and each change is noticed."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exthost.launch import portable_tree, tree_snapshot
from exthost.launch.portable_tree import read_portable, read_small_snapshot
from exthost.launch.tree_snapshot import NotSmall, TreeSnapshot


class Reader:
    """Reads a folder with a cache, and counts the files that were read for it."""

    def __init__(self, root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.cache = cache
        self.count = 0
        read_file = portable_tree._read_file

        def count_file(*arguments: Any) -> Any:
            self.count += 1
            return read_file(*arguments)

        monkeypatch.setattr(portable_tree, "_read_file", count_file)

    def read(self, *marks: tuple[str, str]) -> tuple[portable_tree.PortableCode, int]:
        """Return the code, and how many files were read."""
        self.count = 0
        code = read_portable(str(self.root), marks, cache=str(self.cache))
        return code, self.count

    def read_small(self) -> portable_tree.PortableCode:
        """Return the code from its snapshot. Raises NotSmall."""
        return read_small_snapshot(str(self.root), cache=str(self.cache))


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    root = tmp_path / "app"
    (root / "sub" / "__pycache__").mkdir(parents=True)
    (root / "main.py").write_text("print(1)")
    (root / "sub" / "lib.so").write_text("compiled")
    (tmp_path / "outside.py").write_text("x = 1")
    (tmp_path / "pointer").symlink_to("outside.py")
    (root / "link.py").symlink_to(tmp_path / "pointer")
    (root / "inside").symlink_to("sub")
    monkeypatch.setattr(tree_snapshot, "_SETTLED_NS", 0)
    return Reader(root, tmp_path / "cache", monkeypatch)


def write_later(path: Path, text: str) -> None:
    """Write a file of the same size and time, in a later tick of the file system's clock."""
    before = path.stat()
    for _ in range(1_000_000):
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if path.stat().st_ctime_ns != before.st_ctime_ns:
            return
    raise AssertionError("the clock of the file system stands still")


def test_a_folder_that_has_not_changed_is_not_read_again(reader: Reader) -> None:
    first, count = reader.read()
    assert count == 3 and first.digest and first.compiled.files
    again, count = reader.read()
    assert count == 0 and again == first and again.caches == first.caches
    assert again.read_files() == first.read_files()


def _replace_pointer(root: Path) -> None:
    pointer = root.parent / "pointer"
    (root.parent / "other.py").write_text("x = 2")
    pointer.unlink()
    pointer.symlink_to("other.py")


def _replace_folder(root: Path) -> None:
    root.rename(root.parent / "old")
    (root / "sub").mkdir(parents=True)
    (root / "main.py").write_text("print(2)")


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda root: write_later(root / "main.py", "print(2)"),
    "compiled": lambda root: write_later(root / "sub" / "lib.so", "COMPILED"),
    "target of a link": lambda root: write_later(root.parent / "outside.py", "x = 2"),
    "link of a link": _replace_pointer,
    "new": lambda root: (root / "sub" / "json.py").write_text(""),
    "gone": lambda root: (root / "main.py").unlink(),
    "renamed": lambda root: (root / "main.py").rename(root / "json.py"),
    "mode": lambda root: (root / "main.py").chmod(0o755),
    "folder": _replace_folder,
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_noticed(reader: Reader, change: str) -> None:
    first, _ = reader.read()
    assert reader.read()[1] == 0
    assert reader.read_small() == first
    CHANGES[change](reader.root)
    with pytest.raises(NotSmall):
        reader.read_small()
    assert reader.read()[0] != first


def test_new_compiled_python_files_are_noticed(reader: Reader) -> None:
    assert not reader.read()[0].caches
    (reader.root / "sub" / "__pycache__" / "lib.pyc").write_text("planted")
    assert reader.read()[0].caches
    reader.root = reader.root / "main.py"
    assert not reader.read()[0].caches
    cache = reader.root.parent / "__pycache__"
    cache.mkdir()
    (cache / "main.pyc").write_text("planted")
    code, count = reader.read()
    assert code.caches and count == 0


def test_a_folder_that_changed_a_moment_ago_is_read_again(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_snapshot, "_SETTLED_NS", 3600 * 10**9)
    reader.read()
    assert reader.read()[1] == 3


def test_other_marks_need_another_snapshot(reader: Reader) -> None:
    reader.read()
    assert reader.read(("/home/somebody", "~"))[1] == 3


def test_a_small_folder_is_compared_without_reading_its_files(reader: Reader) -> None:
    first, _ = reader.read()
    reader.count = 0
    again = reader.read_small()
    assert again == first and again.caches == first.caches and reader.count == 0


def test_a_folder_without_a_snapshot_is_not_small(reader: Reader) -> None:
    with pytest.raises(NotSmall):
        reader.read_small()


# The folder of `reader` has seven entries: itself, two folders, two files and two symlinks.
@pytest.mark.parametrize(("folder_count", "is_small"), [(249, True), (250, False)])
def test_a_folder_with_more_than_256_entries_is_not_small(
    reader: Reader, folder_count: int, is_small: bool
) -> None:
    for number in range(folder_count):
        (reader.root / f"folder-{number}").mkdir()
    first, _ = reader.read()
    if is_small:
        assert reader.read_small() == first
    else:
        with pytest.raises(NotSmall):
            reader.read_small()


def test_a_folder_with_long_names_is_not_small(reader: Reader) -> None:
    folder = reader.root
    for depth in range(10):
        folder = folder / (str(depth) * 200)
        folder.mkdir()
    for number in range(30):
        (folder / f"{number}".rjust(200, "x")).mkdir()
    reader.read()
    with pytest.raises(NotSmall):
        reader.read_small()


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"key": 1}', "null"])
def test_a_damaged_snapshot_is_not_used(reader: Reader, damage: str) -> None:
    first, _ = reader.read()
    (snapshot,) = reader.cache.glob("*.snapshot")
    snapshot.write_text(damage)
    again, count = reader.read()
    assert again == first and count == 3


def test_a_snapshot_with_other_values_is_not_used(reader: Reader) -> None:
    first, _ = reader.read()
    (snapshot,) = reader.cache.glob("*.snapshot")
    document = json.loads(snapshot.read_text())
    snapshot.write_text(json.dumps(document | {"value": {"digest": first.digest}}))
    again, count = reader.read()
    assert again == first and count == 3


@pytest.mark.parametrize(("since_nanoseconds", "is_stored"), [(0, True), (-1, False)])
def test_a_folder_must_not_have_changed_for_a_while_before_it_is_read(
    tmp_path: Path, since_nanoseconds: int, is_stored: bool
) -> None:
    file = tmp_path / "main.py"
    file.write_text("x = 1")
    snapshot = TreeSnapshot(str(tmp_path / "cache" / "snapshot"), "key")
    settled_at = file.stat().st_ctime_ns + tree_snapshot._SETTLED_NS
    snapshot.store([str(file)], [], "value", read_since_ns=settled_at + since_nanoseconds)
    assert snapshot.load() == ("value" if is_stored else None)
