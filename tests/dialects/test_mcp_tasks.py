"""Calls that an MCP server runs as tasks: the host waits until the task has ended.

In MCP, the reply to a call can be a task in place of a result. The client then asks for the state
of the task until it has ended, answers the questions of the task, or cancels it. The server of
these tests, `mcp_task_server.py`, runs in a process of its own.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import CallFailed, CallTimeout, ProtocolViolation
from tests.extensions.clock import Clock

INTERNAL_ERROR = -32603  # of JSON-RPC

SERVER = Path(__file__).parents[1] / "extensions" / "mcp_task_server.py"


@asynccontextmanager
async def task_server(**settings: Any) -> AsyncIterator[exthost.Host]:
    """Yield a host whose extension `jobs` is the server with tasks. `settings` are those of the
    host, such as `handlers`."""
    entry = {
        "name": "jobs",
        "dialect": "mcp",
        "source": {"command": sys.executable, "args": ["-S", "-E", str(SERVER)]},
        "options": {"era": "stateless"},
    }
    async with exthost.Host.from_config({"extensions": [entry]}, **settings) as host:
        yield host


async def call(host: exthost.Host, tool: str, **arguments: Any) -> exthost.ToolResult:
    return await host["jobs"].call_tool(tool, arguments)


async def test_the_result_of_a_task_is_the_result_of_the_call() -> None:
    async with task_server() as host:
        result = await call(host, "slow_compute", seconds=0.2, label="it")
        assert result.text == "computed it"
        assert (await call(host, "greet", name="Ada")).text == "Hello, Ada!"


async def test_a_task_with_an_error_result_fails_the_call() -> None:
    async with task_server() as host:
        with pytest.raises(CallFailed, match="the job failed"):
            await call(host, "failing_job")


async def test_a_task_with_a_protocol_error_fails_the_call_with_its_code() -> None:
    async with task_server() as host:
        with pytest.raises(CallFailed, match="the job broke") as caught:
            await call(host, "protocol_error_job")
        assert caught.value.error_code == INTERNAL_ERROR


async def test_a_task_that_requests_input_gets_it_from_the_handlers() -> None:
    messages: list[str] = []

    async def elicit(params: Any) -> Any:
        messages.append(params["message"])
        return {"action": "accept", "content": {"confirm": True, "name": "Ada"}}

    async with task_server(handlers={"elicitation/create": elicit}) as host:
        assert (await call(host, "confirm_delete", filename="a.txt")).text == "deleted"
        assert (await call(host, "multi_input")).text == "two answers"
        assert (await call(host, "test_tool_with_task")).text == "Hello, Ada!"
    assert messages == ["Delete a.txt?", "Your name?", "Are you sure?", "Your name?"]


async def test_a_task_that_requests_input_without_a_handler_is_an_error_and_is_cancelled() -> None:
    async with task_server() as host:
        with pytest.raises(CallFailed) as caught:
            await call(host, "confirm_delete", filename="a.txt")
        assert caught.value.code == "X0760"
        assert (await call(host, "task_states")).text == "cancelled"


async def wait_for_task_state(host: exthost.Host, state: str) -> None:
    """Wait until the server's only task has this state. The time limit of the test ends the
    wait."""
    while (await call(host, "task_states")).text != state:
        pass


async def test_a_call_that_times_out_cancels_its_task(clock: Clock) -> None:
    async with task_server() as host:
        running_call = asyncio.ensure_future(
            host["jobs"].call_tool("slow_compute", {"seconds": 600}, timeout=600)
        )
        await wait_for_task_state(host, "working")
        await clock.advance(601)
        with pytest.raises(CallTimeout):
            await running_call
        await wait_for_task_state(host, "cancelled")


async def test_a_call_that_is_cancelled_cancels_its_task() -> None:
    async with task_server() as host:
        running_call = asyncio.ensure_future(call(host, "slow_compute", seconds=600))
        await wait_for_task_state(host, "working")
        running_call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_call
        await wait_for_task_state(host, "cancelled")


async def test_a_result_of_an_unknown_type_is_an_error() -> None:
    async with task_server() as host:
        with pytest.raises(ProtocolViolation, match="hologram") as caught:
            await call(host, "odd_result")
        assert caught.value.code == "X0664"
