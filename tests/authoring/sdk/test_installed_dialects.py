"""The SDK finds dialects in its own package and by entry points of installed packages.

A dialect is the protocol that a program written with the SDK can speak. `stepper` is a toy dialect
for tests: `stepper.installed(folder)` writes the metadata of a package with its entry points.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from exthost_sdk.dialects import built_in_names, dialect_names, load_dialect
from exthost_sdk.errors import SdkUsageError
from exthost_sdk.first_message import detect_dialect
from exthost_sdk.scaffold import project_files

from exthost.dialects.find import BUILT_IN
from tests.toys import stepper
from tests.toys.stepper_sdk import GREETING, StepperEndpoint

ROOT = Path(__file__).parents[3]
WAIT_SECONDS = 60

PROGRAM = """
from exthost.sdk import Extension

ext = Extension("toy")

@ext.tool
def shout(text: str) -> str:
    return text.upper()

ext.run()
"""


def test_the_sdk_supports_every_built_in_dialect() -> None:
    assert set(built_in_names()) == set(BUILT_IN)
    for name in built_in_names():
        dialect = load_dialect(name)
        assert dialect.endpoint.name == name and dialect.templates
        assert bool(dialect.manifest_file) == (dialect.write_manifest is not None)


def test_an_installed_dialect_is_found_detected_and_scaffolded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SdkUsageError, match="no dialect 'stepper'"):
        load_dialect("stepper")
    assert detect_dialect(GREETING) == ""
    monkeypatch.syspath_prepend(str(stepper.installed(tmp_path)))
    assert load_dialect("stepper").endpoint is StepperEndpoint
    assert dialect_names() == [*built_in_names(), "stepper"]
    assert detect_dialect(GREETING) == "stepper"
    assert detect_dialect(GREETING[:3]) is None and detect_dialect(b"STEEP") == ""
    assert 'dialect = "stepper"' in project_files("toy", "stepper")["exthost.toml"]


def test_a_program_can_use_an_installed_dialect(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(PROGRAM)
    path = os.pathsep.join([str(stepper.installed(tmp_path / "site")), str(ROOT)])
    result = subprocess.run(
        [sys.executable, str(tmp_path / "toy.py"), "--dialect", "stepper"],
        input='{"jsonrpc":"2.0","id":1,"method":"hello"}\n',
        env=dict(os.environ, PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["result"] == {"tools": ["shout"]}


def test_importing_the_sdk_imports_no_dialect_and_no_slow_module() -> None:
    code = (
        "import sys, exthost.sdk; "
        "print(*(name for name in sys.modules if '_sdk.dialects.' in name), "
        "*({'importlib.metadata', 'pkgutil'} & sys.modules.keys()))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=dict(os.environ, PYTHONPATH=f"{ROOT / 'src'}:{ROOT / 'sdk/src'}"),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert (result.stdout.strip(), result.stderr) == ("", "")
