"""Helpers that run programs in the virtual environments of agent frameworks, with a fake model.

Each framework (LangChain, …) has two environments under `.venv/integrations/`, which `make
integrations` makes: one with its newest release, and one with the oldest that exthost supports. The
fake model (`tests/fake_model.py`) calls the tools that the question names.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_docs import read_blocks, write_files
from tests.fake_model import fake_model, model_environment

__all__ = ["RELEASES", "agent_folder", "call", "environment_python", "run_program"]

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path(sys.prefix) / "integrations"
RELEASES = ["newest", "oldest"]

# The longest that a program may run: it only bounds one that hangs. On a busy machine, mypy needs
# more than three minutes for some frameworks.
PROGRAM_SECONDS = 600

# `text` speaks morphir, the default dialect. `painter` writes what it is sent to the file "heard",
# and a test kills it.
CONFIG = """\
[[extensions]]
name = "text"
source = {{ type = "process", command = "{python}", args = ["-S", "-E", "text.py"] }}

[[extensions]]
name = "painter"
dialect = "mcp"
source = {{ type = "process", command = "{python}", args = ["-S", "-E", "painter.py", "heard"] }}
restart = {{ strategy = "exponential", initial_delay = "100ms" }}

[[extensions]]
name = "remark"
dialect = "nexo"
source = {{ type = "process", command = "{python}", args = ["-S", "-E", "remark.py"] }}
"""

# An extension of the dialect nexo.
REMARK = """\
import json
import sys

TOOL = {"name": "remark", "description": "Remark on a text", "input_schema": {"type": "object"}}

for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        result = {"tools": [TOOL], "hooks": []}
    elif request["method"] == "tools/call":
        result = {"remark": "fine: " + request["params"]["arguments"]["text"]}
    else:
        result = {}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def environment_python(name: str) -> str:
    """Return the interpreter of an environment, such as "langchain-newest"; skip the test if it is
    not installed."""
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"the environment {name} is not installed: make integrations")
    return str(python)


def agent_folder(page: str, folder: Path) -> Path:
    """Write the programs of the page `docs/howto/PAGE.md`, and a config with extensions of three
    dialects (protocols); return the folder."""
    (folder / "exthost.toml").write_text(CONFIG.format(python=sys.executable))
    shutil.copy(ROOT / "examples" / "morphir" / "text.py", folder / "text.py")
    shutil.copy(ROOT / "tests" / "extensions" / "painter.py", folder / "painter.py")
    (folder / "remark.py").write_text(REMARK)
    write_files(read_blocks(f"docs/howto/{page}.md"), folder)
    return folder


def call(name: str, **arguments: Any) -> str:
    """Return the line of a question that makes the fake model call a tool."""
    return f"call {name} {json.dumps(arguments)}"


def _variables(folder: Path, url: str) -> dict[str, str]:
    home = {"EXTHOST_HOME": str(folder / "home"), "HOME": str(folder)}
    return os.environ | model_environment(url) | home


def run_program(python: str, folder: Path, *arguments: str) -> str:
    """Run a program with the fake model; return its output."""
    with fake_model() as url:
        result = subprocess.run(
            [python, *arguments],
            cwd=folder,
            env=_variables(folder, url),
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
