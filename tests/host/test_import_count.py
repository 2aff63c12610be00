"""A host imports only the modules that it uses.

Imports are most of the time that the first host of a program takes to open.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extensions.locked_project import Project

# Opens and closes a host without extensions, and prints the names of the modules.
EMPTY_HOST = """
import asyncio, sys
import exthost

async def main():
    async with exthost.Host():
        pass

asyncio.run(main())
print(*sys.modules)
"""

# Adds an extension to a host. It would be started by its first call, and there is none.
LAZY_EXTENSION = """
import asyncio, sys
import exthost

async def main():
    source = {"type": "process", "command": "/bin/cat"}
    async with exthost.Host() as host:
        await host.load({"name": "cat", "dialect": "morphir", "source": source, "start": "lazy"})

asyncio.run(main())
print(*sys.modules)
"""

# asyncio alone has 136 on Python 3.11. On Python 3.13, pathlib is a package, which has 5 more.
MAX_MODULES = 200 + 5 * (sys.version_info >= (3, 13))

# Modules of features that such a host does not use.
UNUSED_FEATURES = {
    "exthost.authoring",
    "exthost.cluster",
    "exthost.config.discovery.search",
    "exthost.faces",
    "exthost.host.audit",
    "exthost.host.control",
    "exthost.host.model_api",
    "exthost.launch.code_paths",
    "exthost.launch.sandbox.strict",
    "exthost.session.trace.session_trace",
    "sqlite3",
}


def import_modules(program: str, *arguments: str) -> set[str]:
    """Run a program, and return the names of all modules that it imported. Without `site`, so that
    the packages installed here do not count."""
    result = subprocess.run(
        [sys.executable, "-S", "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(result.stdout.split())


def test_an_empty_host_imports_at_most_200_modules() -> None:
    modules = import_modules(EMPTY_HOST)
    assert "exthost.host.host" in modules
    assert len(modules) <= MAX_MODULES, sorted(modules)
    assert not modules & {*UNUSED_FEATURES, "msgspec", "exthost.extension.extension"}


def test_a_plain_extension_imports_no_module_of_unused_features() -> None:
    modules = import_modules(LAZY_EXTENSION)
    assert "exthost.extension.extension" in modules
    assert not modules & UNUSED_FEATURES


# Starts the extension of a locked config.
LOCKED_EXTENSION = """
import asyncio, sys
import exthost

async def main():
    async with exthost.Host.from_config(sys.argv[1]) as host:
        assert (await host["demo"].start()).spec.lock is not None

asyncio.run(main())
print(*sys.modules)
"""


@pytest.mark.more
async def test_a_lock_imports_no_module_for_sandboxes_if_the_extension_has_none(
    tmp_path: Path,
) -> None:
    project = Project(tmp_path, "morphir")
    project.offer({"name": "get", "description": "Gets a thing."})
    await project.write_lock()
    modules = await asyncio.to_thread(import_modules, LOCKED_EXTENSION, str(project.config))
    assert "exthost.launch.locked_code" in modules
    assert not modules & {"exthost.launch.sandbox.strict", "exthost.launch.sealed_bytecode"}
