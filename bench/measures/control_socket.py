"""The cost of the control socket: one `call_tool` through the host of another process, compared
with a host in this process that calls the same C server. The difference is one more process in each
direction.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import cores, subject
from bench.measures.calls import BLOCK_CALLS, MORE_ROUNDS, Measure, one_by_one
from bench.measures.tools import child, entry, tool_call
from bench.rounds import duration, ratios, read_values, take_turns_async
from bench.row import Reading, Setting


def one_call(*, uvloop: bool = False) -> Measure:
    """One call at a time, attached / in process."""

    async def work(setting: Setting, config: Path) -> Reading:
        async with (
            subject.host(entry(setting)) as host,
            subject.public("attach")(config) as attached,
        ):
            near, far = tool_call(host), tool_call(attached)
            assert subject.raw(await near()) == subject.raw(await far())
            # Two processes that talk to each other have different cores, as in the row's other
            # block: the extension of the running host has the core of its client.
            note = cores.pin(cores.apart(), cores.descendants(attached.pid))
            blocks = {"in process": one_by_one(near), "attached": one_by_one(far)}
            took = await take_turns_async(blocks, MORE_ROUNDS * setting.rounds, BLOCK_CALLS)
        absolute = tuple((name, duration(took[name])) for name in took)
        return read_values(ratios(took["attached"], took["in process"]), absolute, note)

    def measure(setting: Setting) -> Reading:
        with running_host(setting) as config:
            return subject.run(work(setting, config), uvloop=uvloop)

    return measure


@contextmanager
def running_host(setting: Setting) -> Iterator[Path]:
    """Run a host of the echo child in a process of its own; yield its config."""
    program, *args = (json.dumps(word) for word in child(setting))
    source = f"{{ type = 'process', command = {program}, args = [{', '.join(args)}] }}"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "exthost.toml")
        config.write_text(f"[[extensions]]\nname = 'x'\ndialect = 'morphir'\nsource = {source}\n")
        words = [sys.executable, "-m", "exthost", "run", "--quiet", "--config", str(config)]
        # For the case that exthost is importable and not installed.
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                assert any("extensions ready" in line for line in process.stderr)
                yield config
            finally:
                process.terminate()
                process.communicate()
