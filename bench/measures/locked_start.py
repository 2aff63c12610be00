"""What a lock adds to a start: `exthost.lock` covers the command, the code and the offer, and each
start is compared with it."""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import subject
from bench.measures.sdk import SERVERS
from bench.measures.templates import PYTHON as FASTMCP_PYTHON
from bench.measures.templates import restart
from bench.rounds import duration, ratios, read_values, take_turns_async
from bench.row import NotHere, Reading, Setting

# Files beside the server, all covered by the lock.
MODULES = 20
# A start takes tens of milliseconds, and differs by more than the five per cent to be measured.
ROUNDS_EACH = 3
# A folder that has changed less than two seconds ago is read again at each start.
SETTLED_S = 2.5


def _write_project(folder: Path, python: str, server: str) -> Path:
    """Write a server, some modules and a config that names the server; return the config."""
    code = folder / "server"
    code.mkdir(parents=True)
    shutil.copy(SERVERS / server, code / "main.py")
    for number in range(MODULES):
        (code / f"module_{number}.py").write_text(f"number = {number}\n")
    config = folder / "exthost.toml"
    config.write_text(
        '[[extensions]]\nname = "x"\ndialect = "mcp"\nstart_method = "execute"\n'
        f'source = {{ type = "process", command = {json.dumps(python)}, '
        'args = ["server/main.py"] }\n'
    )
    return config


def _lock(config: Path) -> None:
    program = str(Path(sys.executable).parent / "exthost")
    command = [program, "lock", "--config", str(config)]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def restarting(server: str, python: str = sys.executable) -> Callable[[Setting], Reading]:
    """From a restart to the first result, with a lock that is enforced / without one."""

    async def work(setting: Setting, folder: Path) -> Reading:
        plain = _write_project(folder / "plain", python, server)
        locked = _write_project(folder / "locked", python, server)
        _lock(locked)
        await asyncio.sleep(SETTLED_S)
        async with subject.host_of(plain) as without, subject.host_of(locked) as with_lock:
            blocks: dict[str, Callable[[], Any]] = {
                "plain": lambda: restart(without["x"]),
                "locked": lambda: restart(with_lock["x"]),
            }
            rounds = ROUNDS_EACH * setting.rounds
            took = await take_turns_async(blocks, rounds, warm=3)
        absolute = (("locked", duration(took["locked"])), ("plain", duration(took["plain"])))
        return read_values(ratios(took["locked"], took["plain"]), absolute)

    def measure(setting: Setting) -> Reading:
        if not Path(python).exists():
            raise NotHere("FastMCP is not installed (make fastmcp)")
        with tempfile.TemporaryDirectory(prefix="exthost-bench-") as folder:
            return subject.run(work(setting, Path(folder)))

    return measure


def of_fastmcp() -> Callable[[Setting], Reading]:
    """Return the same measurement for a server that imports 1,300 modules."""
    return restarting("of_fastmcp_package.py", str(FASTMCP_PYTHON))
