"""Tests of `lend_sdk`: verbs for authors run an extension although its Python has no `exthost_sdk`.

They then put the SDK that exthost itself uses on the path of the program, and print a note about
it.
"""

import os
import sys
import venv
from pathlib import Path

import pytest

from exthost.faces.cli.own_sdk import lend_sdk
from exthost.model.spec import Spec
from tests.faces.cli.cli_process import run_inside


def test_a_program_that_finds_the_sdk_or_needs_none_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "with.py").write_text("import exthost_sdk")
    (tmp_path / "without.py").write_text("import json")
    os.mkfifo(tmp_path / "pipe.py")
    for argv in (
        (sys.executable, "with.py"),
        (sys.executable, "without.py"),
        (sys.executable, "missing.py"),
        (sys.executable, "pipe.py"),
        ("node", "with.py"),
    ):
        spec = Spec(id="x", argv=argv, dialect="mcp", cwd=str(tmp_path))
        with lend_sdk(spec) as spec_with_sdk:
            assert spec_with_sdk is spec


@pytest.mark.more  # makes an environment, and checks an extension
def test_a_new_extension_works_with_a_python_without_the_sdk(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    environ = {"PATH": f"{tmp_path / 'env' / 'bin'}:/usr/bin:/bin"}
    result = run_inside("new", "toy", "--dialect", "mcp", cwd=tmp_path, env=environ)
    assert result.returncode == 0, result.stderr
    call = ("shout", "text=hi")
    result = run_inside("new", "ci", "--dialect", "cigen", cwd=tmp_path, env=environ)
    assert result.returncode == 0, result.stderr
    for words, folder in (
        (("inspect", "ci"), tmp_path),  # its program needs protobuf, too
        (("inspect", "toy"), tmp_path),
        (("check", "toy"), tmp_path),
        (("call", "toy", *call), tmp_path),
        (("call", "toy", *call), tmp_path / "toy"),  # toy is then a name in the config
        (("call", *call, "--dialect", "mcp", "--", "python3", "extension.py"), tmp_path / "toy"),
    ):
        result = run_inside(*words, cwd=folder, env=environ)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "uses that of exthost" in result.stderr
