"""Requirements of MCP that need a process, a clock or several messages to test.

MCP (the Model Context Protocol) has two eras: in the older one a session begins with `initialize`
("handshake"); in the newer one each request has its context in an envelope, `_meta` ("stateless"),
and `server/discover` shows which era a server speaks. `child(behaviour)` starts a server that
behaves as the test says; its tool `heard` returns the messages that it got. `@shows` names the
requirements (`requirements.toml` of the dialect mcp) that a test shows.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.mcp import calls as mcp_calls
from exthost.dialects.mcp import facets
from exthost.dialects.mcp.dialect import DIALECT
from exthost.dialects.mcp.handshake import STATELESS_REVISION, handshake
from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    HandshakeFailed,
    ProtocolViolation,
    UsageError,
)
from exthost.events import Bus, LogLine, OfferChanged, Progressed, Spawned
from exthost.model.messages import Reply
from exthost.model.offer import MAX_WARNINGS, OfferWarnings
from exthost.model.shutdown_steps import CloseStdin, Terminate
from exthost.model.spec import Breaker, Restart
from tests.dialects.requirements import shows
from tests.extensions.clock import Clock, run_loop
from tests.extensions.harness import error_of, wait_until
from tests.extensions.proc import is_gone, is_running

CHILD = Path(__file__).parents[1] / "extensions" / "mcp_child.py"
ERAS = pytest.mark.parametrize("era", ["handshake", "stateless"])


def command(behaviour: dict[str, Any]) -> list[str]:
    return [sys.executable, "-S", "-E", str(CHILD), json.dumps(behaviour)]


def child(behaviour: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Connect to the MCP server that the tests control."""
    return exthost.connect(command(behaviour or {}), dialect="mcp", name="child", **settings)


def read_text_block(result: exthost.ToolResult) -> Any:
    """Return the one text block of a tool result, decoded if it is JSON."""
    (block,) = result.raw["content"]
    text = block["text"]
    return json.loads(text) if text[:1] in "[{" else text


# -- the eras --------------------------------------------------------------------------------


@shows("mcp-hand-04", "mcp-hand-05", "mcp-wire-04", "mcp-end-01")
def test_the_settings_of_the_dialect_are_those_of_the_specification() -> None:
    traits = DIALECT.traits
    limits = traits.limits
    assert (limits.max_message, limits.handshake, limits.call) == (64 * 2**20, 60, 60)
    assert traits.shutdown_steps == (CloseStdin(2), Terminate(2))
    assert traits.restart == Restart(
        strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300
    )
    assert traits.breaker == Breaker(
        failures=5, open=10, max_open=120, successes=2, count_error_replies=False
    )
    assert traits.environment == "minimal"


@shows("mcp-era-02")
async def test_every_request_to_a_stateless_server_has_the_envelope() -> None:
    async with child({"era": "stateless"}, options={"host_version": "9.9"}) as ext:
        assert ext.offer.extra["era"] == "stateless"
        await ext.call("prompts/list")
        await ext.call("prompts/list", {"cursor": "2"})
        await ext.resources.read("a:b")
        received = read_text_block(await ext.call_tool("heard"))
    assert len(received) > 7 and all("id" in message for message in received)
    for message in received:
        meta = message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        client_info = {"name": "exthost", "version": "9.9"}
        assert meta["io.modelcontextprotocol/clientInfo"] == client_info
        declared: Any = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        assert meta["io.modelcontextprotocol/clientCapabilities"] == declared
    assert received[-1]["params"]["_meta"]["progressToken"] == received[-1]["id"]


@shows("mcp-era-01", "mcp-hand-02")
async def test_an_older_server_gets_no_envelope_after_the_handshake() -> None:
    async with child() as ext:
        received = read_text_block(await ext.call_tool("heard"))
    methods = [message["method"] for message in received]
    assert methods[:4] == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]
    assert "_meta" not in received[3]["params"] and "params" not in received[2]
    assert list(received[-1]["params"]["_meta"]) == ["progressToken"]


