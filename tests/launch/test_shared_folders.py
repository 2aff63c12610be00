"""Extensions that may write what others run, and grants that include the host's own files."""

from pathlib import Path
from typing import Any

import pytest

from exthost.config import spec_from_mapping
from exthost.errors import Refused
from exthost.launch.shared_folders import find_conflict, refuse_state_folder
from exthost.spec import Spec


def made(name: str, program: Path, *granted: str, **settings: Any) -> Spec:
    permissions = {"permissions": {"filesystem": [*granted]}} if granted else {}
    source = {"command": "python3", "args": [str(program)]}
    return spec_from_mapping({"name": name, "source": source, **permissions, **settings})


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "tool.py"
    path.parent.mkdir()
    path.touch()
    return path


def test_whoever_comes_later_is_refused(tmp_path: Path, tool: Path) -> None:
    writer = made("writer", tmp_path / "writer.py", f"{tool.parent}:rw")
    victim = made("tool", tool)
    for later, earlier in ((writer, victim), (victim, writer)):
        refused = find_conflict(later, [earlier], [earlier])
        assert refused is not None and refused.code == "X0396" and refused.extension == later.id
        assert str(tool) in refused.message and "sha256" in refused.help


def test_what_is_pinned_read_only_or_elsewhere_is_no_conflict(tmp_path: Path, tool: Path) -> None:
    victim = made("tool", tool)
    pinned = made("tool", tool, sha256={"package": "0" * 64}, cwd=str(tool.parent))
    writes = made("writer", tmp_path / "writer.py", f"{tool.parent}:rw")
    reads = made("writer", tmp_path / "writer.py", str(tool.parent))
    (tmp_path / "other").mkdir()
    elsewhere = made("writer", tmp_path / "writer.py", f"{tmp_path / 'other'}:rw")
    off = made("writer", tmp_path / "writer.py", f"{tool.parent}:rw", sandbox="off")
    for one, other in ((pinned, writes), (victim, reads), (victim, elsewhere), (victim, off)):
        assert find_conflict(one, [other], [other]) is None
        assert find_conflict(other, [one], [one]) is None


def test_a_pinned_script_may_import_what_others_write(tmp_path: Path, tool: Path) -> None:
    writer = made("writer", tmp_path / "writer.py", f"{tool.parent}:rw")
    script = made("tool", tool, sha256="0" * 64)
    module = {"source": {"command": "python3", "args": ["-m", "tool"]}, "cwd": str(tool.parent)}
    isolated = {**module, "source": {"command": "python3", "args": ["-P", "-m", "tool"]}}
    for victim, is_refused in (
        (script, True),
        (made("tool", tool, **module), True),
        (made("tool", tool, **module, sha256="0" * 64), True),
        (made("tool", tool, **isolated), False),
        (made("tool", tool, source={"command": str(tool)}, sha256="0" * 64), False),
    ):
        refused = find_conflict(victim, [writer], [writer])
        assert (refused is not None) is is_refused, victim.argv
        assert refused is None or str(tool.parent) in refused.message


def test_the_state_folder_is_not_granted(tmp_path: Path, tool: Path) -> None:
    host = {"EXTHOST_HOME": str(tmp_path / "state")}
    spec = made("writer", tool)
    for folder in (tmp_path, tmp_path / "state", tmp_path / "state" / "extensions"):
        with pytest.raises(Refused) as caught:
            refuse_state_folder(spec, [str(folder)], host)
        assert caught.value.code == "X0397"
    refuse_state_folder(spec, [str(tool.parent)], host)
