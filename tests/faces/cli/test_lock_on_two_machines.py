"""The lock of a project (`exthost.lock`) is the same on two machines, byte for byte.

`exthost lock` writes the digests of the extensions of a config into it. Two machines are here two
folders, with two home folders, and with exthost on two versions of Python.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import exthost_sdk
import pytest

import exthost
from tests.extensions.locked_project import MORPHIR, tool

pytestmark = pytest.mark.more

RUN_SECONDS = 100

# The Python that runs the extensions. It is the same everywhere: its version is in the lock.
PYTHON_FOLDER = Path(sys.base_prefix) / "bin"


def other_pythons() -> list[str]:
    """Return the interpreters of other versions on this machine that can import exthost with the
    packages of this environment."""
    version = sys.version_info.minor
    names = [f"python3.{minor}" for minor in range(11, 16) if minor != version]
    folders = [Path(folder) for folder in os.get_exec_path()]
    folders += Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin")
    paths_by_name = {
        name: str(folder / name) for name in names for folder in folders if (folder / name).exists()
    }
    return [path for path in paths_by_name.values() if runs_exthost(path)]


def exthost_environment(home: Path) -> dict[str, str]:
    paths = [Path(exthost.__file__).parents[1], Path(exthost_sdk.__file__).parents[1]]
    paths += [Path(path) for path in sys.path if path.endswith("site-packages")]
    return {
        "PATH": f"{PYTHON_FOLDER}:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": ":".join(map(str, paths)),
    }


def run_exthost(
    python: str, *arguments: str, cwd: Path, home: Path
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [python, "-m", "exthost", *arguments],
        cwd=cwd,
        env=exthost_environment(home),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )


def runs_exthost(python: str) -> bool:
    result = run_exthost(python, "lock", "--help", cwd=Path("/"), home=Path("/nonexistent"))
    return result.returncode == 0


def make_project(root: Path) -> Path:
    """Write a project with a script, a script in a virtual environment, and a script in a folder as
    npm makes it: `.bin/server` is a link to the program of the package."""
    root.mkdir(parents=True)
    # The tools of each extension, whose program MORPHIR reads this file.
    (root / "offer.json").write_text(json.dumps([tool("get"), tool("tell")]))
    (root / "script").mkdir()
    (root / "script" / "main.py").write_text(MORPHIR)
    package = root / "node_modules" / "server"
    package.mkdir(parents=True)
    (package / "index").write_text(f"#!/usr/bin/env python3\n{MORPHIR}")
    (package / "index").chmod(0o755)
    (package / "package.json").write_text('{"name": "server", "version": "1.0.0"}')
    (root / "node_modules" / ".bin").mkdir()
    (root / "node_modules" / ".bin" / "server").symlink_to("../server/index")
    environment = root / "package" / "venv"
    venv.create(environment, with_pip=False)
    (libraries,) = environment.glob("lib/python3.*/site-packages")
    (libraries / "server.py").write_text(MORPHIR)
    (libraries / "server-1.0.dist-info").mkdir()
    # This file and the first line of the script have the path of the project, which differs between
    # machines. So the digest must not depend on these paths.
    (libraries / "server-1.0.dist-info" / "RECORD").write_text(f"{root}/bin/server,,\n")
    (environment / "bin" / "server").write_text(f"#!{environment}/bin/python\nimport server\n")
    (environment / "bin" / "server").chmod(0o755)
    commands = {
        "script": ["python3", "script/main.py", f"{root}/offer.json"],
        "venv": [f"{environment}/bin/server", "offer.json"],
        "npm": ["./node_modules/.bin/server", "offer.json"],
    }
    (root / "exthost.toml").write_text(
        "".join(
            f'[[extensions]]\nname = "{name}"\ndialect = "morphir"\nenv = {{ A = "b" }}\n'
            f"source = {{ command = {json.dumps(command[0])}, args = {json.dumps(command[1:])} }}\n"
            for name, command in commands.items()
        )
    )
    return root


def lock(python: str, root: Path, home: Path) -> bytes:
    """Run `exthost lock` with this Python; return the lock."""
    home.mkdir(exist_ok=True)
    result = run_exthost(python, "lock", cwd=root, home=home)
    assert result.returncode == 0, result.stderr
    return (root / "exthost.lock").read_bytes()


def test_a_lock_is_the_same_in_two_folders_with_two_versions_of_python(tmp_path: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("no other version of Python here can import exthost")
    root = make_project(tmp_path / "one" / "project")
    first = lock(sys.executable, root, tmp_path / "home")
    assert lock(sys.executable, root, tmp_path / "home") == first
    # The three extensions have the digest of a package, and no path is in the lock.
    assert first.count(b"\npackage = ") == 3 and str(tmp_path).encode() not in first
    for number, python in enumerate(pythons):
        other = make_project(tmp_path / f"other{number}" / "deeper" / "copy")
        home = tmp_path / f"home-of-{number}"
        assert lock(python, other, home) == first, python
        shutil.copyfile(root / "exthost.lock", other / "exthost.lock")
        result = run_exthost(python, "verify", cwd=other, home=home)
        assert result.returncode == 0, result.stderr
