"""How the sandbox trials start an explorer in the strict tier, and ask it to try something."""

import contextlib
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from exthost.extension.extension import Extension
from tests.sandbox.trial_host import impatient

EXPLORER = [sys.executable, "-S", "-E", str(Path(__file__).parent / "explorer.py")]


@contextlib.asynccontextmanager
async def exploring(**settings: Any) -> AsyncIterator[Extension]:
    """An explorer in the strict tier; `permissions` may grant it something. One that may write is
    run by the system's Python: a root host runs it as another user, who must be able to reach
    it."""
    usual = {"permissions": {}, "restart": {"strategy": "never"}}
    settings = {**usual, **settings}
    writes = any(one.endswith(":rw") for one in settings["permissions"].get("filesystem", ()))
    with shared_folder() as place:
        words = [str(system_explorer(place / "run"))] if writes else EXPLORER
        async with impatient(words, **settings) as ext:
            yield ext


async def explore(extension: Extension, code: str, **facts: Any) -> Any:
    """Run this inside; returns its `result`, or what it raised."""
    return await extension.call("explore", {"code": textwrap.dedent(code), "facts": facts})


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder of ours that nobody granted; not in /tmp, of which each has one of its own."""
    with tempfile.TemporaryDirectory(prefix="exthost-trial-", dir="/var/tmp") as name:
        yield Path(name).resolve()


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that every user can reach and write, a root host's extensions among them."""
    with folder() as place:
        place.chmod(0o777)
        yield place


def system_explorer(path: Path) -> Path:
    """An explorer as a program that every user can run, by the system's own Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/usr/bin/python3 -SE\n" + Path(EXPLORER[-1]).read_text())
    path.chmod(0o755)
    for above in (path.parent, *path.parent.parents):
        if above.name.startswith("exthost-trial-"):
            break
        above.chmod(0o777)
    return path
