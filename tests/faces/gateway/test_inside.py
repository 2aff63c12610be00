"""What the gateway makes of a host: errors, changes, waiting. In one process, both eras."""

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
from tests.extensions.harness import until
from tests.extensions.nexo_tree import CHILD as NEXO
from tests.extensions.roder import entry as roder_entry
from tests.faces.gateway.gateway_process import ERAS, ROOT, extension, inside, tools_of
from tests.toys import stepper

TEXT_PROGRAM = str(ROOT / "examples" / "morphir" / "text.py")
TEXT = extension("text", "morphir", "-S", "-E", TEXT_PROGRAM)
LONG_SECONDS = 150.0

in_both_eras = pytest.mark.parametrize("era", ERAS)


def agent(
    behaviour: dict[str, Any] | None = None, name: str = "agent", **more: Any
) -> dict[str, Any]:
    more = {"restart": {"initial_delay": "10ms"}, **more}
    return extension(name, "nexo", "-S", "-E", str(NEXO), json.dumps(behaviour or {}), **more)


def client_of(gateway: Gateway, era: str = "handshake", **more: Any) -> Client:
    return Client(gateway.server, mode=ERAS[era], cache=None, **more)


def text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def error_details(result: types.CallToolResult) -> Any:
    """What an error result says as data; clients hold structured content to a schema."""
    assert result.structured_content is None and result.meta is not None
    return result.meta[mcp_values.ERROR]


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(stepper.installed(tmp_path / "toys"))
    yield


# -- errors ----------------------------------------------------------------------------------


@shows("gateway-call-05", "gateway-call-06")
@in_both_eras
async def test_a_crash_is_the_error_result_of_its_call_only(era: str) -> None:
    async with (
        inside({"extensions": [agent(), TEXT]}) as gateway,
        client_of(gateway, era) as client,
    ):
        died, shouted = await asyncio.gather(
            client.call_tool("ext_agent_die", {"code": 3}),
            client.call_tool("ext_text_shout", {"text": "hi"}),
        )
        assert died.is_error and shouted.structured_content == {"text": "HI"}
        error = error_details(died)
        assert (error["kind"], error["extension"]) == ("ExtensionGone", "agent")
        assert error["code"] in text(died) and error["help"] not in text(died)
        again = await client.call_tool("ext_agent_echo", {"a": 1})
        assert again.structured_content == {"a": 1}


