"""Protecting the code of extensions and of the host from a sandboxed extension that may write.

The writer has a folder granted with `:rw`. If code of another extension is in it, that code is
mounted read-only in the writer's sandbox (`View.protected`). Where this is impossible, for example
because the code is the granted folder itself, the extension that comes later in the config is
refused. The neighbours of an extension are the others of its host.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import Refused
from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.launch.secret_sources import with_secrets
from exthost.launch.shared_folders import (
    Neighbours,
    configured_neighbours,
    find_conflict,
    find_writable_code,
    protect_view,
    refuse_state_folder,
)
from exthost.model.spec import Spec

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def make_spec(name: str, program: Path, *granted: str, **settings: Any) -> Spec:
    permissions = {"permissions": {"filesystem": [*granted]}} if granted else {}
    defaults = {"source": {"command": "/usr/bin/python3", "args": [str(program)]}, "cwd": "/"}
    return spec_from_mapping({"name": name, **defaults, **permissions, **settings})


def as_neighbours(*specs: Spec) -> Neighbours:
    return Neighbours(earlier=specs, not_refused=specs, every=specs)


def view_of_writer(spec: Spec, *neighbours: Spec) -> View:
    """Return the view of a writer, in which the code of its neighbours is protected."""
    assert spec.permissions is not None
    granted = (entry.removesuffix(":rw") for entry in spec.permissions.filesystem)
    view = View(visible_paths=tuple(VisiblePath(path, "write", "granted") for path in granted))
    protected_view = protect_view(spec, view, as_neighbours(*neighbours), ENVIRON)
    assert protected_view is not None
    return protected_view


@pytest.fixture
def base_folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def tool(base_folder: Path) -> Path:
    path = base_folder / "project" / "tool.py"
    path.parent.mkdir()
    path.touch()
    return path


def test_code_in_a_folder_of_the_grant_is_protected(base_folder: Path, tool: Path) -> None:
    writer, victim = (
        make_spec("writer", Path("/w.py"), f"{base_folder}:rw"),
        make_spec("tool", tool),
    )
    view = view_of_writer(writer, victim)
    assert {item.path: item.reason for item in view.protected} == {
        str(tool.parent): "code of tool: folder of its script"
    }
    assert find_conflict(victim, as_neighbours(writer), ENVIRON) is None


def test_a_later_extension_is_refused_if_code_cannot_be_protected(
    base_folder: Path, tool: Path
) -> None:
    writer = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw")
    victim = make_spec("tool", tool)
    with pytest.raises(Refused) as caught:
        view_of_writer(writer, victim)
    refused = find_conflict(victim, as_neighbours(writer), ENVIRON)
    for error, later in ((caught.value, writer), (refused, victim)):
        assert error is not None and error.code == "X0396" and error.extension == later.id
        assert str(tool.parent) in error.message and "a folder of its own" in error.help
    # A later extension does not refuse an earlier writer: the later one itself is refused.
    unordered = Neighbours(earlier=(), not_refused=(), every=(victim,))
    view = View(visible_paths=(VisiblePath(str(tool.parent), "write", "granted"),))
    assert protect_view(writer, view, unordered, ENVIRON) is not None


def test_pins_read_only_grants_and_other_folders_do_not_conflict(
    base_folder: Path, tool: Path
) -> None:
    victim = make_spec("tool", tool)
    pinned = make_spec("tool", tool, sha256={"package": "0" * 64}, cwd=str(tool.parent))
    writing = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw")
    reading = make_spec("writer", Path("/w.py"), str(tool.parent))
    (base_folder / "other").mkdir()
    elsewhere = make_spec("writer", Path("/w.py"), f"{base_folder / 'other'}:rw")
    off = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw", sandbox="off")
    for extension, writer in (
        (pinned, writing),
        (victim, reading),
        (victim, elsewhere),
        (victim, off),
    ):
        assert find_conflict(extension, as_neighbours(writer), ENVIRON) is None
    assert [item.path for item in view_of_writer(writing, pinned).protected] == [str(tool)]
    assert view_of_writer(elsewhere, victim).protected == ()


def test_a_pinned_script_can_import_files_that_others_write(base_folder: Path, tool: Path) -> None:
    writer = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw")
    python = "/usr/bin/python3"
    module = {"source": {"command": python, "args": ["-m", "tool"]}, "cwd": str(tool.parent)}
    isolated = {**module, "source": {"command": python, "args": ["-P", "-m", "tool"]}}
    tool.chmod(0o755)
    for victim, is_refused in (
        (make_spec("tool", tool, sha256="0" * 64), True),
        (make_spec("tool", tool, **module), True),
        (make_spec("tool", tool, **module, sha256="0" * 64), True),
        (make_spec("tool", tool, **isolated), False),
        (make_spec("tool", tool, source={"command": str(tool)}), False),
    ):
        refused = find_conflict(victim, as_neighbours(writer), ENVIRON)
        assert (refused is not None) is is_refused, victim.argv
        assert refused is None or str(tool.parent) in refused.message


def test_an_extension_can_change_its_modules_but_not_its_program(tool: Path) -> None:
    writer = make_spec("writer", tool, f"{tool.parent}:rw")
    assert [item.path for item in view_of_writer(writer).protected] == [str(tool)]
    (tool.parent / "link.py").symlink_to(tool)
    with pytest.raises(Refused) as caught:
        view_of_writer(make_spec("writer", tool.parent / "link.py", f"{tool.parent}:rw"))
    assert caught.value.code == "X0391" and f"write {tool} in place of" in caught.value.help


@pytest.mark.parametrize("owner", ["writer", "victim"])
def test_what_the_host_reads_to_get_a_secret_is_protected(
    base_folder: Path, tool: Path, owner: str
) -> None:
    project = tool.parent
    for name in ("token", "get.sh"):
        (project / name).touch(mode=0o700)
    secrets = {"A": {"file": str(project / "token")}, "B": {"command": [str(project / "get.sh")]}}

    def protected_paths(secrets: dict[str, Any]) -> set[str]:
        writer = make_spec(
            "writer", Path("/w.py"), f"{project}:rw", env=secrets if owner == "writer" else {}
        )
        victim = make_spec("victim", Path("/v.py"), env=secrets if owner == "victim" else {})
        # The secrets are values at the time of the start.
        values = dict.fromkeys(writer.env, "value")
        view = view_of_writer(with_secrets(writer, values), victim)
        return {item.path for item in view.protected}

    assert {str(project / "token"), str(project / "get.sh")} <= protected_paths(secrets)
    # A link, or a file that does not exist yet, cannot be protected.
    (project / "link").symlink_to(base_folder)
    for path in (project / "link", project / "none"):
        with pytest.raises(Refused) as caught:
            protected_paths({"A": {"file": str(path)}})
        assert caught.value.code == ("X0391" if owner == "writer" else "X0396")
        assert "secret A" in caught.value.message and "sha256" not in caught.value.help


def test_code_of_the_host_refuses_the_writer(
    base_folder: Path, tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tool.parent))
    assert str(tool.parent) in [
        item.path
        for item in view_of_writer(make_spec("w", Path("/w"), f"{base_folder}:rw")).protected
    ]
    with pytest.raises(Refused) as caught:
        view_of_writer(make_spec("writer", Path("/w.py"), f"{tool.parent}:rw"))
    assert caught.value.code == "X0360" and "python -P" in caught.value.help


def test_an_extension_is_refused_if_its_code_is_not_protected_from_a_running_writer(
    base_folder: Path, tool: Path
) -> None:
    writer, victim = (
        make_spec("writer", Path("/w.py"), f"{base_folder}:rw"),
        make_spec("tool", tool),
    )
    refused = find_writable_code(victim, [(writer, ())], ENVIRON)
    assert refused is not None and refused.code == "X0361"
    assert "exthost restart writer" in refused.help
    assert find_writable_code(victim, [(writer, (str(tool.parent),))], ENVIRON) is None
    assert find_writable_code(victim, [(make_spec("reader", Path("/r.py")), ())], ENVIRON) is None


def test_the_neighbours_of_a_config_are_in_its_order(tool: Path) -> None:
    first, second, third = (make_spec(name, tool) for name in ("one", "two", "three"))
    neighbours = configured_neighbours(
        Spec(id="two", argv=("x",), neighbours=(first, second, third))
    )
    assert [spec.id for spec in neighbours.earlier] == ["one"]
    assert [spec.id for spec in neighbours.every] == ["one", "three"]


def test_the_state_folder_is_not_granted(tmp_path: Path, tool: Path) -> None:
    host = {"EXTHOST_HOME": str(tmp_path / "state")}
    spec = make_spec("writer", tool)
    for folder in (tmp_path, tmp_path / "state", tmp_path / "state" / "extensions"):
        with pytest.raises(Refused) as caught:
            refuse_state_folder(spec, [str(folder)], host)
        assert caught.value.code == "X0397"
    refuse_state_folder(spec, [str(tool.parent)], host)


def test_code_is_not_read_without_a_grant(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exthost.launch.code_paths.CodeReader", lambda: 1 / 0)
    victim, reader = make_spec("tool", tool), make_spec("reader", tool, os.fspath(tool.parent))
    assert find_conflict(victim, as_neighbours(reader), ENVIRON) is None
    assert protect_view(reader, View(), as_neighbours(victim), ENVIRON) == View()
    assert find_writable_code(victim, [(reader, ())], ENVIRON) is None
