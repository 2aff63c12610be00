"""Which commands can be started from a template, and why others cannot.

A template is a Python process that has imported the modules of an extension and then waits. Each
start is a fork of it, which is faster than a new interpreter. This needs a command such as
`python3 run.py` or `python3 -m tool`; `NoTemplate` has the reason against another command.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from exthost.launch.template_plan import NoTemplate, find_python_command, find_refusal
from exthost.model.launch_plan import LaunchPlan
from exthost.model.lock_record import LockRecord, SpecLock
from exthost.model.spec import Permissions, Pins, Spec
from exthost.process.environment import Variables

SPEC = Spec(id="a", argv=("a",), dialect="mcp")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script, a compiled module and the interpreter of the tests."""
    (tmp_path / "run.py").write_text("pass\n")
    (tmp_path / "run.pyc").write_bytes(b"\xa7\r\r\n")  # the first bytes of a compiled module
    (tmp_path / "python3").symlink_to(sys.executable)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "python3").chmod(0o755)
    return tmp_path


def make_plan(folder: Path, *argv: str) -> LaunchPlan:
    env = Variables({"PATH": f"{folder}:/usr/bin:/bin"})
    return LaunchPlan(argv=argv, cwd=str(folder), env=env)


@pytest.mark.parametrize(
    ("argv", "options", "target", "is_module", "arguments"),
    [
        (("python3", "run.py"), (), "run.py", False, ()),
        (("python3", "run.py", "-x", "y"), (), "run.py", False, ("-x", "y")),
        (("python3", "-I", "-X", "dev", "run.py"), ("-I", "-X", "dev"), "run.py", False, ()),
        (("python3", "-m", "tool", "y"), (), "tool", True, ("y",)),
        (("python3", "-I", "-m", "tool"), ("-I",), "tool", True, ()),
        (("env", "python3", "run.py"), (), "run.py", False, ()),
    ],
)
def test_a_script_or_module_of_python_can_have_a_template(
    argv: tuple[str, ...],
    options: tuple[str, ...],
    target: str,
    is_module: bool,
    arguments: tuple[str, ...],
    folder: Path,
) -> None:
    command = find_python_command(make_plan(folder, *argv))
    assert command.interpreter == f"{folder}/python3"
    assert (command.options, command.target) == (options, target)
    assert (command.is_module, command.arguments) == (is_module, arguments)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("sh", "run.py"), "its program is not a Python script or module"),
        (("python3", "-c", "pass"), "the option -c of Python"),
        (("python3", "-i", "run.py"), "the option -i of Python"),
        (("python3", "-x", "run.py"), "the option -x of Python"),
        (("python3", "--unknown", "run.py"), "--unknown"),
        (("python3",), "its command names no script"),
        (("python3", "-"), "its command names no script"),
        (("python3", "missing.py"), "missing.py is not a script"),
        (("python3", "run.pyc"), "run.pyc is not a script"),
        (("env", "A=b", "python3", "run.py"), "it is started by env"),
        (("nice", "python3", "run.py"), "it is started by nice"),
        (("bin/python3", "run.py"), "is a script that chooses an interpreter"),
    ],
)
def test_another_command_has_no_template(argv: tuple[str, ...], reason: str, folder: Path) -> None:
    # A program with a slash is given as an absolute path.
    words = [f"{folder}/{word}" if word.startswith("bin/") else word for word in argv]
    with pytest.raises(NoTemplate) as caught:
        find_python_command(make_plan(folder, *words))
    assert reason in str(caught.value)


def test_a_command_that_another_program_executes_has_no_template(folder: Path) -> None:
    plan = replace(make_plan(folder, "python3", "run.py"), before=("prlimit",))
    with pytest.raises(NoTemplate, match="another program executes it"):
        find_python_command(plan)


def test_the_search_for_the_interpreter_skips_files_that_are_not_executable(folder: Path) -> None:
    for kind in ("file", "folder"):
        (folder / kind).mkdir()
    (folder / "file" / "python3").write_text("text\n")
    (folder / "folder" / "python3").mkdir()
    plan = make_plan(folder, "python3", "run.py")
    path = f"{folder}/file:{folder}/folder:{folder}"
    command = find_python_command(replace(plan, env=Variables({"PATH": path})))
    assert command.interpreter == f"{folder}/python3"
    with pytest.raises(NoTemplate, match="python3 is not found"):
        find_python_command(replace(plan, env=Variables({"PATH": f"{folder}/file"})))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (SPEC, ""),
        (replace(SPEC, permissions=Permissions()), ""),
        (replace(SPEC, permissions=Permissions(max_memory=2**30)), "max_memory"),
        (replace(SPEC, lock=SpecLock(record=LockRecord())), "locked or pinned"),
        (replace(SPEC, sha256=Pins(program="0" * 64)), "locked or pinned"),
        (replace(SPEC, permissions=Permissions(), sandbox="landlock"), "no namespaces"),
    ],
)
def test_an_extension_whose_restrictions_a_template_would_evade_has_no_template(
    spec: Spec, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real function asks whether this machine can make a stronger sandbox.
    monkeypatch.setattr(
        "exthost.launch.template_plan.uses_landlock", lambda spec: spec.sandbox == "landlock"
    )
    refusal = find_refusal(spec)
    assert reason in refusal and bool(refusal) == bool(reason)
