"""The cost of the gateway: one `tools/call` through `exthost gateway` on stdio, compared with a
direct call of the same C server. Both use the client of exthost; the difference is one more
process, and the server of the official package in it.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from bench import cores, subject
from bench.measures.calls import BLOCK_CALLS, one_by_one
from bench.measures.peers import installed, server, tool_call
from bench.rounds import duration, ratios, read_values, take_turns_async
from bench.row import Reading, Setting


def one_call(setting: Setting) -> Reading:
    """One call at a time, through the gateway / directly."""

    async def work(config: Path) -> Reading:
        gateway = (sys.executable, "-m", "exthost", "gateway", "--config", str(config))
        # For the case that exthost is importable and not installed.
        env = {"PYTHONPATH": os.pathsep.join(sys.path)}
        async with (
            subject.connect(server(setting), dialect="mcp") as direct,
            subject.connect(gateway, dialect="mcp", env=env) as through,
        ):
            note = cores.pin(cores.apart())
            blocks = {
                "directly": one_by_one(tool_call(direct)),
                "gateway": one_by_one(tool_call(through, "ext_c_echo")),
            }
            took = await take_turns_async(blocks, setting.few, BLOCK_CALLS)
        absolute = tuple((name, duration(took[name])) for name in ("gateway", "directly"))
        return read_values(ratios(took["gateway"], took["directly"]), absolute, note)

    installed("mcp")
    program, *args = (json.dumps(word) for word in server(setting))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "exthost.toml")
        config.write_text(f"[mcp_servers.c]\ncommand = {program}\nargs = [{', '.join(args)}]\n")
        return subject.run(work(config))
