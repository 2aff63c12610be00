"""Tests of the gateway in the test process: errors, lists of tools, progress, cancellation.

The gateway is an MCP server in front of extensions. The client is that of the official Python SDK.
It can use both eras of MCP: the older one with a handshake, and the stateless one. Other modules
use the helpers `client_of`, `result_text` and `error_details`.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from exthost.dialects.meanings import Progress
from exthost.faces.gateway import mcp_values, tool_list
from exthost.faces.gateway.server import Gateway
from tests.dialects.requirements import shows
from tests.extensions.harness import wait_until
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.roder import config_entry as roder_entry
from tests.faces.gateway.gateway_process import ERAS, ROOT, extension, open_gateway, tools_of
from tests.toys import stepper

TEXT_PROGRAM = str(ROOT / "examples" / "morphir" / "text.py")
TEXT = extension("text", "morphir", "-S", "-E", TEXT_PROGRAM)
# The limit of a wait for an event that always comes. It only bounds a test that hangs.
LONG_SECONDS = 150.0

in_both_eras = pytest.mark.parametrize("era", ERAS)


def nexo_agent(
    behaviour: dict[str, Any] | None = None, name: str = "agent", **more: Any
) -> dict[str, Any]:
    """Return the config of a nexo extension (nexo_child.py) with this behaviour."""
    more = {"restart": {"initial_delay": "10ms"}, **more}
    return extension(name, "nexo", "-S", "-E", str(NEXO), json.dumps(behaviour or {}), **more)


def client_of(gateway: Gateway, era: str = "handshake", **more: Any) -> Client:
    """Return a client of a gateway in this process. It caches nothing."""
    return Client(gateway.server, mode=ERAS[era], cache=None, **more)


def result_text(result: types.CallToolResult) -> str:
    """Return the text of a result that has one block of text."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def error_details(result: types.CallToolResult) -> Any:
    """Return the error of exthost in an error result. It is in `_meta`, because clients check
    structured content against the output schema."""
    assert result.structured_content is None and result.meta is not None
    return result.meta[mcp_values.ERROR]


async def tool_names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


@pytest.fixture
def toy_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the dialect of the toy extension `climber`."""
    monkeypatch.syspath_prepend(stepper.installed(tmp_path / "toys"))
    yield


# -- errors ----------------------------------------------------------------------------------


@shows("gateway-call-05", "gateway-call-06")
@in_both_eras
async def test_a_crash_is_the_error_result_of_its_call_only(era: str) -> None:
    async with (
        open_gateway({"extensions": [nexo_agent(), TEXT]}) as gateway,
        client_of(gateway, era) as client,
    ):
        crashed, shouted = await asyncio.gather(
            client.call_tool("ext_agent_die", {"code": 3}),
            client.call_tool("ext_text_shout", {"text": "hi"}),
        )
        assert crashed.is_error and shouted.structured_content == {"text": "HI"}
        error = error_details(crashed)
        assert (error["kind"], error["extension"]) == ("ExtensionGone", "agent")
        assert error["code"] in result_text(crashed) and error["help"] not in result_text(crashed)
        echoed = await client.call_tool("ext_agent_echo", {"a": 1})
        assert echoed.structured_content == {"a": 1}


@shows("gateway-call-06")
@in_both_eras
async def test_a_mistake_of_a_client_is_reported_with_code_and_help(era: str) -> None:
    async with open_gateway({"extensions": [TEXT]}) as gateway, client_of(gateway, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ext_text_shuot", {})
        assert caught.value.code == types.INVALID_PARAMS
        assert caught.value.data["code"] == "X1201"
        assert "ext_text_shout" in caught.value.data["help"]
        invalid = await client.call_tool("ext_text_shout", {"text": 1})
        assert invalid.is_error and error_details(invalid)["code"] == "X1301"


async def test_error_replies_and_results_with_is_error_are_error_results(
    tmp_path: Path,
) -> None:
    document = {"process_extensions": [roder_entry(tmp_path, id="wire")]}
    async with open_gateway(document) as gateway, client_of(gateway) as client:
        error_reply = await client.call_tool("ext_wire_refuse", {})
        error = error_details(error_reply)
        assert error_reply.is_error and error["kind"] == "CallFailed"
        assert error["answer"]["message"] in result_text(error_reply)
        marked_as_error = await client.call_tool("ext_wire_fail", {})
        assert marked_as_error.is_error and marked_as_error.structured_content["isError"] is True
        assert result_text(marked_as_error) == "as you wish"


async def test_a_call_that_takes_too_long_is_an_error_result() -> None:
    slow = nexo_agent(limits={"call": "100ms"})
    slow["source"]["args"] = ["-S", "-E", "-c", HANGING_AGENT]
    async with open_gateway({"extensions": [slow]}) as gateway, client_of(gateway) as client:
        timed_out = await client.call_tool("ext_agent_wait", {})
        assert timed_out.is_error and error_details(timed_out)["kind"] == "CallTimeout"


# A nexo extension whose tool `wait` never answers.
HANGING_AGENT = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"tools": ["wait"]}}))
        sys.stdout.flush()
"""


