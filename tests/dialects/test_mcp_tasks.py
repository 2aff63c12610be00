"""Calls that an MCP server runs as tasks: the host waits until the task has ended."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import CallFailed, CallTimeout, ProtocolViolation

SERVER = Path(__file__).parents[1] / "extensions" / "mcp_task_server.py"


@asynccontextmanager
async def task_server(**settings: Any) -> AsyncIterator[exthost.Host]:
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


async def test_a_task_that_fails_fails_the_call() -> None:
    async with task_server() as host:
        with pytest.raises(CallFailed, match="the job failed"):
            await call(host, "failing_job")
        with pytest.raises(CallFailed, match="the job broke") as caught:
            await call(host, "protocol_error_job")
        assert caught.value.error_code == -32603


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


@pytest.mark.parametrize("end", ["timeout", "cancel"])
async def test_a_call_that_times_out_or_is_cancelled_cancels_its_task(end: str) -> None:
    async with task_server() as host:
        running_call = asyncio.ensure_future(
            host["jobs"].call_tool(
                "slow_compute", {"seconds": 60}, timeout=1 if end == "timeout" else 60
            )
        )
        async with asyncio.timeout(60):
            while (await call(host, "task_states")).text != "working":
                pass
            if end == "cancel":
                running_call.cancel()
            with pytest.raises((CallTimeout, asyncio.CancelledError)):
                await running_call
            while (await call(host, "task_states")).text != "cancelled":
                pass


async def test_a_result_of_an_unknown_type_is_an_error() -> None:
    async with task_server() as host:
        with pytest.raises(ProtocolViolation, match="hologram") as caught:
            await call(host, "odd_result")
        assert caught.value.code == "X0664"
