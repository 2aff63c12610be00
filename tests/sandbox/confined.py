"""How the sandbox trials start an explorer in the strict tier, and ask it to try something."""

import contextlib
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exthost.extension.extension import Extension
from tests.sandbox.trial_host import impatient

EXPLORER = [sys.executable, "-S", "-E", str(Path(__file__).parent / "explorer.py")]


def exploring(**settings: Any) -> contextlib.AbstractAsyncContextManager[Extension]:
    """An explorer in the strict tier; `permissions` may grant it something."""
    usual = {"permissions": {}, "restart": {"strategy": "never"}}
    return impatient(EXPLORER, **{**usual, **settings})


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
