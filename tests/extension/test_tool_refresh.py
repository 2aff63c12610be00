"""A running process that lists its tools anew: the new list is held to the extension's pins."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import Refused
from exthost.events import Bus, OfferChanged
from tests.extensions.clock import Clock
from tests.extensions.harness import failing, pid_of, until
from tests.extensions.proc import gone

CHILD = Path(__file__).parents[1] / "extensions" / "mcp_child.py"
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


def child(era: str = "handshake", **settings: Any) -> Any:
    command = [sys.executable, "-S", "-E", str(CHILD), json.dumps({"era": era})]
    return exthost.connect(command, dialect="mcp", name="child", **settings)


async def pins(era: str = "handshake") -> dict[str, str]:
    async with child(era) as ext:
        return dict(ext.digests)


@ERAS
async def test_a_pinned_extension_that_lists_other_tools_is_refused_and_never_offers_them(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = (await pins(era))["tools"]
    bus = Bus()
    changes: list[OfferChanged] = []
    bus.subscribe(OfferChanged, changes.append)
    async with child(era, sha256={"tools": tools}, events=bus) as ext:
        pid = pid_of(ext)
        changes.clear()
        with caplog.at_level(logging.WARNING, "exthost"):
            await ext.call_tool("change", {"add": ["evil"]})
            await until(lambda: ext.state == "refused")
        assert "evil" not in ext.tools and not changes and not ext.internals.serves
        assert isinstance(ext.cause, Refused) and ext.cause.code == "X0387"
        assert tools in ext.cause.message
        assert "refused: its tools have changed" in caplog.text and "X0387" in caplog.text
        error = await failing(ext.call_tool("echo", {}))
        assert error.code == "X0387"
        await until(lambda: gone(pid))
        assert ext.stats.crashes == 0


async def test_a_pin_of_the_program_alone_pins_the_tools_of_the_first_start() -> None:
    program = (await pins())["program"]
    async with child(sha256=program) as ext:
        await ext.call_tool("change", {"add": ["evil"]})
        await until(lambda: ext.state == "refused")
        assert ext.cause.code == "X0387" and "evil" not in ext.tools


async def test_a_call_that_is_in_flight_fails_with_the_reason() -> None:
    tools = (await pins())["tools"]
    async with child(sha256={"tools": tools}, restart={"strategy": "immediate"}) as ext:
        call = asyncio.ensure_future(failing(ext.call_tool("hang", {})))
        await ext.call_tool("change", {"add": ["evil"]})
        error = await asyncio.wait_for(call, 30)
        assert error.code == "X0387" and ext.state == "refused"


async def test_a_notification_without_a_change_changes_nothing() -> None:
    tools = (await pins())["tools"]
    async with child(sha256={"tools": tools}) as ext:
        for _ in range(3):
            await ext.call_tool("notify", {"method": "notifications/tools/list_changed"})
        received = json.loads((await ext.call_tool("heard")).text)
        assert sum(message["method"] == "tools/list" for message in received) > 1
        assert ext.state == "ready"


async def test_the_other_processes_of_a_pool_get_no_further_call() -> None:
    tools = (await pins())["tools"]
    async with child(sha256={"tools": tools}, pool={"min": 2, "max": 2}) as ext:
        await ext.call_tool("change", {"add": ["evil"]})
        await until(lambda: ext.state == "refused")
        assert (await failing(ext.call_tool("echo", {}))).code == "X0387"


async def test_a_requested_restart_compares_the_tools_of_the_fresh_process() -> None:
    tools = (await pins())["tools"]
    async with child(sha256={"tools": tools}) as ext:
        await ext.call_tool("change", {"add": ["evil"]})
        await until(lambda: ext.state == "refused")
        await ext.restart()
        assert ext.state == "ready" and "evil" not in ext.tools


# Reports a change with each list of its tools, and right after a call.
RESTLESS = """
import json, sys
lists = 0
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        about = {"name": "restless", "version": "1"}
        offer = {"tools": {"listChanged": True}}
        hello = {"protocolVersion": "2025-11-25", "capabilities": offer, "serverInfo": about}
        send(id=id, result=hello)
    elif method == "tools/list":
        lists += 1
        send(id=id, result={"tools": [{"name": f"tool{lists}", "inputSchema": {"type": "object"}}]})
        send(method="notifications/tools/list_changed")
    elif method == "lists":
        send(id=id, result={"lists": lists})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "unknown"})
"""


async def test_a_process_that_reports_changes_all_the_time_is_asked_less_and_less_often(
    clock: Clock,
) -> None:
    command = [sys.executable, "-S", "-E", "-c", RESTLESS]
    async with exthost.connect(command, dialect="mcp", name="restless") as ext:

        async def lists() -> int:
            for _ in range(20):  # a list that is due comes before the last of these replies
                counted: int = (await ext.call("lists"))["lists"]
            return counted

        clock.stop()
        first = await lists()
        await clock.advance(60)
        for _ in range(10):
            await clock.advance(0.2)
            last = await lists()
        # With pauses of 50, 100, 200, 400, 800 and 1600 ms.
        assert 1 <= first <= 7 and 1 <= last - first <= 7, (first, last)
        assert f"tool{last}" in ext.tools  # each list is used
        await clock.advance(60)
        assert await lists() > last