async def test_hooks_are_run_for_calls_of_clients() -> None:
    offer = {"tools": [], "hooks": ["before_tool_call"]}
    guard = nexo_agent(
        {"offer": offer, "hooks": {"before_tool_call": {"abort": True, "reason": "not today"}}},
        name="guard",
    )
    async with open_gateway({"extensions": [guard, TEXT]}) as gateway, client_of(gateway) as client:
        refused = await client.call_tool("ext_text_shout", {"text": "hi"})
        # A hook refused the call.
        assert refused.is_error and error_details(refused)["code"] == "X0332"
        assert "not today" in result_text(refused)


# -- the list of tools -----------------------------------------------------------------------

# A morphir extension with the tool `late`, which starts slowly.
SLOW_EXTENSION = """
import json, sys, time
time.sleep(0.3)
for line in sys.stdin:
    request = json.loads(line)
    result = [{"name": "late", "description": ""}] if request["method"] == "capabilities" else {}
    print(json.dumps({"id": request["id"], "result": result}), flush=True)
"""


@shows("gateway-tools-02")
@in_both_eras
async def test_the_first_list_waits_for_extensions_that_start_and_starts_lazy_ones(
    era: str,
) -> None:
    document = {
        "gateway": {"first_list": "60s"},
        "extensions": [
            extension("slow", "morphir", "-S", "-E", "-c", SLOW_EXTENSION),
            extension("broken", "morphir", "-S", "-E", "-c", "raise SystemExit(3)"),
            extension("lazy", "morphir", "-S", "-E", "-c", SLOW_EXTENSION, start="lazy"),
            extension("lost", "morphir", "-S", "-E", "-c", "raise SystemExit(3)", start="lazy"),
        ],
    }
    async with open_gateway(document) as gateway, client_of(gateway, era) as client:
        assert await tool_names(client) == {"ext_slow_late", "ext_lazy_late"}


async def test_a_call_does_not_wait_for_the_start_of_other_extensions() -> None:
    never = extension("never", "morphir", "-S", "-E", "-c", "import time; time.sleep(60)")
    async with open_gateway({"extensions": [TEXT, never]}) as gateway:
        await wait_until(lambda: "ext_text_shout" in gateway.host.tools)
        async with client_of(gateway) as client:
            # `call_tool` of this client would list the tools first.
            params = types.CallToolRequestParams(name="ext_text_shout", arguments={"text": "hi"})
            request = types.CallToolRequest(params=params)
            result = await client.session.send_request(request, types.CallToolResult)
            assert result.structured_content == {"text": "HI"}
        gateway.host.kill()


@in_both_eras
async def test_an_extension_that_hangs_does_not_delay_others(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    hung = extension("hung", "mcp", "-S", "-E", "-c", "import time; time.sleep(1000)")
    others = [extension(f"text{n}", "morphir", "-S", "-E", TEXT_PROGRAM) for n in range(5)]
    document = {"gateway": {"first_list": "200ms"}, "extensions": [hung, *others]}
    async with open_gateway(document) as gateway:
        async with client_of(gateway, era) as client, asyncio.timeout(LONG_SECONDS):
            tools = await tools_of(client, *(f"ext_text{n}_shout" for n in range(5)))
            assert not any(name.startswith("ext_hung") for name in tools)
            for n in range(5):
                result = await client.call_tool(f"ext_text{n}_shout", {"text": "hi"})
                assert result.structured_content == {"text": "HI"}
            assert gateway.host["hung"].state == "starting"
            assert (await client.list_resources()).resources == []
            assert (await client.list_prompts()).prompts == []
        gateway.host.kill()
    assert "hung is not in the first list of tools: it was not ready within 0.2 s" in caplog.text


@in_both_eras
async def test_the_handshake_waits_less_than_the_first_list(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_list, "HANDSHAKE_SECONDS", 0.1)
    # The extension starts when the file `go` exists.
    wait_for_file = (
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.01)\n"
    )
    slow = extension(
        "slow", "morphir", "-S", "-E", "-c", wait_for_file + SLOW_EXTENSION, str(tmp_path / "go")
    )
    document = {"gateway": {"first_list": "60s"}, "extensions": [slow]}
    async with open_gateway(document) as gateway, client_of(gateway, era) as client:
        # The handshake of the client is done, and the extension is still starting.
        (tmp_path / "go").touch()
        assert await tool_names(client) == {"ext_slow_late"}