@shows("mcp-era-07")
async def test_a_server_of_the_older_era_is_not_sent_discovery_again_at_a_restart(
    tmp_path: Path,
) -> None:
    # Some servers write long errors to stderr when they refuse discovery.
    log = tmp_path / "heard"
    async with child({"heard": str(log)}) as ext:
        before = methods_in(log)
        await ext.restart()
        after = methods_in(log)[len(before) :]
        assert ext.offer.extra["era"] == "handshake"
    assert before[:2] == ["server/discover", "initialize"]
    assert after[:2] == ["initialize", "notifications/initialized"]
    assert "server/discover" not in after


@shows("mcp-era-07")
async def test_a_server_that_was_updated_to_the_newer_era_is_discovered(
    tmp_path: Path,
) -> None:
    behaviour_file = tmp_path / "behaviour"
    behaviour_file.write_text(json.dumps({"era": "handshake"}))
    script = f'exec "$0" -S -E "$1" "$(cat "{behaviour_file}")"'
    program = ["sh", "-c", script, *command({})[:1], command({})[-2]]
    async with exthost.connect(program, dialect="mcp", name="child") as ext:
        assert ext.offer.extra["era"] == "handshake"
        # As an update of the server does.
        behaviour_file.write_text(json.dumps({"era": "stateless"}))
        await ext.restart()
        assert ext.offer.extra["era"] == "stateless"
        assert read_text_block(await ext.call_tool("echo", {"a": 1})) == {"a": 1}


@shows("mcp-era-03")
async def test_a_server_that_dies_at_discovery_is_started_again_without_it() -> None:
    bus = Bus()
    spawned: list[Spawned] = []
    bus.subscribe(Spawned, spawned.append)
    async with child({"discover": "die"}, events=bus) as ext:
        assert ext.offer.extra["era"] == "handshake" and ext.stats.crashes == 0
        assert len(spawned) == 2
        await ext.restart()  # the era is remembered
        assert len(spawned) == 3 and read_text_block(await ext.call_tool("echo", {"a": 1})) == {
            "a": 1
        }


@pytest.mark.parametrize("handles", [frozenset(), frozenset({"roots/list"})])
def test_a_reply_to_initialize_with_the_stateless_revision_leads_to_discovery(
    handles: frozenset[str],
) -> None:
    steps = handshake(HandshakeContext(extension="x", handles=handles))
    step: Any = next(steps)
    if not handles:
        assert step.request.method == "server/discover"
        step = steps.send(None)  # no reply in time
    assert step.method == "initialize"
    step = steps.send(Reply(1, {"protocolVersion": STATELESS_REVISION, "capabilities": {}}))
    assert step.request.method == "server/discover"
    with pytest.raises(StopIteration) as finished:
        steps.send(Reply(2, {"supportedVersions": [STATELESS_REVISION], "capabilities": {}}))
    assert finished.value.value.extra["era"] == "stateless"


@shows("mcp-era-03")
async def test_a_server_that_does_not_answer_discovery_gets_initialize(
    tmp_path: Path, clock: Clock
) -> None:
    methods, offer = await connect_without_discovery_reply(clock, tmp_path / "heard")
    assert methods[:2] == ["server/discover", "initialize"]
    assert offer.extra["protocol"] == "2025-11-25"


async def connect_without_discovery_reply(clock: Clock, log: Path) -> tuple[list[str], Any]:
    """Return the methods that a server without a reply to discovery receives, and its offer."""
    behaviour = {"heard": str(log), "discover": "silent", "era": "handshake"}

    async def connect() -> Any:
        async with child(behaviour, limits={"handshake": "2s"}) as ext:
            return ext.offer

    clock.stop()
    connecting = asyncio.ensure_future(connect())
    await clock.until(lambda: any("server/discover" in line for line in lines(log)))
    await clock.advance(1)  # half of the limit
    offer = await connecting
    return [json.loads(line)["method"] for line in lines(log)], offer


