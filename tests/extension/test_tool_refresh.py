"""When a running process reports that its tools changed, the new list is compared with the pins.

A user can pin an extension: `sha256 = { tools = "..." }` is a digest of its tools, and `program`
one of its code. If the tools then differ, the extension is refused: it offers no tools, and its
calls fail. The server is that of `mcp_child.py`, whose tool `change` adds a tool.
"""

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
from tests.extensions.harness import error_of, pid_of, wait_until
from tests.extensions.proc import is_gone

CHILD = Path(__file__).parents[1] / "extensions" / "mcp_child.py"

# MCP has two kinds of connections: older versions begin with a handshake, newer ones have none.
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])

TOOLS_DIFFER_FROM_PIN = "X0387"


def connect_child(era: str = "handshake", **settings: Any) -> Any:
    command = [sys.executable, "-S", "-E", str(CHILD), json.dumps({"era": era})]
    return exthost.connect(command, dialect="mcp", name="child", **settings)


async def read_digests(era: str = "handshake") -> dict[str, str]:
    """Return the digests of the program and of its tools, which a configuration can pin."""
    async with connect_child(era) as ext:
        return dict(ext.digests)


@ERAS
async def test_a_pinned_extension_that_lists_other_tools_is_refused_and_never_offers_them(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = (await read_digests(era))["tools"]
    bus = Bus()
    changes: list[OfferChanged] = []
    bus.subscribe(OfferChanged, changes.append)
    async with connect_child(era, sha256={"tools": tools}, events=bus) as ext:
        pid = pid_of(ext)
        changes.clear()
        with caplog.at_level(logging.WARNING, "exthost"):
            await ext.call_tool("change", {"add": ["evil"]})
            await wait_until(lambda: ext.state == "refused")
        assert "evil" not in ext.tools and not changes and not ext.internals.serves
        assert isinstance(ext.cause, Refused) and ext.cause.code == TOOLS_DIFFER_FROM_PIN
        assert tools in ext.cause.message
        assert "refused: its tools have changed" in caplog.text
        assert TOOLS_DIFFER_FROM_PIN in caplog.text
        error = await error_of(ext.call_tool("echo", {}))
        assert error.code == TOOLS_DIFFER_FROM_PIN
        await wait_until(lambda: is_gone(pid))
        assert ext.stats.crashes == 0


async def test_a_pin_of_the_program_also_pins_the_tools_of_the_first_start() -> None:
    program = (await read_digests())["program"]
    async with connect_child(sha256=program) as ext:
        await ext.call_tool("change", {"add": ["evil"]})
        await wait_until(lambda: ext.state == "refused")
        assert ext.cause.code == TOOLS_DIFFER_FROM_PIN and "evil" not in ext.tools


async def test_a_call_in_flight_fails_with_the_reason_of_the_refusal() -> None:
    tools = (await read_digests())["tools"]
    async with connect_child(sha256={"tools": tools}, restart={"strategy": "immediate"}) as ext:
        call = asyncio.ensure_future(error_of(ext.call_tool("hang", {})))
        await ext.call_tool("change", {"add": ["evil"]})
        error = await asyncio.wait_for(call, 30)
        assert error.code == TOOLS_DIFFER_FROM_PIN and ext.state == "refused"


async def test_a_notification_without_a_change_does_not_refuse_the_extension() -> None:
    tools = (await read_digests())["tools"]
    async with connect_child(sha256={"tools": tools}) as ext:
        for _ in range(3):
            await ext.call_tool("notify", {"method": "notifications/tools/list_changed"})
        received = json.loads((await ext.call_tool("heard")).text)
        assert sum(message["method"] == "tools/list" for message in received) > 1
        assert ext.state == "ready"


async def test_the_other_process_of_a_refused_pool_gets_no_further_call() -> None:
    tools = (await read_digests())["tools"]
    async with connect_child(sha256={"tools": tools}, pool={"min": 2, "max": 2}) as ext:
        await ext.call_tool("change", {"add": ["evil"]})
        await wait_until(lambda: ext.state == "refused")
        assert (await error_of(ext.call_tool("echo", {}))).code == TOOLS_DIFFER_FROM_PIN


async def test_a_restart_compares_the_tools_of_the_new_process() -> None:
    tools = (await read_digests())["tools"]
    async with connect_child(sha256={"tools": tools}) as ext:
        await ext.call_tool("change", {"add": ["evil"]})
        await wait_until(lambda: ext.state == "refused")
        await ext.restart()
        assert ext.state == "ready" and "evil" not in ext.tools


# An MCP server that reports a change of its tools after each tools/list. Its tool has another name
# in each list. `lists` returns how often the tools were listed.
RESTLESS = """
import json, sys
lists = 0
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    method, id = request.get("method"), request.get("id")
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


async def test_a_process_that_reports_changes_all_the_time_is_asked_less_often(
    clock: Clock,
) -> None:
    command = [sys.executable, "-S", "-E", "-c", RESTLESS]
    async with exthost.connect(command, dialect="mcp", name="restless") as ext:

        async def count_lists() -> int:
            for _ in range(20):  # a list that is due comes before the last of these replies
                count: int = (await ext.call("lists"))["lists"]
            return count

        clock.stop()
        first_count = await count_lists()
        await clock.advance(60)
        for _ in range(10):
            await clock.advance(0.2)
            last_count = await count_lists()
        # The pauses before the next lists are 50, 100, 200, 400, 800 and 1600 ms: at most seven
        # lists at the beginning, and as many in the two seconds after a minute's rest.
        later_count = last_count - first_count
        assert 1 <= first_count <= 7 and 1 <= later_count <= 7, (first_count, last_count)
        assert f"tool{last_count}" in ext.tools  # each list is used
        await clock.advance(60)
        assert await count_lists() > last_count


# An MCP server that holds the calls of `hold`. When one of them is cancelled, it adds a tool,
# reports that, and answers the other calls once the host has read the report.
LATE = """
import json, os, sys
held, tools = [], ["first"]
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        about = {"name": "late", "version": "1"}
        offer = {"tools": {"listChanged": True}}
        hello = {"protocolVersion": "2025-11-25", "capabilities": offer, "serverInfo": about}
        send(id=id, result=hello)
    elif method == "tools/list":
        listed = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
        send(id=id, result={"tools": listed})
    elif method == "hold":
        held.append(id)
    elif method == "notifications/cancelled":
        held.remove(message["params"]["requestId"])
        tools.append("late")
        send(method="notifications/tools/list_changed")
        send(id="read", method="ping")
    elif method is None and id == "read":
        for id in held:
            send(id=id, result={})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "unknown"})
"""


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_the_tools_of_a_replaced_process_are_not_used(is_replaced: bool) -> None:
    bus = Bus()
    changes: list[OfferChanged] = []
    command = [sys.executable, "-S", "-E", "-c", LATE]
    async with exthost.connect(command, dialect="mcp", name="late", events=bus) as ext:
        bus.subscribe(OfferChanged, changes.append)
        held_calls = [asyncio.ensure_future(ext.call("hold")) for _ in range(2)]
        await wait_until(lambda: ext.stats.in_flight == 2)
        if is_replaced:
            await ext.restart()
        held_calls[0].cancel()
        await asyncio.wait_for(held_calls[1], 150)
        assert set(ext.tools) == ({"first"} if is_replaced else {"first", "late"})
        assert len(changes) == (0 if is_replaced else 1)
