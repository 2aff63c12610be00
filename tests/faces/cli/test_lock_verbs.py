"""`exthost lock`, `approve` and `verify`: what they write, what they show, and how they exit."""

import json
from pathlib import Path

import pytest

from tests.extensions.locked_project import Project, tool
from tests.faces.cli.running import run_inside


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_lock_writes_a_record_of_each_extension_and_call_obeys_it(project: Project) -> None:
    done = run_inside("lock", cwd=project.root)
    assert done.returncode == 0 and "demo: locked, 2 tools" in done.stdout
    text = project.lock.read_text()
    assert "[extensions.demo.tools.get]" in text and 'description = "Gets a thing."' in text
    assert run_inside("call", "demo", "get", cwd=project.root).returncode == 0
    project.offer(tool("get", "Gets a thing, and sends it."), tool("tell"))
    done = run_inside("call", "demo", "get", cwd=project.root)
    assert done.returncode == 4 and "X1822" in done.stderr
    assert "exthost approve demo" in done.stderr
    project.program.write_text("raise SystemExit")
    done = run_inside("call", "demo", "tell", cwd=project.root)
    assert done.returncode == 4 and "X1820" in done.stderr and "main.py has changed" in done.stderr
    assert "package = " in done.stderr  # the line of the lock


def test_lock_twice_writes_the_same_file(project: Project) -> None:
    assert run_inside("lock", cwd=project.root).returncode == 0
    text, status = project.lock.read_bytes(), project.lock.stat()
    done = run_inside("lock", cwd=project.root)
    assert "unchanged" in done.stdout
    assert project.lock.read_bytes() == text and project.lock.stat().st_ino == status.st_ino


def test_lock_replaces_a_lock_that_cannot_be_read_but_not_with_a_name(project: Project) -> None:
    project.lock.write_text("<<<<<<< ours\n")
    done = run_inside("lock", "demo", cwd=project.root)
    assert done.returncode == 4 and "merge conflict" in done.stderr
    done = run_inside("lock", cwd=project.root)
    assert done.returncode == 0 and "the old lock is replaced" in done.stderr
    assert run_inside("call", "demo", "get", cwd=project.root).returncode == 0


def test_lock_replaces_a_link_and_not_its_target(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("precious")
    project.lock.symlink_to(tmp_path / "outside")
    assert run_inside("lock", cwd=project.root).returncode == 0
    assert (tmp_path / "outside").read_text() == "precious" and not project.lock.is_symlink()


def test_lock_with_a_name_leaves_other_records(project: Project) -> None:
    project.entries.append({**project.entries[0], "name": "other"})
    project.write_config()
    assert run_inside("lock", cwd=project.root).returncode == 0
    before = project.lock.read_text()
    project.offer(tool("get", "Changed."), tool("tell"))
    assert run_inside("lock", "demo", cwd=project.root).returncode == 0
    after = project.lock.read_text()
    assert after != before
    assert after.partition("[extensions.other]")[2] == before.partition("[extensions.other]")[2]
    project.entries.pop()
    project.write_config()
    assert run_inside("lock", cwd=project.root).returncode == 0
    assert "other" not in project.lock.read_text()


def test_an_extension_that_does_not_start_keeps_its_record_and_the_others_are_locked(
    project: Project,
) -> None:
    broken = {"type": "process", "command": "false"}
    project.entries.append({"name": "broken", "source": broken})
    project.write_config()
    done = run_inside("lock", "--json", cwd=project.root)
    assert done.returncode == 5
    report = json.loads(done.stdout)
    assert [(row["id"], row["locked"]) for row in report["extensions"]] == [
        ("demo", True),
        ("broken", False),
    ]
    assert "[extensions.demo]" in project.lock.read_text()
    assert "broken" not in project.lock.read_text()


def test_an_unknown_name_is_not_found(project: Project) -> None:
    done = run_inside("lock", "dmo", cwd=project.root)
    assert done.returncode == 2 and "did you mean 'demo'" in done.stderr


def test_dev_and_check_and_a_command_do_not_look_at_the_lock(project: Project) -> None:
    assert run_inside("lock", cwd=project.root).returncode == 0
    project.program.write_text(project.program.read_text() + "# changed\n")
    command = project.entries[0]["source"]
    words = [command["command"], *command["args"]]
    done = run_inside("call", "get", "--dialect", "mcp", "--", *words, cwd=project.root)
    assert done.returncode == 0
    done = run_inside("check", "demo", "--json", cwd=project.root)
    assert "X1820" not in done.stdout + done.stderr


def test_list_names_an_extension_without_a_record(project: Project) -> None:
    project.write_config(trust={"lock": "enforce"})
    done = run_inside("list", cwd=project.root)
    assert "refused" in done.stdout