def methods_in(path: Path) -> list[str]:
    return [json.loads(line)["method"] for line in lines(path)]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def test_an_extension_that_always_dies_is_reported_with_its_exit() -> None:
    dying_command = [sys.executable, "-S", "-E", "-c", "import os; os._exit(3)"]
    bus = Bus()
    spawned: list[Spawned] = []
    bus.subscribe(Spawned, spawned.append)
    error = await error_of(exthost.connect(dying_command, dialect="mcp", events=bus).__aenter__())
    assert isinstance(error, HandshakeFailed) and "exited with 3" in error.message
    assert len(spawned) == 1  # it had not read the discovery


@shows("mcp-wire-02")
async def test_a_banner_on_stdout_is_logged() -> None:
    bus = Bus()
    log_lines: list[LogLine] = []
    bus.subscribe(LogLine, log_lines.append)
    async with child({"banner": "npm warn old\nServer running on stdio\n"}, events=bus) as ext:
        assert ext.stats.dropped == {"stray lines on stdout": 2}
    assert any("running on stdio" in line.text for line in log_lines)


@shows("mcp-wire-03")
async def test_a_reply_with_its_id_as_text_is_accepted() -> None:
    async with child() as ext:
        assert read_text_block(await ext.call_tool("textual", timeout=60)) == "textual"


@shows("mcp-wire-06")
async def test_replies_and_requests_in_one_batch_are_all_handled() -> None:
    async with child() as ext:
        first, second = await asyncio.gather(
            ext.call_tool("together", timeout=60), ext.call_tool("together", timeout=60)
        )
        assert (read_text_block(first), read_text_block(second)) == ("first", "second")
        received = read_text_block(await ext.call_tool("heard"))
        assert {"jsonrpc": "2.0", "id": "q-2", "result": {}} in received
        assert ext.stats.dropped == {}


@shows("mcp-era-06")
async def test_a_subscription_that_the_server_ends_is_renewed_twice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, clock: Clock
) -> None:
    monkeypatch.setattr(mcp_calls, "LISTEN_PAUSES", (0.01, 0.01))
    clock.stop()
    async with child({"era": "stateless"}) as ext:
        for tool, times in (("untold0", 2), ("untold1", 3)):
            await ext.call_tool("unlisten", timeout=60)
            await clock.advance(0.06)  # longer than the pause between two lists
            await clock.until(lambda tool=tool: tool in ext.tools)  # type: ignore[misc]
            received = read_text_block(await ext.call_tool("heard"))
            methods = [message["method"] for message in received]
            assert methods.count("subscriptions/listen") == times
            assert "notifications do not come any more" not in caplog.text
        await ext.call_tool("unlisten", timeout=60)  # the third time: it is not renewed
        await clock.until(lambda: "was ended 3 times in a row" in caplog.text)
        assert "subscriptions/listen" in caplog.text and ext.stats.dropped == {}


@shows("mcp-era-06")
async def test_a_refused_subscription_is_reported_and_not_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp_calls, "LISTEN_PAUSES", (0.01, 0.01))
    async with child({"era": "stateless"}) as ext:
        await ext.call_tool("unlisten", {"no": {"code": 1, "message": "not today"}}, timeout=60)
        await wait_until(lambda: "not today" in caplog.text)
        received = read_text_block(await ext.call_tool("heard"))
        assert [message["method"] for message in received].count("subscriptions/listen") == 1


async def test_the_end_of_a_subscription_with_its_server_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with child({"era": "stateless"}) as ext:
        assert read_text_block(await ext.call_tool("echo", {"a": 1})) == {"a": 1}
    assert "Connection closed" not in caplog.text