@shows("gateway-tools-03")
@in_both_eras
async def test_clients_are_notified_once_when_an_extension_comes_or_goes(era: str) -> None:
    notifications: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            notifications.put_nowait(message)

    async def listen(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            notifications.put_nowait("listening")
            async for change in changes:
                notifications.put_nowait(change)

    # In the era with a handshake, notifications come by themselves; a stateless client must listen.
    handler = on_message if era == "handshake" else None
    async with (
        open_gateway({"extensions": [nexo_agent()]}) as gateway,
        client_of(gateway, era, message_handler=handler) as client,
    ):
        before = await tool_names(client)
        listener = asyncio.ensure_future(listen(client)) if era == "stateless" else None
        async with asyncio.timeout(LONG_SECONDS):
            if listener is not None:
                await notifications.get()
            await gateway.host.load(TEXT)
            await notifications.get()
            assert "ext_text_shout" in await tool_names(client)
            await gateway.host["agent"].restart()  # it offers the same tools as before
            await wait_until(lambda: gateway._announcer.is_settled)
            assert notifications.empty()
            await gateway.host.unload("text")
            await notifications.get()
            assert await tool_names(client) == before and notifications.empty()
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])
    assert not len(gateway.clients)


async def test_a_lazy_extension_that_is_loaded_later_is_started_for_its_tools() -> None:
    late = extension("late", "morphir", "-S", "-E", "-c", SLOW_EXTENSION, start="lazy")
    async with open_gateway({}) as gateway, client_of(gateway) as client:
        assert await tool_names(client) == set()
        await gateway.host.load(late)
        await wait_until(lambda: "ext_late_late" in gateway.host.tools)
        assert await tool_names(client) == {"ext_late_late"}


# -- progress and cancellation ---------------------------------------------------------------


async def test_progress_is_received_only_by_callers_that_ask_for_it(toy_dialect: None) -> None:
    received: list[Progress] = []
    async with open_gateway({}) as gateway:
        host = gateway.host
        await gateway.tools.wait_for_first_list()
        await host.load(stepper.spec("climber"))
        result = await host.call_tool(
            "ext_climber_climb", {"steps": 3}, on_progress=received.append
        )
        assert result.data == {"climbed": 3}
        assert [message[1:] for message in received] == [(n, 3, f"step {n}") for n in (1, 2, 3)]
        await host.call_tool("climb", {"steps": 3}, on_progress=received.append)
        await host["climber"].call_tool("climb", {"steps": 3}, on_progress=received.append)
        await host.call_tool("climb", {"steps": 3}, on_progress=received.append, hooks=False)
        assert len(received) == 12  # four calls with three steps each
        assert (await host.call_tool("ext_climber_climb", {"steps": 3})).data == {"climbed": 3}
        assert len(received) == 12
        assert host["climber"].stats.dropped == {"progress of no call": 5}


async def test_a_caller_that_fails_in_its_progress_callback_does_not_affect_others(
    toy_dialect: None,
) -> None:
    def fail(progress: Progress) -> None:
        raise ValueError("an error of the caller")

    async with open_gateway({}) as gateway:
        await gateway.tools.wait_for_first_list()
        await gateway.host.load(stepper.spec("climber"))
        result = await gateway.host.call_tool("climb", {"steps": 2}, on_progress=fail)
        assert result.data == {"climbed": 2}


@shows("gateway-call-04")
@in_both_eras
async def test_a_cancelled_call_is_cancelled_in_the_extension(era: str, toy_dialect: None) -> None:
    call_started = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        call_started.set()

    async with open_gateway({}) as gateway, client_of(gateway, era) as client:
        await tool_names(client)
        await gateway.host.load(stepper.spec("climber"))
        waiting = asyncio.ensure_future(
            client.call_tool("ext_climber_wait", {}, progress_callback=on_progress)
        )
        async with asyncio.timeout(LONG_SECONDS):
            await call_started.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        climber = gateway.host["climber"]
        await wait_until(lambda: climber.stats.cancelled == 1)
        calls = (await gateway.host.call_tool("ext_climber_heard")).data
        assert calls["cancelled"] == calls["waiting"] != []
