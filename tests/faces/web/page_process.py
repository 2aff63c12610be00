"""Helpers that run a host with a web page (`exthost run --web`) as a child process.

`showcase_config` writes a config, and `page` yields the address and the token of the page.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.extensions.proc import MARK, all_pids, environment_of, read_process
from tests.faces.cli.cli_process import EXTHOST, RUN_SECONDS, wait_for

ROOT = Path(__file__).parents[3]
SHOWCASE = Path(__file__).with_name("showcase.py")
FRAGILE = ROOT / "examples" / "morphir" / "fragile.py"
PLUGINS = ROOT / "examples" / "synaps" / "plugins"  # one of them is `notes`


class Page(NamedTuple):
    """The web page of a running host. `url` ends with a slash."""

    url: str
    token: str
    process: "subprocess.Popen[str]"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def entry(name: str, dialect: str, *arguments: str, more: str = "") -> str:
    """Return an `[[extensions]]` entry that runs Python with these arguments."""
    source = f'{{ type = "process", command = "{sys.executable}", args = {json.dumps(arguments)} }}'
    return f'[[extensions]]\nname = "{name}"\ndialect = "{dialect}"\nsource = {source}\n{more}\n'


def showcase_config(folder: Path, *more: str) -> Path:
    """Write a config with the extensions `showcase` and `fragile`; return its path."""
    entries = [
        entry("showcase", "mcp", "-S", "-E", str(SHOWCASE), more=RECOVERS),
        entry("fragile", "morphir", "-S", "-E", str(FRAGILE), more=RECOVERS),
        *more,
    ]
    file = folder / "exthost.toml"
    file.write_text("".join(entries))
    return file


# The settings of an extension that is restarted after each crash.
RECOVERS = 'restart = { strategy = "exponential", initial_delay = "300ms", max_retries = 50 }'


@contextmanager
def page(folder: Path, *arguments: str, **variables: str) -> Iterator[Page]:
    """Yield the page of a host whose extensions are ready.

    The host can serve several tests, so its processes have another marker variable: the leak check
    of conftest.py does not see them. All of them must have ended when the host has ended.
    """
    mark = f"page-{uuid.uuid4().hex}"
    environment = os.environ | {"EXTHOST_GATEWAY_TOKEN": ""} | variables | {MARK: mark}
    with subprocess.Popen(
        [*EXTHOST, "run", "--web", "0", "--json", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            report: dict[str, Any] = json.loads(process.stdout.readline())
            assert "page" in report, report
            wait_for(process, "extensions ready")
            process.stdout.close()  # the host continues without a reader of its output
            process.stdout = None
            yield Page(report["page"], report["token"], process)
            process.terminate()
            process.communicate(timeout=RUN_SECONDS)
            assert process.returncode == 0
        finally:
            if process.poll() is None:
                process.kill()
    remaining = [pid for pid in all_pids() if f"{MARK}={mark}".encode() in environment_of(pid)]
    assert not remaining, [read_process(pid) for pid in remaining]
