"""Protecting the code of extensions and of the host from a sandboxed extension that may write.

The writer has a folder granted with `:rw`. If code of another extension is in it, that code is
mounted read-only in the writer's sandbox (`View.protected`). Where this is impossible, for example
because the code is the granted folder itself, the extension that comes later in the config is
refused. The neighbours of an extension are the others of its host.
"""

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
PYTHON = "/usr/bin/python3"

# The codes of the errors.
CODE_OF_HOST = "X0360"
CODE_OF_RUNNING_WRITER = "X0361"
OWN_PROGRAM = "X0391"
CODE_OF_ANOTHER = "X0396"
STATE_FOLDER = "X0397"

# The settings of an extension with a pinned program, or with all files of its folder pinned.
PINNED_PROGRAM: dict[str, Any] = {"sha256": "0" * 64}
PINNED_PACKAGE: dict[str, Any] = {"sha256": {"package": "0" * 64}}


def make_spec(name: str, program: Path, *granted: str, **settings: Any) -> Spec:
    """Return an extension that runs a Python script, and has these grants and settings."""
    permissions = {"permissions": {"filesystem": [*granted]}} if granted else {}
    defaults = {"source": {"command": PYTHON, "args": [str(program)]}, "cwd": "/"}
    return spec_from_mapping({"name": name, **defaults, **permissions, **settings})


def earlier_neighbours(*specs: Spec) -> Neighbours:
    """Return these extensions as neighbours that come earlier in the config and are not refused."""
    return Neighbours(earlier=specs, not_refused=specs, every=specs)


def view_of_writer(spec: Spec, *neighbours: Spec) -> View:
    """Return the view of a writer, in which the code of its earlier neighbours is protected."""
    assert spec.permissions is not None
    granted = (entry.removesuffix(":rw") for entry in spec.permissions.filesystem)
    view = View(visible_paths=tuple(VisiblePath(path, "write", "granted") for path in granted))
    protected_view = protect_view(spec, view, earlier_neighbours(*neighbours), ENVIRON)
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


def test_code_below_a_granted_folder_is_protected(base_folder: Path, tool: Path) -> None:
    writer = make_spec("writer", Path("/w.py"), f"{base_folder}:rw")
    victim = make_spec("tool", tool)
    view = view_of_writer(writer, victim)
    assert {item.path: item.reason for item in view.protected} == {
        str(tool.parent): "code of tool: folder of its script"
    }
    assert find_conflict(victim, earlier_neighbours(writer), ENVIRON) is None


def test_a_later_extension_is_refused_if_code_cannot_be_protected(tool: Path) -> None:
    writer = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw")
    victim = make_spec("tool", tool)
    with pytest.raises(Refused) as caught:
        view_of_writer(writer, victim)  # the writer is the later one
    error_of_victim = find_conflict(victim, earlier_neighbours(writer), ENVIRON)
    for error, refused in ((caught.value, writer), (error_of_victim, victim)):
        assert error is not None and error.code == CODE_OF_ANOTHER
        assert error.extension == refused.id
        assert str(tool.parent) in error.message and "a folder of its own" in error.help
    # The writer is not refused for the code of a later extension, which itself is refused.
    later_neighbours = Neighbours(earlier=(), not_refused=(), every=(victim,))
    view = View(visible_paths=(VisiblePath(str(tool.parent), "write", "granted"),))
    assert protect_view(writer, view, later_neighbours, ENVIRON) is not None


def test_a_later_extension_is_not_refused_if_its_code_is_pinned_or_cannot_be_written(
    base_folder: Path, tool: Path
) -> None:
    victim = make_spec("tool", tool)
    pinned = make_spec("tool", tool, **PINNED_PACKAGE, cwd=str(tool.parent))
    writing = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw")
    reading = make_spec("writer", Path("/w.py"), str(tool.parent))
    (base_folder / "other").mkdir()
    writing_elsewhere = make_spec("writer", Path("/w.py"), f"{base_folder / 'other'}:rw")
    # Without a sandbox, a grant has no effect: such an extension may write what its user may.
    without_sandbox = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw", sandbox="off")
    for extension, earlier in (
        (pinned, writing),
        (victim, reading),
        (victim, writing_elsewhere),
        (victim, without_sandbox),
    ):
        assert find_conflict(extension, earlier_neighbours(earlier), ENVIRON) is None
    # What can be protected of the pinned code is protected all the same: the script.
    assert [item.path for item in view_of_writer(writing, pinned).protected] == [str(tool)]
    assert view_of_writer(writing_elsewhere, victim).protected == ()


def test_an_extension_is_refused_if_others_may_write_a_folder_from_which_it_imports(
    tool: Path,
) -> None:
    writer = make_spec("writer", Path("/w.py"), f"{tool.parent}:rw")
    module: dict[str, Any] = {
        "source": {"command": PYTHON, "args": ["-m", "tool"]},
        "cwd": str(tool.parent),
    }
    isolated = {**module, "source": {"command": PYTHON, "args": ["-P", "-m", "tool"]}}
    tool.chmod(0o755)
    for victim, is_refused in (
        # A script imports from its own folder, and the pin covers the script alone.
        (make_spec("tool", tool, **PINNED_PROGRAM), True),
        # `python -m` imports from the working folder.
        (make_spec("tool", tool, **module), True),
        # Here too, the pin does not cover what is imported.
        (make_spec("tool", tool, **module, **PINNED_PROGRAM), True),
        # With -P, Python does not import from the working folder.
        (make_spec("tool", tool, **isolated), False),
        # A program that is not a script of an interpreter: the file alone is protected.
        (make_spec("tool", tool, source={"command": str(tool)}), False),
    ):
        refused = find_conflict(victim, earlier_neighbours(writer), ENVIRON)
        assert (refused is not None) is is_refused, victim.argv
        assert refused is None or str(tool.parent) in refused.message