@shows("gateway-call-06")
@in_both_eras
async def test_a_mistake_of_a_client_is_reported_with_code_and_help(era: str) -> None:
    async with inside({"extensions": [TEXT]}) as gateway, client_of(gateway, era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("ext_text_shuot", {})
        assert caught.value.code == types.INVALID_PARAMS
        assert caught.value.data["code"] == "X1201"
        assert "ext_text_shout" in caught.value.data["help"]
        unfit = await client.call_tool("ext_text_shout", {"text": 1})
        assert unfit.is_error and error_details(unfit)["code"] == "X1301"


async def test_an_error_reply_and_a_result_that_calls_itself_an_error_are_error_results(
    tmp_path: Path,
) -> None:
    document = {"process_extensions": [roder_entry(tmp_path, id="wire")]}
    async with inside(document) as gateway, client_of(gateway) as client:
        refused = await client.call_tool("ext_wire_refuse", {})
        error = error_details(refused)
        assert refused.is_error and error["kind"] == "CallFailed"
        assert error["answer"]["message"] in text(refused)
        says_so = await client.call_tool("ext_wire_fail", {})
        assert says_so.is_error and says_so.structured_content["isError"] is True
        assert text(says_so) == "as you wish"


async def test_a_call_that_takes_too_long_is_an_error_result() -> None:
    slow = agent(limits={"call": "100ms"}, behaviour={"hooks": {}})
    slow["source"]["args"] = ["-S", "-E", "-c", HANGS]
    async with inside({"extensions": [slow]}) as gateway, client_of(gateway) as client:
        late = await client.call_tool("ext_agent_wait", {})
        assert late.is_error and error_details(late)["kind"] == "CallTimeout"


HANGS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": ["wait"]}}))
        sys.stdout.flush()
"""


async def test_hooks_look_at_the_calls_of_clients_too() -> None:
    offer = {"tools": [], "hooks": ["before_tool_call"]}
    guard = agent(
        {"offer": offer, "hooks": {"before_tool_call": {"abort": True, "reason": "not today"}}},
        name="guard",
    )
    async with inside({"extensions": [guard, TEXT]}) as gateway, client_of(gateway) as client:
        stopped = await client.call_tool("ext_text_shout", {"text": "hi"})
        assert stopped.is_error and error_details(stopped)["code"] == "X0332"
        assert "not today" in text(stopped)


# -- what there is ---------------------------------------------------------------------------

SLOW = """
import json, sys, time
time.sleep(0.3)
for line in sys.stdin:
    asked = json.loads(line)
    result = [{"name": "late", "description": ""}] if asked["method"] == "capabilities" else {}
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""


@shows("gateway-tools-02")
@in_both_eras
async def test_the_first_list_waits_for_each_eager_one_and_asks_the_silent(era: str) -> None:
    document = {
        "gateway": {"first_list": "60s"},
        "extensions": [
            extension("slow", "morphir", "-S", "-E", "-c", SLOW),
            extension("broken", "morphir", "-S", "-E", "-c", "raise SystemExit(3)"),
            extension("lazy", "morphir", "-S", "-E", "-c", SLOW, start="lazy"),
            extension("lost", "morphir", "-S", "-E", "-c", "raise SystemExit(3)", start="lazy"),
        ],
    }
    async with inside(document) as gateway, client_of(gateway, era) as client:
        assert await names(client) == {"ext_slow_late", "ext_lazy_late"}


async def test_a_call_need_not_wait_for_the_others() -> None:
    never = extension("never", "morphir", "-S", "-E", "-c", "import time; time.sleep(60)")
    async with inside({"extensions": [TEXT, never]}) as gateway:
        await until(lambda: "ext_text_shout" in gateway.host.tools)
        async with client_of(gateway) as client:
            # Not by call_tool: this client would list the tools first.
            params = types.CallToolRequestParams(name="ext_text_shout", arguments={"text": "hi"})
            asked = types.CallToolRequest(params=params)
            result = await client.session.send_request(asked, types.CallToolResult)
            assert result.structured_content == {"text": "HI"}
        gateway.host.kill()


@in_both_eras
async def test_an_extension_that_hangs_delays_no_other(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    hung = extension("hung", "mcp", "-S", "-E", "-c", "import time; time.sleep(1000)")
    others = [extension(f"text{n}", "morphir", "-S", "-E", TEXT_PROGRAM) for n in range(5)]
    document = {"gateway": {"first_list": "200ms"}, "extensions": [hung, *others]}
    async with inside(document) as gateway:
        async with client_of(gateway, era) as client, asyncio.timeout(LONG_SECONDS):
            listed = await tools_of(client, *(f"ext_text{n}_shout" for n in range(5)))
            assert not any(name.startswith("ext_hung") for name in listed)
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
    wait = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.01)\n"
    slow = extension("slow", "morphir", "-S", "-E", "-c", wait + SLOW, str(tmp_path / "go"))
    document = {"gateway": {"first_list": "60s"}, "extensions": [slow]}
    async with inside(document) as gateway, client_of(gateway, era) as client:
        (tmp_path / "go").touch()  # the client has its handshake, and the extension is starting
        assert await names(client) == {"ext_slow_late"}


@shows("gateway-tools-03")
@in_both_eras
async def test_clients_are_notified_once_when_an_extension_comes_or_goes(era: str) -> None:
    report: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            report.put_nowait(message)

    async def listening(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            report.put_nowait("listening")
            async for change in changes:
                report.put_nowait(change)

    received = on_message if era == "handshake" else None
    async with (
        inside({"extensions": [agent()]}) as gateway,
        client_of(gateway, era, message_handler=received) as client,
    ):
        before = await names(client)
        listener = asyncio.ensure_future(listening(client)) if era == "stateless" else None
        async with asyncio.timeout(LONG_SECONDS):
            if listener is not None:
                await report.get()
            await gateway.host.load(TEXT)
            await report.get()
            assert "ext_text_shout" in await names(client)
            await gateway.host["agent"].restart()  # what it offers is what it was
            await until(lambda: gateway._announcer.is_settled)
            assert report.empty()
            await gateway.host.unload("text")
            await report.get()
            assert await names(client) == before and report.empty()
        if listener is not None:
            listener.cancel()
            await asyncio.wait([listener])
    assert not len(gateway.clients)


async def test_a_lazy_extension_that_comes_later_is_asked_as_well() -> None:
    late = extension("late", "morphir", "-S", "-E", "-c", SLOW, start="lazy")
    async with inside({}) as gateway, client_of(gateway) as client:
        assert await names(client) == set()
        await gateway.host.load(late)
        await until(lambda: "ext_late_late" in gateway.host.tools)
        assert await names(client) == {"ext_late_late"}


# -- progress and cancellation ---------------------------------------------------------------


async def test_progress_reaches_its_subscriber_and_costs_others_nothing(toys: None) -> None:
    received: list[Progress] = []
    async with inside({}) as gateway:
        host = gateway.host
        await gateway.tools.wait_for_first_list()
        await host.load(stepper.spec("climber"))
        climbed = await host.call_tool(
            "ext_climber_climb", {"steps": 3}, on_progress=received.append
        )
        assert climbed.data == {"climbed": 3}
        assert [message[1:] for message in received] == [(n, 3, f"step {n}") for n in (1, 2, 3)]
        await host.call_tool("climb", {"steps": 3}, on_progress=received.append)
        await host["climber"].call_tool("climb", {"steps": 3}, on_progress=received.append)
        await host.call_tool("climb", {"steps": 3}, on_progress=received.append, hooks=False)
        assert len(received) == 12
        assert (await host.call_tool("ext_climber_climb", {"steps": 3})).data == {"climbed": 3}
        assert len(received) == 12
        assert host["climber"].stats.dropped == {"progress of no call": 5}


async def test_a_caller_that_fails_in_its_progress_callback_does_not_affect_others(
    toys: None,
) -> None:
    def trip(_: Progress) -> None:
        raise ValueError("mine")

    async with inside({}) as gateway:
        await gateway.tools.wait_for_first_list()
        await gateway.host.load(stepper.spec("climber"))
        climbed = await gateway.host.call_tool("climb", {"steps": 2}, on_progress=trip)
        assert climbed.data == {"climbed": 2}


@shows("gateway-call-04")
@in_both_eras
async def test_a_cancelled_call_is_taken_back_from_the_extension(era: str, toys: None) -> None:
    under_way = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        under_way.set()

    async with inside({}) as gateway, client_of(gateway, era) as client:
        await names(client)
        await gateway.host.load(stepper.spec("climber"))
        waiting = asyncio.ensure_future(
            client.call_tool("ext_climber_wait", {}, progress_callback=on_progress)
        )
        async with asyncio.timeout(LONG_SECONDS):
            await under_way.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        climber = gateway.host["climber"]
        await until(lambda: climber.stats.cancelled == 1)
        report = (await gateway.host.call_tool("ext_climber_heard")).data
        assert report["cancelled"] == report["waiting"] != []
