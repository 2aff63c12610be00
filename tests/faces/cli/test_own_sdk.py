"""A Python without the SDK gets that of exthost, for the verbs of authors."""

import sys
import venv
from pathlib import Path

import pytest

from exthost.faces.cli.own_sdk import lend_sdk
from exthost.model.spec import Spec
from tests.faces.cli.cli_process import run_inside

ENVIRON = {"PATH": "/usr/bin:/bin"}


def test_a_program_that_finds_the_sdk_or_needs_none_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / "with.py").write_text("import exthost_sdk")
    (tmp_path / "without.py").write_text("import json")
    for argv in (
        (sys.executable, "with.py"),
        (sys.executable, "without.py"),
        (sys.executable, "missing.py"),
        ("node", "with.py"),
    ):
        spec = Spec(id="x", argv=argv, dialect="mcp", cwd=str(tmp_path))
        with lend_sdk(spec) as lent:
            assert lent is spec


@pytest.mark.more  # makes an environment, and checks an extension
def test_a_new_extension_passes_check_with_a_python_without_the_sdk(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    environ = {"PATH": f"{tmp_path / 'env' / 'bin'}:/usr/bin:/bin"}
    result = run_inside("new", "toy", "--dialect", "mcp", cwd=tmp_path, env=environ)
    assert result.returncode == 0, result.stderr
    for verb in ("inspect", "check"):
        result = run_inside(verb, "toy", cwd=tmp_path, env=environ)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "uses that of exthost" in result.stderr