@shows("mcp-hand-05")
async def test_the_child_gets_the_specified_and_configured_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with child(env={"MINE": "1"}) as ext:
        environment = read_text_block(await ext.call_tool("environ"))
    known = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG"}
    assert (
        environment.keys() - {"LC_CTYPE"} <= known | {"MINE"} and environment["LANG"] == "C.UTF-8"
    )


# -- tools -----------------------------------------------------------------------------------


@shows("mcp-tools-02")
async def test_a_list_of_tools_without_an_end_is_cut_off() -> None:
    async with child({"pages": "for ever"}) as ext:
        assert list(ext.tools) == ["echo"]
        warning, *_ = ext.offer.warnings
    assert "does not end after 1000 pages" in warning


def test_a_list_with_many_mistakes_has_a_limited_number_of_warnings() -> None:
    warnings = OfferWarnings()
    requests = mcp_calls.request_tools(warnings)
    next(requests)
    with pytest.raises(StopIteration) as caught:
        requests.send(Reply(1, {"tools": [{"name": "echo"}] * 600 + [None] * 700}))
    assert [tool.name for tool in caught.value.value] == ["echo"]
    assert len(warnings.report()) == MAX_WARNINGS + 1
    mistakes = 599 + 700
    assert warnings.report()[-1] == f"there are {mistakes - MAX_WARNINGS} more warnings"
    one_too_many = OfferWarnings(["a mistake"] * (MAX_WARNINGS + 1))
    assert one_too_many.report()[-1] == "there is 1 more warning"


def test_a_list_is_cut_off_when_all_its_pages_together_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(facets, "MAX_LIST_BYTES", 1000)
    warnings: list[str] = []
    requests = facets.request_all_pages("tools/list", "tools", warnings)
    next(requests)
    page_number = 0
    with pytest.raises(StopIteration) as caught:
        while True:
            page_number += 1
            page = {"tools": [{"name": "x" * 400}], "nextCursor": str(page_number)}
            requests.send(Reply(page_number, page))
    # Two pages are below the limit, three are above it.
    assert len(caught.value.value) == page_number == 3
    assert "is longer than 64 MiB after 3 pages; the tools until there (3) are used" in warnings[0]


@shows("mcp-tools-04")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"as": {"sum": "three"}}, "structuredContent.sum: "),
        ({"as": None}, "structuredContent: the value is not of type"),
        ({}, "there is no structuredContent"),
    ],
)
async def test_structured_content_is_checked_against_its_output_schema(
    arguments: Any, message: str
) -> None:
    async with child() as ext:
        error = await error_of(ext.call_tool("typed", arguments))
        assert isinstance(error, ProtocolViolation) and error.code == "X0661"
        assert message in error.message and "typed" in error.evidence.bytes
        valid_result = await ext.call_tool("typed", {"as": {"sum": 3}})
        assert valid_result.data == {"sum": 3}
        # An error result is not checked.
        assert (await ext.call_tool("typed", {"isError": True}, check=False)).is_error is True


@ERAS
@shows("mcp-tools-05", "mcp-era-05")
async def test_many_notifications_of_changed_tools_cause_few_lists(era: str) -> None:
    bus = Bus()
    changes: list[OfferChanged] = []
    bus.subscribe(OfferChanged, changes.append)
    async with child({"era": era}, events=bus) as ext:
        changes.clear()
        added = [f"new{number}" for number in range(20)]
        await ext.call_tool("change", {"add": added})
        await wait_until(lambda: added[-1] in ext.tools)
        assert set(added) <= set(ext.tools) and "echo" in ext.tools
        assert {name for change in changes for name in change.added} == set(added)
        # A list of all tools needs seven requests. One list for each notification would be 140.
        received = read_text_block(await ext.call_tool("heard"))
        assert sum(message["method"] == "tools/list" for message in received) < 30


