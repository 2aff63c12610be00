"""Tests of the container image: the instructions of the Dockerfile, and a host as in a container.

The image itself is not built. bubblewrap makes a read-only root without privileges, as a container
has it, and a host runs there.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.faces.cli.cli_process import RUN_SECONDS

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"

# By the name of each extension: its settings.
EXTENSIONS = {
    "free": "",
    "strict": "permissions = {}",
    "landlocked": 'permissions = {}\nsandbox = "landlock"',
}


def read_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile and their arguments."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [
        (name, rest.strip())
        for name, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")
    ]


def test_the_image_runs_as_an_ordinary_user_and_starts_the_host() -> None:
    instructions = read_instructions()
    last_stage = instructions[[name for name, _ in instructions].index("FROM", 2) :]
    values = dict(last_stage)
    assert values["USER"] == "10001:10001"
    assert values["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(values["ENTRYPOINT"]) == ["exthost"]
    assert json.loads(values["CMD"])[0] == "run"
    names = [name for name, _ in last_stage]
    assert names.index("USER") > names.index("RUN")
    assert "ADD" not in names


def test_all_files_that_the_image_copies_are_in_its_context() -> None:
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    copies = [rest for name, rest in read_instructions() if name == "COPY" and "--from" not in rest]
    assert copies
    for copy in copies:
        *sources, _ = copy.split()
        assert set(sources) <= allowed
        assert all((ROOT / source).exists() for source in sources)


def test_the_packages_that_the_image_installs_are_pinned() -> None:
    (install,) = [rest for _, rest in read_instructions() if "pip install" in rest]
    assert "--constraint constraints.txt" in install
    extra = re.search(r'"\.\[(\w+)\]"', install)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert extra and extra[1] in project["project"]["optional-dependencies"]


def write_config(folder: Path) -> Path:
    """Write a config of EXTENSIONS, which run code that a test sends; return its path."""
    program = folder / "explorer.py"
    shutil.copy(ROOT / "tests" / "sandbox" / "explorer.py", program)
    source = f'{{ command = "{PYTHON}", args = ["-S", "-E", "{program}"] }}'
    config = folder / "exthost.toml"
    config.write_text(
        "\n".join(
            f'[[extensions]]\nname = "{name}"\nsource = {source}\n{settings}\n'
            for name, settings in EXTENSIONS.items()
        )
    )
    return config


def container_command(bwrap: str, config: Path, state: Path) -> list[str]:
    """Return the beginning of a command that runs in a container. `config` is a folder that it can
    read, and `state` one that is mounted at /var/lib/exthost."""
    return [
        *(bwrap, "--unshare-user", "--uid", "10001", "--gid", "10001", "--cap-drop", "ALL"),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--disable-userns", "--as-pid-1"),
        *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *("--tmpfs", "/var/lib", "--bind", str(state), "/var/lib/exthost"),
        *("--clearenv", "--setenv", "EXTHOST_HOME", "/var/lib/exthost"),
        *("--setenv", "HOME", "/var/lib/exthost", "--setenv", "PATH", "/usr/bin:/bin"),
        # These may be in /tmp, which is otherwise empty in the container.
        *("--ro-bind", str(ROOT), str(ROOT), "--ro-bind", str(config), str(config)),
    ]


@pytest.mark.more
def test_a_host_works_on_a_read_only_root_without_user_namespaces(tmp_path: Path) -> None:
    bwrap = shutil.which("bwrap")
    if bwrap is None or not Path(PYTHON).exists():
        pytest.skip("bubblewrap or the Python of the system is missing")
    folder, state = tmp_path / "config", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    config = write_config(folder)
    container = container_command(bwrap, folder, state)

    def call(extension: str, code: str) -> "subprocess.CompletedProcess[str]":
        """Run `exthost call` in the container; the extension runs this code."""
        method = ["explore", "--method", "--args", json.dumps({"code": code})]
        arguments = ["call", extension, *method, "--config", str(config), "--json"]
        return subprocess.run(
            [*container, "--", sys.executable, "-m", "exthost", *arguments],
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )

    free = call("free", "result = 'works'")
    assert (free.returncode, json.loads(free.stdout or "null")) == (0, "works"), free.stderr
    strict = call("strict", "result = 'works'")
    assert strict.returncode == 4, strict.stderr  # bubblewrap needs user namespaces
    assert json.loads(strict.stdout)["error"]["code"] == "X0302"
    # Landlock needs no user namespaces. It denies these two actions.
    landlocked = call(
        "landlocked",
        "import socket\n"
        "result = []\n"
        f"for action in (lambda: open('{config}'), socket.socket):\n"
        "    try: action()\n"
        "    except OSError as error: result.append(type(error).__name__)\n",
    )
    assert landlocked.returncode == 0, landlocked.stderr
    assert json.loads(landlocked.stdout) == ["PermissionError", "PermissionError"]
