"""A host with root rights runs each sandboxed extension as another user, and says if it cannot.

`with_extension_user` gets what a sandbox shows (a View), and returns it with the user id. Without
one, for example because setpriv is not installed or the user cannot read the program, the extension
runs as root with fewer rights, or is refused if it may write.
"""

import errno
import logging
import os

import pytest

from exthost.errors import Refused
from exthost.launch import extension_user
from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.model.probe_result import SandboxSupport

INACCESSIBLE = "/root/tools"
PROGRAM = VisiblePath(f"{INACCESSIBLE}/program", "read", "program")


@pytest.fixture(autouse=True)
def root_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the host is root, and that other users cannot enter the program's folder."""
    monkeypatch.setattr(extension_user, "is_kernel_root", lambda: True)
    monkeypatch.setattr(extension_user, "allot_user_id", lambda root, extension: 1_900_000_000)
    monkeypatch.setattr(extension_user, "find_inaccessible_path", lambda path, uid: INACCESSIBLE)


@pytest.mark.parametrize(
    ("setpriv", "next_step"),
    [
        ("/usr/bin/setpriv", "install its program where every user can reach it"),
        ("", "install it (util-linux)"),
    ],
)
def test_the_warning_about_a_missing_state_folder_has_a_next_step(
    setpriv: str, next_step: str, caplog: pytest.LogCaptureFixture
) -> None:
    support = SandboxSupport(setpriv=setpriv, uid=0)
    with caplog.at_level(logging.WARNING, "exthost.launch"):
        view = extension_user.with_extension_user(
            "a", View(visible_paths=(PROGRAM,), state="/s"), support, "/state"
        )
    assert view.state == ""
    assert "it has no state folder, since it runs as root" in caplog.text
    assert f"to give it one, {next_step}" in caplog.text


@pytest.mark.parametrize("can_mount", [True, False])
def test_a_closed_folder_is_opened_if_the_host_can_mount(
    can_mount: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extension_user, "can_read", lambda path, uid: True)
    monkeypatch.setattr(extension_user, "can_write", lambda path, uid: True)
    monkeypatch.setattr(
        extension_user,
        "find_inaccessible_path",
        lambda path, uid: INACCESSIBLE * (INACCESSIBLE in path),
    )
    monkeypatch.setattr(extension_user, "can_open_folders", lambda: can_mount)
    view = View(visible_paths=(PROGRAM, VisiblePath("/data", "write", "granted")))
    support = SandboxSupport(setpriv="/usr/bin/setpriv", uid=0)
    if can_mount:
        opened = extension_user.with_extension_user("a", view, support, "/state")
        assert opened.inaccessible_folders == ((INACCESSIBLE, (PROGRAM.path,)),)
        assert opened.uid == 1_900_000_000
    else:
        with pytest.raises(Refused) as caught:
            extension_user.with_extension_user("a", view, support, "/state")
        assert caught.value.code == "X0392"
        assert f"no access to {INACCESSIBLE}, and this host cannot mount" in caught.value.message


def test_a_host_without_setpriv_is_advised_to_install_it() -> None:
    granted = VisiblePath("/data", "write", "granted")
    with pytest.raises(Refused) as caught:
        extension_user.with_extension_user(
            "a", View(visible_paths=(granted,)), SandboxSupport(uid=0), "/state"
        )
    assert caught.value.code == "X0392"
    assert caught.value.help == "install it (util-linux), or remove the :rw grant"


def test_a_container_without_enough_user_ids_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(extension_user, "allot_user_id", lambda root, extension: None)
    support = SandboxSupport(setpriv="/usr/bin/setpriv", uid=0)
    extension_user.with_extension_user("a", View(state="/s"), support, "/state")
    assert "has no user for it; to give it one, map 65536 or more users" in caplog.text


def test_an_extension_is_refused_if_its_user_id_cannot_be_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(root: str, extension: str) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), root)

    monkeypatch.setattr(extension_user, "allot_user_id", refuse)
    support = SandboxSupport(setpriv="/usr/bin/setpriv", uid=0)
    with pytest.raises(Refused) as caught:
        extension_user.with_extension_user("a", View(), support, "/state")
    assert caught.value.code == "X0370" and caught.value.evidence.path == "/state/users"
    assert "Read-only file system" in caught.value.message


@pytest.mark.parametrize(
    ("uid", "setpriv", "has_user"),
    [(0, "/bin/setpriv", True), (0, "", False), (1000, "/bin/setpriv", False), (1000, "", False)],
)
def test_only_root_with_setpriv_can_probe_as_another_user(
    uid: int, setpriv: str, has_user: bool
) -> None:
    support = SandboxSupport(uid=uid, setpriv=setpriv)
    assert (extension_user.probe_user_id(support) is not None) == has_user