@shows("mcp-tools-06")
async def test_a_server_that_dies_in_a_call_is_restarted() -> None:
    async with child(restart={"initial_delay": "1ms"}) as ext:
        error = await error_of(ext.call_tool("die"))
        assert isinstance(error, ExtensionGone) and error.evidence.exit == "exited with 7"
        assert "I cannot go on" in error.evidence.stderr
        assert read_text_block(await ext.call_tool("echo", {"back": True})) == {"back": True}


async def test_tools_call_returns_a_failure_as_a_result() -> None:
    async with child() as ext:
        result = await ext.tools.call("die")
    assert result.is_error is True and "exited with 7" in result.text


async def test_context_passthrough_sends_the_context() -> None:
    async with child(options={"context_passthrough": True}) as ext:
        result = await ext.call_tool("echo", {"_meta": "spoofed"}, context={"agent_id": "a1"})
        assert read_text_block(result) == {"_meta": {"agent_id": "a1", "session_id": None}}


@pytest.mark.parametrize("options", [{}, {"context_passthrough": True}])
async def test_a_context_that_is_not_a_mapping_is_reported(
    options: dict[str, Any],
) -> None:
    async with child(options=options) as ext:
        no_context: Any = None
        bad_contexts: list[Any] = [5, ["agent_id"]]
        for context in bad_contexts:
            error = await error_of(ext.call_tool("echo", {}, context=context))
            assert isinstance(error, UsageError) and error.code == "X1338"
        await ext.call_tool("echo", {}, context=no_context)
        assert (ext.stats.calls, ext.stats.result) == (1, 1)


# -- progress, timeouts, cancelling ----------------------------------------------------------


@shows("mcp-progress-01")
async def test_progress_is_an_event_of_its_call() -> None:
    bus = Bus()
    events: list[Progressed] = []
    bus.subscribe(Progressed, events.append)
    async with child(events=bus) as ext:
        await ext.call_tool("steps", {"times": 2}, context={"of": "me"})
    assert events == [
        ("child", "steps", 1, 2, "step 1", {"of": "me"}),
        ("child", "steps", 2, 2, "step 2", {"of": "me"}),
    ]


def move_clock_at_progress(clock: Clock, seconds: float, bus: Bus | None = None) -> Bus:
    """Move the clock by these seconds at each progress event, and return the bus."""
    bus = bus or Bus()
    bus.subscribe(Progressed, lambda _: clock.move(seconds))
    return bus


