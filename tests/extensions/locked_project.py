"""`Project`: a folder with a config and one extension, for tests of the lock (`exthost.lock`).

The extension, `demo`, offers the tools that a file outside of the project lists. So a test can
change the offer without a change of the locked files.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from exthost.config.discovery.configfile import find_extensions, read_config
from exthost.config.lock_file import LOCK_NAME, format_lock
from exthost.host.lock_survey import compare_with_lock

# The program of the extension in each dialect (protocol). Its argument is the file with its tools.
MORPHIR = """\
import json, pathlib, sys
offer = pathlib.Path(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "capabilities":
        result = json.loads(offer.read_text())
    else:
        result = f"ran {message['method']}"
    print(json.dumps({"id": message["id"], "result": result}), flush=True)
"""

# A call with the argument `leave` ends the process. A call of `tell` is preceded by a notification
# that the tools have changed.
MCP = """\
import json, os, pathlib, sys
offer = pathlib.Path(sys.argv[1])
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        members = json.loads(offer.with_name("initialize.json").read_text())
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": "demo", "version": "1"}, **members}
    elif method == "tools/list":
        result = {"tools": json.loads(offer.read_text())}
    elif method == "tools/call":
        if (params.get("arguments") or {}).get("leave"):
            os._exit(0)
        if params["name"] == "tell":
            send({"method": "notifications/tools/list_changed"})
        result = {"content": [{"type": "text", "text": f"ran {params['name']}"}]}
    elif method == "prompts/get":
        result = {"messages": []}
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})
        continue
    send({"id": message["id"], "result": result})
"""

PROGRAMS = {"morphir": MORPHIR, "mcp": MCP}


def tool(name: str, description: str = "Gets a thing.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


class Project:
    """A folder with a config, and the program of one extension in a folder inside it.

    A test can change `entries` (the extensions of the config) and then call `write_config`.
    """

    def __init__(self, root: Path, dialect: str = "mcp", **settings: Any) -> None:
        self.root = root / "project"
        self.root.mkdir(parents=True)
        self.offer_file = root / "offer.json"
        self.program = self.root / "server" / "main.py"
        self.program.parent.mkdir()
        self.program.write_text(PROGRAMS[dialect])
        self.config = self.root / "exthost.toml"
        self.lock = self.root / LOCK_NAME
        self.offer(tool("get"), tool("tell"))
        self.initialize()
        args = ["-S", "-E", "server/main.py", str(self.offer_file)]
        entry = {
            "name": "demo",
            "dialect": dialect,
            "source": {"type": "process", "command": sys.executable, "args": args},
            **settings,
        }
        self.entries = [entry]
        self.write_config()

    def write_config(self, **sections: Any) -> None:
        """Write the config with these sections, such as `trust={"lock": "warn"}`."""
        text = "".join(_toml("[[extensions]]", entry) for entry in self.entries)
        self.config.write_text(text + "".join(_toml(f"[{k}]", v) for k, v in sections.items()))

    def offer(self, *tools: dict[str, Any]) -> None:
        """Let the program offer these tools. It may read the file at any moment."""
        new = self.offer_file.with_suffix(".new")
        new.write_text(json.dumps(tools))
        new.replace(self.offer_file)

    def initialize(self, **more: Any) -> None:
        """Let the MCP program add these members to its reply to `initialize`."""
        self.offer_file.with_name("initialize.json").write_text(json.dumps(more))

    async def write_lock(self) -> None:
        """Do what `exthost lock` does."""
        specs = find_extensions(read_config(self.config)).specs
        comparisons = await compare_with_lock(specs, {})
        for comparison in comparisons:
            assert comparison.error is None, comparison.error
        records = {item.id: item.now for item in comparisons if item.now is not None}
        self.lock.write_text(format_lock(records))

    def lock_now(self) -> None:
        asyncio.run(self.write_lock())


def _toml(head: str, table: dict[str, Any]) -> str:
    return head + "\n" + "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    return json.dumps(value if not isinstance(value, os.PathLike) else str(value))