def test_an_extension_can_change_its_modules_but_not_its_program(tool: Path) -> None:
    writer = make_spec("writer", tool, f"{tool.parent}:rw")
    assert [item.path for item in view_of_writer(writer).protected] == [str(tool)]
    (tool.parent / "link.py").symlink_to(tool)
    with pytest.raises(Refused) as caught:
        view_of_writer(make_spec("writer", tool.parent / "link.py", f"{tool.parent}:rw"))
    assert caught.value.code == OWN_PROGRAM and f"write {tool} in place of" in caught.value.help


@pytest.mark.parametrize("owner", ["writer", "victim"])
def test_what_the_host_reads_to_get_a_secret_is_protected(
    base_folder: Path, tool: Path, owner: str
) -> None:
    project = tool.parent
    for name in ("token", "get.sh"):
        (project / name).touch(mode=0o700)
    secrets = {"A": {"file": str(project / "token")}, "B": {"command": [str(project / "get.sh")]}}

    def protected_paths(env: dict[str, Any]) -> set[str]:
        """Return the paths that are protected from the writer if the owner has these variables."""
        env_of: dict[str, dict[str, Any]] = {"writer": {}, "victim": {}, owner: env}
        writer = make_spec("writer", Path("/w.py"), f"{project}:rw", env=env_of["writer"])
        victim = make_spec("victim", Path("/v.py"), env=env_of["victim"])
        # When an extension is started, the host has replaced its own secrets by their values.
        started = with_secrets(writer, dict.fromkeys(writer.env, "value"))
        return {item.path for item in view_of_writer(started, victim).protected}

    assert {str(project / "token"), str(project / "get.sh")} <= protected_paths(secrets)
    # A link, or a file that does not exist yet, cannot be protected.
    (project / "link").symlink_to(base_folder)
    for path in (project / "link", project / "none"):
        with pytest.raises(Refused) as caught:
            protected_paths({"A": {"file": str(path)}})
        assert caught.value.code == (OWN_PROGRAM if owner == "writer" else CODE_OF_ANOTHER)
        assert "secret A" in caught.value.message
        assert "sha256" not in caught.value.help  # a pin covers code only


def test_a_writer_is_refused_if_code_of_the_host_cannot_be_protected(
    base_folder: Path, tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tool.parent))  # the host imports from this folder
    view = view_of_writer(make_spec("writer", Path("/w.py"), f"{base_folder}:rw"))
    assert str(tool.parent) in [item.path for item in view.protected]
    with pytest.raises(Refused) as caught:
        view_of_writer(make_spec("writer", Path("/w.py"), f"{tool.parent}:rw"))
    assert caught.value.code == CODE_OF_HOST and "python -P" in caught.value.help


def test_an_extension_is_refused_if_its_code_is_not_protected_from_a_running_writer(
    base_folder: Path, tool: Path
) -> None:
    writer = make_spec("writer", Path("/w.py"), f"{base_folder}:rw")
    reader = make_spec("reader", Path("/r.py"), str(base_folder))
    victim = make_spec("tool", tool)
    refused = find_writable_code(victim, [(writer, ())], ENVIRON)  # it has no protected paths
    assert refused is not None and refused.code == CODE_OF_RUNNING_WRITER
    assert "exthost restart writer" in refused.help
    assert find_writable_code(victim, [(writer, (str(tool.parent),))], ENVIRON) is None
    assert find_writable_code(victim, [(reader, ())], ENVIRON) is None


def test_the_neighbours_of_a_config_are_in_its_order(tool: Path) -> None:
    first, second, third = (make_spec(name, tool) for name in ("one", "two", "three"))
    neighbours = configured_neighbours(
        Spec(id="two", argv=("x",), neighbours=(first, second, third))
    )
    assert [spec.id for spec in neighbours.earlier] == ["one"]
    assert [spec.id for spec in neighbours.every] == ["one", "three"]


def test_a_grant_of_the_state_folder_is_refused(tmp_path: Path, tool: Path) -> None:
    environ = {"EXTHOST_HOME": str(tmp_path / "state")}
    spec = make_spec("writer", tool)
    # A folder that contains the state folder, the state folder, and a folder in it.
    for folder in (tmp_path, tmp_path / "state", tmp_path / "state" / "extensions"):
        with pytest.raises(Refused) as caught:
            refuse_state_folder(spec, [str(folder)], environ)
        assert caught.value.code == STATE_FOLDER
    refuse_state_folder(spec, [str(tool.parent)], environ)


def test_code_is_not_read_without_a_grant(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class CodeWasReadError(Exception):
        pass

    def read_code() -> None:
        raise CodeWasReadError

    monkeypatch.setattr("exthost.launch.code_paths.CodeReader", read_code)
    victim = make_spec("tool", tool)
    reader = make_spec("reader", tool, str(tool.parent))
    assert find_conflict(victim, earlier_neighbours(reader), ENVIRON) is None
    assert protect_view(reader, View(), earlier_neighbours(victim), ENVIRON) == View()
    assert find_writable_code(victim, [(reader, ())], ENVIRON) is None
    # With a grant to write, each of these functions reads code.
    writer = make_spec("writer", tool, f"{tool.parent}:rw")
    with pytest.raises(CodeWasReadError):
        find_conflict(victim, earlier_neighbours(writer), ENVIRON)
    with pytest.raises(CodeWasReadError):
        view_of_writer(writer, victim)
    with pytest.raises(CodeWasReadError):
        find_writable_code(victim, [(writer, ())], ENVIRON)