async def test_a_timeout_mentions_an_error_that_names_no_request(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that cannot read a request does not know its id."""
    clock.stop()
    async with child() as ext:
        unread_call = asyncio.ensure_future(error_of(ext.call_tool("hang", {}, timeout=0.5)))
        await run_loop()  # so that this call is sent first
        error_without_id = {"id": None, "error": {"code": -32700, "message": "Parse error"}}
        await ext.call_tool("notify", error_without_id, timeout=60)
        await clock.advance(0.5)
        error = await unread_call
        assert isinstance(error, CallTimeout) and "an error that names no request" in error.message
        assert "the log has its error" in error.help
        assert 'names no request: "Parse error"' in caplog.text
        assert ext.stats.dropped == {"errors that name no request": 1}


@shows("mcp-progress-02")
@pytest.mark.parametrize("timeout", [0.3, 0.4], ids=["other", "equal_to_limit"])
async def test_progress_extends_the_call_limit_but_not_the_timeout_of_the_caller(
    clock: Clock, timeout: float
) -> None:
    clock.stop()
    async with child(limits={"call": "400ms"}, events=move_clock_at_progress(clock, 0.1)) as ext:
        steps = {"times": 8, "asks": True}
        assert read_text_block(await ext.call_tool("steps", steps)) == "done"
        error = await error_of(ext.call_tool("steps", steps, timeout=timeout))
        assert isinstance(error, CallTimeout) and f"longer than {timeout} s" in error.message


@shows("mcp-progress-02")
def test_progress_extends_the_limit_of_blocking_calls(clock: Clock) -> None:
    program, *args = command({})
    server = {"command": program, "args": args, "limits": {"call": "400ms"}}
    clock.stop()
    with exthost.SyncHost.from_config({"mcp_servers": {"c": server}}) as host:
        move_clock_at_progress(clock, 0.1, host.events)
        result = host.call_tool("ext_c_steps", {"times": 8, "asks": True})
    assert read_text_block(result) == "done"


@shows("mcp-progress-02")
async def test_progress_extends_the_limit_at_most_tenfold(clock: Clock) -> None:
    clock.stop()
    async with child(limits={"call": "80ms"}, events=move_clock_at_progress(clock, 0.04)) as ext:
        began = clock.now()
        error = await error_of(ext.call_tool("steps", {"times": 40, "asks": True}))
        assert isinstance(error, CallTimeout) and "longer than 0.8 s" in error.message
        assert 0.75 < clock.now() - began < 1.5


@shows("mcp-cancel-01")
async def test_a_call_that_times_out_or_is_cancelled_sends_a_cancellation() -> None:
    async with child() as ext:
        error = await error_of(ext.call_tool("hang", timeout=0.05))
        assert isinstance(error, CallTimeout)
        call = asyncio.create_task(ext.call_tool("hang"))
        await wait_until(lambda: ext.stats.in_flight == 1)
        call.cancel()
        await asyncio.wait([call])
        received = read_text_block(await ext.call_tool("heard"))
    call_ids = [
        message["id"] for message in received if message.get("params", {}).get("name") == "hang"
    ]
    cancellations = [
        message["params"] for message in received if message["method"] == "notifications/cancelled"
    ]
    assert cancellations == [
        {"requestId": call_ids[0], "reason": "timed out after 0.05 s"},
        {"requestId": call_ids[1], "reason": "cancelled by the caller"},
    ]


@shows("mcp-cancel-02")
async def test_the_handshake_is_never_cancelled(tmp_path: Path, clock: Clock) -> None:
    methods, _ = await connect_without_discovery_reply(clock, tmp_path / "heard")
    assert methods[:2] == ["server/discover", "initialize"]
    assert "notifications/cancelled" not in methods


# -- requests of the server ------------------------------------------------------------------------


async def roots(params: Any) -> Any:
    return {"roots": [{"uri": "file:///here"}]}


@shows("mcp-ask-01", "mcp-wire-03")
async def test_a_request_of_the_server_is_answered_by_its_handler_or_refused() -> None:
    async with child(handlers={"roots/list": roots}) as ext:
        answer = read_text_block(await ext.call_tool("ask", {"method": "roots/list"}))
        assert answer["id"] == "q-1" and answer["result"] == await roots(None)
        refusal = read_text_block(
            await ext.call_tool("ask", {"method": "sampling/createMessage", "params": {}})
        )
        assert refusal["error"]["code"] == -32601
        received = read_text_block(await ext.call_tool("heard"))
    assert received[0]["params"]["capabilities"] == {"roots": {"listChanged": True}}


@shows("mcp-ask-02")
async def test_a_ping_is_answered() -> None:
    async with child() as ext:
        assert read_text_block(await ext.call_tool("ask", {"method": "ping"}))["result"] == {}
        assert await ext.check_health() == {}
    async with child({"era": "stateless"}) as ext:
        assert "supportedVersions" in await ext.check_health()


@shows("mcp-era-04")
async def test_requests_of_a_stateless_server_are_answered_by_the_same_handlers() -> None:
    async def accept_later(params: Any) -> Any:
        await asyncio.sleep(0)
        return {"action": "accept", "content": params}

    handlers = {"roots/list": roots, "elicitation/create": accept_later}
    async with child({"era": "stateless"}, handlers=handlers) as ext:
        answers, state = read_text_block(await ext.call_tool("input", {"method": "roots/list"}))
        assert answers == {"where": await roots(None)} and state == "s"
        request = {"method": "elicitation/create", "params": {"message": "n?"}}
        answers, _ = read_text_block(await ext.call_tool("input", request))
        assert answers["where"]["content"] == {"message": "n?"}
        error = await error_of(ext.call_tool("input", {"method": "sampling/createMessage"}))
        assert isinstance(error, CallFailed) and error.code == "X0760"


@shows("mcp-era-04")
async def test_a_handler_that_takes_too_long_fails_only_its_call() -> None:
    async def never(params: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async with child({"era": "stateless"}, handlers={"roots/list": never}) as ext:
        error = await error_of(ext.call_tool("input", {"method": "roots/list"}, timeout=0.2))
        assert isinstance(error, CallTimeout)
        assert read_text_block(await ext.call_tool("echo", {"a": 1})) == {"a": 1}
        call_in_flight = asyncio.create_task(
            error_of(ext.call_tool("input", {"method": "roots/list"}))
        )
        await wait_until(lambda: ext.stats.in_flight == 1)
        ext.kill()
        assert isinstance(await call_in_flight, ExtensionGone)


# -- facets ----------------------------------------------------------------------------------


@ERAS
@shows("mcp-resources-01", "mcp-prompts-01", "mcp-prompts-02")
async def test_resources_prompts_and_completion(era: str) -> None:
    async with child({"era": era}) as ext:
        assert [item["name"] for item in await ext.resources.list()] == ["first", "second"]
        assert len(await ext.resources.templates()) == 2
        assert (await ext.resources.read("a:b"))["contents"] == [{"uri": "a:b", "text": "read"}]
        await ext.resources.subscribe("a:b")
        assert len(await ext.prompts.list()) == 2
        assert await ext.prompts.get("p", {"x": "y"}) == {"messages": [{"x": "y"}]}
        ref, argument = {"type": "ref/prompt", "name": "p"}, {"name": "x", "value": "ab"}
        completion = await ext.completion.complete(ref, argument, context={"arguments": {}})
        assert completion == {"completion": {"values": ["ab"]}}
        received = read_text_block(await ext.call_tool("heard"))
    params_by_method = {item["method"]: item["params"] for item in received if "params" in item}
    if era == "handshake":
        assert params_by_method["resources/subscribe"] == {"uri": "a:b"}
    else:
        assert params_by_method["subscriptions/listen"]["notifications"] == {
            "resourceSubscriptions": ["a:b"]
        }
    assert params_by_method["completion/complete"]["context"] == {"arguments": {}}


@shows("mcp-log-01")
async def test_the_log_level_is_set_by_the_facet_and_by_the_option() -> None:
    async with child(options={"log_level": "warning"}) as ext:
        await ext.logging.set_level("debug")
        received = read_text_block(await ext.call_tool("heard"))
    levels = [
        message["params"]["level"]
        for message in received
        if message["method"] == "logging/setLevel"
    ]
    assert levels == ["warning", "debug"]
    async with child({"era": "stateless"}, options={"log_level": "warning"}) as ext:
        error = await error_of(ext.logging.set_level("debug"))
        assert isinstance(error, UsageError) and error.code == "X1360"
        received = read_text_block(await ext.call_tool("heard"))
    assert received[-1]["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "warning"


# -- the end ---------------------------------------------------------------------------------


@shows("mcp-end-01")
async def test_a_server_that_does_not_exit_is_killed_after_the_shutdown_steps(clock: Clock) -> None:
    """The host waits 2 s after the end of stdin, and 2 s after SIGTERM."""
    connection = child(lifetime="plain")  # without a namespace, so that the reported pid is ours
    ext = await connection.__aenter__()
    pid = int(read_text_block(await ext.call_tool("deaf")))
    clock.stop()
    closing = asyncio.ensure_future(connection.__aexit__(None, None, None))
    await run_loop()
    for wait in (1.9, 0.1, 1.9, 0.1):
        assert is_running(pid)
        await clock.advance(wait)
    await clock.until(closing.done)  # the clock is stopped
    await closing
    assert is_gone(pid)
