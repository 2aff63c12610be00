"""An extension of the SDK whose hooks use what version 2 of the protocol of synaps allows.

A hook is a handler that the host calls at certain events. It may replace the output of a tool,
inject text at the start of a session, or receive how many tokens a model has used.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from exthost.config import config_from_mapping
from exthost.host.host import Host
from tests.authoring.sdk.programs import LONG_SECONDS

# An extension whose hooks replace a tool output, inject text at the start of a session, and count
# used tokens.
PROGRAM = """
from exthost.sdk import Extension, HookEvent, Inject, Replace

ext = Extension("today")
used = []


@ext.tool
def used_tokens() -> list[int]:
    return used


@ext.hook("after_tool_call", replaces=True)
def shorten(event: HookEvent) -> Replace | None:
    output = event.raw["tool_output"]
    return Replace(output.replace("[", "<")) if "[1" in output else None


@ext.hook("on_session_start")
def greet(event: HookEvent) -> Inject:
    return Inject(f"in {event.raw['session_id']}")


@ext.hook("on_usage")
def count(event: HookEvent) -> None:
    used.append(event.raw["data"]["usage"]["input_tokens"])


if __name__ == "__main__":
    ext.run("synaps")
"""


async def test_hooks_of_the_sdk_replace_output_inject_text_and_receive_usage(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "today"
    (folder / ".synaps-plugin").mkdir(parents=True)
    program = folder / "today.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), "--manifest", "synaps"]
    result = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, check=True, timeout=LONG_SECONDS
    )
    manifest = json.loads(result.stdout)
    assert manifest["extension"]["protocol_version"] == 2
    assert "tools.transform_output" in manifest["extension"]["permissions"]
    (folder / ".synaps-plugin" / "plugin.json").write_bytes(result.stdout)
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    limits = {"handshake": "60s"}
    config = config_from_mapping(
        {
            "discovery": {"search_paths": [str(tmp_path)]},
            "overrides": {"today": {"env": env, "limits": limits}},
        }
    )
    async with Host(config) as host:
        usage = {"data": {"usage": {"input_tokens": 12}}}
        assert not (await host.hooks.run("on_usage", usage)).passed_over
        assert (await host.call_tool("ext_today_used_tokens", {})).text == "<12]"
        session_start = await host.hooks.run("on_session_start", {"session_id": "s"})
        assert session_start.injected == "in s"
