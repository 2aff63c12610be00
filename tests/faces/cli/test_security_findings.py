"""Tests of `exthost doctor --security`: it lists weak points of a config, with their fixes."""

import json
import sys
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import run_inside


def run_doctor(folder: Path, text: str) -> dict[str, str]:
    """Run `doctor --security` with this config; return the fix of each weak point, by its kind and
    extension ("sandbox demo")."""
    (folder / "exthost.toml").write_text(text)
    (folder / "server.py").touch()
    result = run_inside("doctor", "--security", "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["count"] == len(report["weak"])
    return {f"{row['kind']} {row['extension']}".strip(): row["fix"] for row in report["weak"]}


def entry(more: str = "", name: str = "demo", args: str = '"server.py"') -> str:
    source = f'{{ type = "process", command = "{sys.executable}", args = [{args}] }}'
    return f'[[extensions]]\nname = "{name}"\nsource = {source}\n{more}\n'


# The line that puts an extension into a sandbox without any permission.
SANDBOXED = "permissions = {}"


@pytest.mark.parametrize(
    ("text", "kind", "fix"),
    [
        (entry(), "sandbox demo", "permissions = {}  # in the entry of demo"),
        (entry(f'{SANDBOXED}\nsandbox = "off"'), "sandbox demo", 'sandbox = "strict"'),
        (entry(f'{SANDBOXED}\nsandbox = "best-effort"'), "sandbox demo", 'sandbox = "strict"'),
        (entry(SANDBOXED), "lock", "exthost lock"),
        (entry(SANDBOXED) + '[trust]\nlock = "off"\n', "lock", '[trust] lock = "enforce"'),
        (entry(SANDBOXED) + '[discovery]\nsearch_paths = ["x"]\n', "new", '[trust] new = "ask"'),
        (entry('permissions = { filesystem = ["/"] }'), "grant demo", "./data"),
        (entry('permissions = { filesystem = ["~"] }'), "grant demo", "./data"),
        (entry('permissions = { filesystem = [".:rw"] }'), "grant demo", "./data"),
        (
            entry('permissions = { network = true, filesystem = ["./data:rw"] }'),
            "grant demo",
            'network = ["api.example.com:443"]',
        ),
        (entry(f'{SANDBOXED}\nenv = {{ API_TOKEN = "x" }}'), "secret demo", "{ from = "),
        (entry(SANDBOXED, args='"server.py", "--api-key=x"'), "secret demo", "env.API_KEY"),
        (entry(SANDBOXED) + '[hooks]\non_failure = "open"\n', "guard", 'on_failure = "closed"'),
        (entry(f'{SANDBOXED}\nhooks = {{ on_failure = "open" }}'), "guard demo", "closed"),
    ],
)
def test_a_weak_config_is_found_with_its_fix(
    tmp_path: Path, text: str, kind: str, fix: str
) -> None:
    assert fix in run_doctor(tmp_path, text)[kind]


def test_files_that_everybody_can_write_are_found(tmp_path: Path) -> None:
    (tmp_path / "server.py").touch()
    (tmp_path / "server.py").chmod(0o666)
    fixes = run_doctor(tmp_path, entry(SANDBOXED))
    assert "chmod o-w" in fixes["file demo"]


def test_a_strict_config_with_a_lock_has_nothing_to_fix(tmp_path: Path) -> None:
    (tmp_path / "exthost.lock").write_text("version = 1\n")
    assert run_doctor(tmp_path, entry(SANDBOXED)) == {}
    result = run_inside("doctor", "--security", cwd=tmp_path)
    assert "0 weak points found" in result.stdout


def test_a_misspelt_name_is_an_error_and_no_clean_result(tmp_path: Path) -> None:
    run_doctor(tmp_path, entry('sandbox = "off"'))
    found = run_inside("doctor", "--security", "demo", cwd=tmp_path)
    assert found.returncode == 0 and "its sandbox is off" in found.stdout
    missing = run_inside("doctor", "--security", "demp", cwd=tmp_path)
    assert missing.returncode == 2 and "did you mean 'demo'?" in missing.stderr
