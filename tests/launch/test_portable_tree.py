"""Digests of the code in a folder that are the same on two machines.

`exthost.lock` records such a digest, and is shared by the users of a project. So the digest must
not depend on the machine: caches are left out, and names of folders of this machine are replaced by
marks, such as `~` for the home folder. Each change of code must change it. Compiled files differ
between platforms; they are listed apart, with digests of their own (`compiled`).
"""

import os
import sys
from pathlib import Path

import pytest

from exthost.launch.package_tree import UnusableTree
from exthost.launch.portable_tree import read_portable


def write(folder: Path, **files: str) -> Path:
    """Write files into a folder; the keyword `main__py` stands for `main.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_two_copies_have_one_digest(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name / "app", main__py="print()") for name in ("a", "b"))
    assert read_portable(str(one)) == read_portable(str(two))


def test_caches_and_notes_of_an_installation_do_not_count(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, main__py="print()") for name in ("a", "b"))
    for cache in ("__pycache__", "sub/__pycache__", ".mypy_cache", ".git", "node_modules/.cache"):
        (one / cache).mkdir(parents=True)
        (one / cache / "file.pyc").write_text("anything")
    dist_info = one / "x-1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "RECORD").write_text("x")
    (one / ".DS_Store").write_text("x")
    assert read_portable(str(one)) == read_portable(str(two))


@pytest.mark.parametrize("name", ["json.pyc", "lib.so", "lib.so.1.2", "addon.node"])
def test_compiled_files_are_listed_apart(tmp_path: Path, name: str) -> None:
    root = write(tmp_path / "a", main__py="print()")
    before = read_portable(str(root))
    (root / name).write_text("planted")
    after = read_portable(str(root))
    assert after.digest == before.digest
    assert [path for path, _ in after.compiled.files] == [name]


def test_a_program_of_the_system_is_a_compiled_file(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_bytes(b"\x7fELF" + b"x" * 100)
    assert not read_portable(str(program)).digest
    assert [path for path, _ in read_portable(str(program)).compiled.files] == ["tool"]


def test_a_folder_of_this_machine_is_marked(tmp_path: Path) -> None:
    trees = []
    for name in ("a", "b"):
        home = tmp_path / name
        root = write(home / "venv", run=f"#!{home}/venv/bin/python\nimport x\n# {home}/elsewhere\n")
        trees.append(read_portable(str(root), [(str(home), "~")]))
    assert trees[0] == trees[1]
    # A file with the marks themselves as its text must not have the digest of the original.
    (tmp_path / "b" / "venv" / "run").write_text(
        "#!\0package\0/bin/python\nimport x\n# \0~\0/elsewhere\n"
    )
    assert read_portable(str(tmp_path / "b" / "venv"), [(str(tmp_path / "b"), "~")]) != trees[0]


def test_a_file_that_names_a_folder_by_chance_is_the_same_on_every_machine(tmp_path: Path) -> None:
    # Both copies name the folder of copy a. It is replaced only in files that an installer writes,
    # so it stays here: otherwise the copy that happens to be in that folder would differ.
    text = f"#!/usr/bin/python3\n\n\nPLACES = ['/root/x', '{tmp_path}/a/app/x']\n"
    trees = []
    for name in ("a", "b"):
        root = write(tmp_path / name / "app", main__py=text, data__json=text)
        trees.append(read_portable(str(root), [(str(tmp_path / name), "~")]))
    assert trees[0] == trees[1]


@pytest.mark.parametrize("name", ["x.pth", "activate.csh", "direct_url.json", "__editable___x.py"])
def test_a_file_that_an_installer_writes_names_no_folder_of_this_machine(
    tmp_path: Path, name: str
) -> None:
    trees = []
    for home in (tmp_path / "a", tmp_path / "b"):
        root = write(home / "venv", main__py="print()")
        # Below the first lines, where the folders of any script would be replaced.
        (root / name).write_text(f"\n\n\n\nsetenv {home}/venv\n{home}/src\n")
        trees.append(read_portable(str(root), [(str(home), "~")]))
    assert trees[0] == trees[1]


def test_the_interpreter_of_an_environment_is_not_part_of_it(tmp_path: Path) -> None:
    trees = []
    for name, python in (("a", sys.executable), ("b", str(tmp_path / "other" / "python3.12"))):
        root = write(tmp_path / name, pyvenv__cfg=f"home = /usr/bin\nversion = 3.1{name}\n")
        (root / "bin").mkdir()
        (root / "bin" / "python").symlink_to(python)
        trees.append(read_portable(str(root)))
    assert trees[0] == trees[1]
    # `home` decides which standard library is imported.
    (tmp_path / "a" / "pyvenv.cfg").write_text("home = /tmp/evil\n")
    assert read_portable(str(tmp_path / "a")) != trees[0]


def test_each_change_of_code_changes_the_digest(tmp_path: Path) -> None:
    root = write(tmp_path / "a", main__py="print()", other__py="x = 1")
    digests = {read_portable(str(root)).digest}
    (root / "main.py").write_text("print(1)")
    digests.add(read_portable(str(root)).digest)
    (root / "new.py").write_text("")
    digests.add(read_portable(str(root)).digest)
    (root / "new.py").rename(root / "json.py")
    digests.add(read_portable(str(root)).digest)
    (root / "main.py").chmod(0o755)
    digests.add(read_portable(str(root)).digest)
    (root / "link").symlink_to("main.py")
    digests.add(read_portable(str(root)).digest)
    (root / "other.py").unlink()
    digests.add(read_portable(str(root)).digest)
    assert len(digests) == 7


def test_a_file_that_was_read_before_is_read_again_after_a_change(tmp_path: Path) -> None:
    root = write(tmp_path / "a", main__py="print(1)")
    path = root / "main.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    first = read_portable(str(root))
    path.write_text("print(2)")  # of the same size, and with the same time
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert read_portable(str(root)) != first


def test_a_folder_that_cannot_be_compared_is_an_error(tmp_path: Path) -> None:
    root = write(tmp_path / "a", main__py="print()")
    (root / "outside").symlink_to("/usr/lib")
    with pytest.raises(UnusableTree, match="a folder outside"):
        read_portable(str(root))
    with pytest.raises(UnusableTree, match="cannot be read"):
        read_portable(str(tmp_path / "missing"))


def test_a_pipe_in_the_place_of_the_program_has_no_digest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnusableTree, match="not a regular file"):
        read_portable(str(tmp_path / "pipe"))


@pytest.mark.parametrize("cache", [".mypy_cache", ".git", "sub/__pycache__"])
def test_a_file_in_a_cache_counts_if_a_link_outside_leads_to_it(tmp_path: Path, cache: str) -> None:
    root = write(tmp_path / "a", main__py="print()")
    write(root / cache, lib__py="print(1)")
    (root / "lib.py").symlink_to(f"{cache}/lib.py")
    before = read_portable(str(root))
    (root / cache / "lib.py").write_text("print(2)")
    assert read_portable(str(root)) != before
    (root / "lib").symlink_to(cache)
    with pytest.raises(UnusableTree, match="a folder that is left out"):
        read_portable(str(root))


def test_a_folder_outside_with_the_name_of_an_interpreter_is_an_error(tmp_path: Path) -> None:
    root = write(tmp_path / "a", main__py="import python")
    write(tmp_path / "python", lib__py="")
    (root / "python").symlink_to(tmp_path / "python")
    with pytest.raises(UnusableTree, match="a folder outside"):
        read_portable(str(root))


def test_what_an_extension_may_write_is_not_code(tmp_path: Path) -> None:
    root = write(tmp_path / "a", main__py="print()")
    before = read_portable(str(root))
    write(root / "data", state__json="{}")
    assert read_portable(str(root), skipped=[str(root / "data")]) == before
