"""Helpers for the trials of the sandbox, which start an explorer in it and run code there.

An explorer (`explorer.py`) is an extension that runs the Python code of its calls. `facts` are the
keyword arguments of `explore`, which the code finds in the dict `facts`:

    async with started_explorer(permissions={"filesystem": ["/data"]}) as extension:
        names = await explore(extension, "import os; result = os.listdir(facts['at'])", at="/data")
"""

import contextlib
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from exthost.extension.extension import Extension
from tests.sandbox.trial_host import started_extension

EXPLORER = [sys.executable, "-S", "-E", str(Path(__file__).parent / "explorer.py")]


@contextlib.asynccontextmanager
async def started_explorer(**settings: Any) -> AsyncIterator[Extension]:
    """Yield an explorer in the strict sandbox, with these settings of its config. It is run by the
    Python of the tests. If the host is root, this Python may be in a home that the user of an
    extension cannot enter; a trial about that user needs `system_explorer`."""
    defaults = {"permissions": {}, "restart": {"strategy": "never"}}
    async with started_extension(EXPLORER, **(defaults | settings)) as ext:
        yield ext


async def explore(extension: Extension, code: str, **facts: Any) -> Any:
    """Run code in the extension, and return its variable `result`, or the exception as data."""
    return await extension.call("explore", {"code": textwrap.dedent(code), "facts": facts})


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Yield a folder that is not granted. It is not in /tmp, because each sandbox has a /tmp of its
    own."""
    with tempfile.TemporaryDirectory(prefix="exthost-trial-", dir="/var/tmp") as name:
        yield Path(name).resolve()


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """Yield a folder that every user can reach and write, also the user of an extension."""
    with folder() as place:
        place.chmod(0o777)
        yield place


def system_explorer(path: Path) -> Path:
    """Write an explorer that every user can run with the Python of the system. All folders from it
    up to the one of `folder` or `shared_folder` are opened for every user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/usr/bin/python3 -SE\n" + Path(EXPLORER[-1]).read_text())
    path.chmod(0o755)
    for parent in (path.parent, *path.parent.parents):
        if parent.name.startswith("exthost-trial-"):
            break
        parent.chmod(0o777)
    return path
