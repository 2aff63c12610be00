"""Collecting the paths and symlinks that a sandboxed extension sees.

A PathCollection becomes a View: the paths that the sandbox mounts, each with an access and the
reason ("program", "granted", …), and the symlinks that lead to them. `walk` returns the real path,
"" if there is none, and the symlinks on the way. A symlink in a folder that the
extension may write is not followed, since the extension could have made it.
"""

import os
from pathlib import Path

import pytest

from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.launch.visible_paths import _MAX_LINKS, PathCollection, is_below, is_too_wide


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/a", "/", True)],
)
def test_a_path_is_below_its_folders(path: str, folder: str, expected: bool) -> None:
    assert is_below(path, folder) is expected


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/", True),
        ("/etc", True),
        ("/home", True),
        ("/home/other", True),  # the home of another user
        ("/srv/people/me", True),  # the home of this user
        ("/srv/people/me/.local", True),  # programs and data of many programs
        ("/srv/people", True),  # above the home
        ("/var/tmp", True),
        ("/srv/people/me/project", False),
        ("/srv/people/you", False),  # only folders in /home are known to be homes
        ("/opt/tool", False),
    ],
)
def test_a_folder_with_files_of_several_programs_or_users_is_too_wide_to_show(
    folder: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    assert is_too_wide(folder, home="/srv/people/me") is expected


def test_the_folder_of_temporary_files_is_too_wide_to_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", "/opt/tool")
    assert is_too_wide("/opt/tool", home="/srv/people/me")


def test_symlinks_are_shown_with_their_real_path(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("absolute/./sub/..")
    paths = PathCollection()
    assert paths.show(f"{tmp_path}/relative/sub", "program") == f"{tmp_path}/real/sub"
    assert paths.show(f"{tmp_path}/missing", "program") == ""
    view = paths.view()
    assert view.visible_paths == (VisiblePath(f"{tmp_path}/real/sub", "read", "program"),)
    assert dict(view.links) == {
        f"{tmp_path}/absolute": f"{tmp_path}/real",
        f"{tmp_path}/relative": "absolute/./sub/..",
    }


def test_walking_the_root_follows_no_symlinks() -> None:
    assert PathCollection().walk("/") == ("/", [])


@pytest.mark.parametrize(("links", "is_found"), [(_MAX_LINKS, True), (_MAX_LINKS + 1, False)])
def test_a_path_can_have_as_many_symlinks_as_the_kernel_allows(
    links: int, is_found: bool, tmp_path: Path
) -> None:
    (tmp_path / "0").touch()
    for number in range(links):
        (tmp_path / str(number + 1)).symlink_to(str(number))
    assert bool(PathCollection().walk(f"{tmp_path}/{links}")[0]) == is_found


def test_a_symlink_that_the_extension_can_write_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "protected").mkdir()
    for link in (tmp_path / "link", tmp_path / "protected" / "link"):
        link.symlink_to("/usr")
    # The extension cannot write to protected folders inside the folder that it may write.
    paths = PathCollection(protected=(f"{tmp_path}/protected",))
    paths.grant(str(tmp_path), may_write=True)
    assert paths.walk(f"{tmp_path}/link") == ("", [])
    assert paths.walk(f"{tmp_path}/protected/link")[0] == os.path.realpath("/usr")
    read_only = PathCollection()
    read_only.grant(str(tmp_path), may_write=False)
    assert read_only.walk(f"{tmp_path}/link")[0] == os.path.realpath("/usr")


def test_paths_inside_a_visible_folder_are_left_out_unless_the_folder_is_writable() -> None:
    paths = PathCollection(View(visible_paths=(VisiblePath("/base", "read", "system"),)))
    paths.grant("/write", may_write=True)
    for path in ("/a", "/a/b", "/write/protected", "/base"):
        paths.add(path, "program")
    assert paths.view().visible_paths == (
        VisiblePath("/a", "read", "program"),
        VisiblePath("/base", "read", "system"),
        VisiblePath("/write", "write", "granted"),
        VisiblePath("/write/protected", "read", "program"),
    )


def test_the_paths_below_a_visible_folder_are_visible() -> None:
    paths = PathCollection()
    paths.grant("/write", may_write=True)
    paths.add("/a", "program")
    assert paths.has("/a/x") and paths.has("/write/x") and not paths.has("/x")
    assert paths.may_write("/write/x") and not paths.may_write("/a")


@pytest.mark.parametrize(
    ("path", "is_private"),
    [("/new", True), ("/shown", False), ("/shown/sub", False), ("/with", False), ("/up", True)],
)
def test_a_private_folder_never_hides_what_is_visible_or_granted(
    path: str, is_private: bool
) -> None:
    paths = PathCollection()
    paths.add("/shown", "program")
    paths.add("/up/shown", "program")
    paths.grant("/with/granted", may_write=False)
    paths.add_private(path)
    assert paths.view().private_folders == ((path,) if is_private else ())
