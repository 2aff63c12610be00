"""Extensions that may write what others run, and grants that include the host's own files."""

import os
from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import Refused
from exthost.launch.sandbox.strict import View, VisiblePath
from exthost.launch.shared_folders import (
    Neighbours,
    close_view,
    configured_neighbours,
    find_conflict,
    find_open_code,
    refuse_state_folder,
)
from exthost.model.spec import Spec

ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def made(name: str, program: Path, *granted: str, **settings: Any) -> Spec:
    permissions = {"permissions": {"filesystem": [*granted]}} if granted else {}
    usual = {"source": {"command": "/usr/bin/python3", "args": [str(program)]}, "cwd": "/"}
    return spec_from_mapping({"name": name, **usual, **permissions, **settings})


def among(*specs: Spec) -> Neighbours:
    return Neighbours(earlier=specs, not_refused=specs, every=specs)


def close(spec: Spec, *neighbours: Spec) -> View:
    """Return the view of a writer, which is closed to the code of its neighbours."""
    assert spec.permissions is not None
    granted = (entry.removesuffix(":rw") for entry in spec.permissions.filesystem)
    view = View(visible_paths=tuple(VisiblePath(path, "write", "granted") for path in granted))
    closed = close_view(spec, view, among(*neighbours), ENVIRON)
    assert closed is not None
    return closed


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def tool(place: Path) -> Path:
    path = place / "project" / "tool.py"
    path.parent.mkdir()
    path.touch()
    return path


def test_code_in_a_folder_of_the_grant_is_closed(place: Path, tool: Path) -> None:
    writer, victim = made("writer", Path("/w.py"), f"{place}:rw"), made("tool", tool)
    view = close(writer, victim)
    assert {item.path: item.reason for item in view.closed} == {
        str(tool.parent): "code of tool: folder of its script"
    }
    assert find_conflict(victim, among(writer), ENVIRON) is None


def test_a_later_extension_is_refused_if_code_cannot_be_closed(place: Path, tool: Path) -> None:
    writer = made("writer", Path("/w.py"), f"{tool.parent}:rw")
    victim = made("tool", tool)
    with pytest.raises(Refused) as caught:
        close(writer, victim)
    refused = find_conflict(victim, among(writer), ENVIRON)
    for error, later in ((caught.value, writer), (refused, victim)):
        assert error is not None and error.code == "X0396" and error.extension == later.id
        assert str(tool.parent) in error.message and "a folder of its own" in error.help
    # One that comes later is refused itself, and does not refuse what came before.
    unordered = Neighbours(earlier=(), not_refused=(), every=(victim,))
    view = View(visible_paths=(VisiblePath(str(tool.parent), "write", "granted"),))
    assert close_view(writer, view, unordered, ENVIRON) is not None


def test_pins_read_only_grants_and_other_folders_do_not_conflict(place: Path, tool: Path) -> None:
    victim = made("tool", tool)
    pinned = made("tool", tool, sha256={"package": "0" * 64}, cwd=str(tool.parent))
    writes = made("writer", Path("/w.py"), f"{tool.parent}:rw")
    reads = made("writer", Path("/w.py"), str(tool.parent))
    (place / "other").mkdir()
    elsewhere = made("writer", Path("/w.py"), f"{place / 'other'}:rw")
    off = made("writer", Path("/w.py"), f"{tool.parent}:rw", sandbox="off")
    for one, writer in ((pinned, writes), (victim, reads), (victim, elsewhere), (victim, off)):
        assert find_conflict(one, among(writer), ENVIRON) is None
    assert [item.path for item in close(writes, pinned).closed] == [str(tool)]
    assert close(elsewhere, victim).closed == ()


def test_a_pinned_script_can_import_files_that_others_write(place: Path, tool: Path) -> None:
    writer = made("writer", Path("/w.py"), f"{tool.parent}:rw")
    python = "/usr/bin/python3"
    module = {"source": {"command": python, "args": ["-m", "tool"]}, "cwd": str(tool.parent)}
    isolated = {**module, "source": {"command": python, "args": ["-P", "-m", "tool"]}}
    tool.chmod(0o755)
    for victim, is_refused in (
        (made("tool", tool, sha256="0" * 64), True),
        (made("tool", tool, **module), True),
        (made("tool", tool, **module, sha256="0" * 64), True),
        (made("tool", tool, **isolated), False),
        (made("tool", tool, source={"command": str(tool)}), False),
    ):
        refused = find_conflict(victim, among(writer), ENVIRON)
        assert (refused is not None) is is_refused, victim.argv
        assert refused is None or str(tool.parent) in refused.message


def test_its_own_modules_are_its_own_to_change_and_its_program_is_not(tool: Path) -> None:
    own = made("writer", tool, f"{tool.parent}:rw")
    assert [item.path for item in close(own).closed] == [str(tool)]
    (tool.parent / "link.py").symlink_to(tool)
    with pytest.raises(Refused) as caught:
        close(made("writer", tool.parent / "link.py", f"{tool.parent}:rw"))
    assert caught.value.code == "X0391" and f"write {tool} in place of" in caught.value.help


def test_code_of_the_host_refuses_the_writer(
    place: Path, tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tool.parent))
    assert str(tool.parent) in [
        item.path for item in close(made("w", Path("/w"), f"{place}:rw")).closed
    ]
    with pytest.raises(Refused) as caught:
        close(made("writer", Path("/w.py"), f"{tool.parent}:rw"))
    assert caught.value.code == "X0360" and "python -P" in caught.value.help


def test_a_running_writer_must_have_closed_the_code(place: Path, tool: Path) -> None:
    writer, victim = made("writer", Path("/w.py"), f"{place}:rw"), made("tool", tool)
    refused = find_open_code(victim, [(writer, ())], ENVIRON)
    assert refused is not None and refused.code == "X0361"
    assert "exthost restart writer" in refused.help
    assert find_open_code(victim, [(writer, (str(tool.parent),))], ENVIRON) is None
    assert find_open_code(victim, [(made("reader", Path("/r.py")), ())], ENVIRON) is None


def test_the_neighbours_of_a_config_come_in_its_order(tool: Path) -> None:
    one, two, three = (made(name, tool) for name in ("one", "two", "three"))
    neighbours = configured_neighbours(Spec(id="two", argv=("x",), neighbours=(one, two, three)))
    assert [spec.id for spec in neighbours.earlier] == ["one"]
    assert [spec.id for spec in neighbours.every] == ["one", "three"]


def test_the_state_folder_is_not_granted(tmp_path: Path, tool: Path) -> None:
    host = {"EXTHOST_HOME": str(tmp_path / "state")}
    spec = made("writer", tool)
    for folder in (tmp_path, tmp_path / "state", tmp_path / "state" / "extensions"):
        with pytest.raises(Refused) as caught:
            refuse_state_folder(spec, [str(folder)], host)
        assert caught.value.code == "X0397"
    refuse_state_folder(spec, [str(tool.parent)], host)


def test_nothing_is_computed_without_a_grant(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exthost.launch.shared_folders.CodeReader", lambda: 1 / 0)
    victim, reader = made("tool", tool), made("reader", tool, os.fspath(tool.parent))
    assert find_conflict(victim, among(reader), ENVIRON) is None
    assert close_view(reader, View(), among(victim), ENVIRON) == View()
    assert find_open_code(victim, [(reader, ())], ENVIRON) is None
