"""`exthost doctor --security` lists what is weak in a config, with the line that fixes it."""

import json
import sys
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import run_inside


def findings(folder: Path, text: str) -> dict[str, str]:
    """Return the fixes by kind and extension."""
    (folder / "exthost.toml").write_text(text)
    (folder / "server.py").touch()
    done = run_inside("doctor", "--security", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["count"] == len(report["weak"])
    return {f"{row['kind']} {row['extension']}".strip(): row["fix"] for row in report["weak"]}


def entry(more: str = "", name: str = "demo", args: str = '"server.py"') -> str:
    source = f'{{ type = "process", command = "{sys.executable}", args = [{args}] }}'
    return f'[[extensions]]\nname = "{name}"\nsource = {source}\n{more}\n'


HELD = "permissions = {}"


@pytest.mark.parametrize(
    ("text", "kind", "fix"),
    [
        (entry(), "sandbox demo", "permissions = {}  # in the entry of demo"),
        (entry(f'{HELD}\nsandbox = "off"'), "sandbox demo", 'sandbox = "strict"'),
        (entry(f'{HELD}\nsandbox = "best-effort"'), "sandbox demo", 'sandbox = "strict"'),
        (entry(HELD), "lock", "exthost lock"),
        (entry(HELD) + '[trust]\nlock = "off"\n', "lock", '[trust] lock = "enforce"'),
        (entry(HELD) + '[discovery]\nsearch_paths = ["x"]\n', "new", '[trust] new = "ask"'),
        (entry('permissions = { filesystem = ["/"] }'), "grant demo", "./data"),
        (entry('permissions = { filesystem = ["~"] }'), "grant demo", "./data"),
        (entry('permissions = { filesystem = [".:rw"] }'), "grant demo", "./data"),
        (
            entry('permissions = { network = true, filesystem = ["./data:rw"] }'),
            "grant demo",
            'network = ["api.example.com:443"]',
        ),
        (entry(f'{HELD}\nenv = {{ API_TOKEN = "x" }}'), "secret demo", "{ from = "),
        (entry(HELD, args='"server.py", "--api-key=x"'), "secret demo", "env.API_KEY"),
        (entry(HELD) + '[hooks]\non_failure = "open"\n', "guard", 'on_failure = "closed"'),
        (entry(f'{HELD}\nhooks = {{ on_failure = "open" }}'), "guard demo", "closed"),
    ],
)
def test_a_weak_config_is_found_with_its_fix(
    tmp_path: Path, text: str, kind: str, fix: str
) -> None:
    assert fix in findings(tmp_path, text)[kind]


def test_files_that_everybody_can_write_are_found(tmp_path: Path) -> None:
    (tmp_path / "server.py").touch()
    (tmp_path / "server.py").chmod(0o666)
    found = findings(tmp_path, entry(HELD))
    assert "chmod o-w" in found["file demo"]


def test_a_strict_config_with_a_lock_has_nothing_to_fix(tmp_path: Path) -> None:
    (tmp_path / "exthost.lock").write_text("version = 1\n")
    assert findings(tmp_path, entry(HELD)) == {}
    done = run_inside("doctor", "--security", cwd=tmp_path)
    assert "0 weak points found" in done.stdout
