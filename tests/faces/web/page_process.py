"""How tests run a host with a page: as `exthost run --web` does, in a process of its own."""

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
PLUGINS = ROOT / "examples" / "synaps" / "plugins"


class Page(NamedTuple):
    """A page that is served. `url` ends with a slash."""

    url: str
    token: str
    process: "subprocess.Popen[str]"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def entry(name: str, dialect: str, *words: str, more: str = "") -> str:
    """Return an `[[extensions]]` entry that runs Python with these arguments."""
    source = f'{{ type = "process", command = "{sys.executable}", args = {json.dumps(words)} }}'
    return f'[[extensions]]\nname = "{name}"\ndialect = "{dialect}"\nsource = {source}\n{more}\n'


def showcase_config(folder: Path, *more: str) -> Path:
    """Return a config with the showcase extension."""
    entries = [
        entry("showcase", "mcp", "-S", "-E", str(SHOWCASE), more=RECOVERS),
        entry("fragile", "morphir", "-S", "-E", str(FRAGILE), more=RECOVERS),
        *more,
    ]
    file = folder / "exthost.toml"
    file.write_text("".join(entries))
    return file


RECOVERS = 'restart = { strategy = "exponential", initial_delay = "300ms", max_retries = 50 }'


@contextmanager
def page(folder: Path, *words: str, **variables: str) -> Iterator[Page]:
    """Yield a host with a page, once its extensions are ready. It may serve several tests, so its
    processes have a marker variable of their own. They must be gone when the host has ended."""
    mark = f"page-{uuid.uuid4().hex}"
    environment = os.environ | {"EXTHOST_GATEWAY_TOKEN": ""} | variables | {MARK: mark}
    with subprocess.Popen(
        [*EXTHOST, "run", "--web", "0", "--json", *words],
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
            process.stdout.close()  # whoever does not read delays nothing
            process.stdout = None
            yield Page(report["page"], report["token"], process)
            process.terminate()
            process.communicate(timeout=RUN_SECONDS)
            assert process.returncode == 0
        finally:
            if process.poll() is None:
                process.kill()
    left = [pid for pid in all_pids() if f"{MARK}={mark}".encode() in environment_of(pid)]
    assert not left, [read_process(pid) for pid in left]
