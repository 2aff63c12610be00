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
from exthost.dialects import steps
from exthost.dialects.mcp.calls import make_input_operation
from exthost.dialects.mcp.tasks import wait_for_task
from exthost.errors import CallFailed, CallTimeout, ProtocolViolation
from exthost.model.messages import Reply, Request
from exthost.model.offer import Offer
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


# -- odd replies, without a server -------------------------------------------------------------


def run(operation: Any, *results: Any) -> tuple[Any, list[Any]]:
    """Run an operation with these results of its requests. Return its value, and its steps."""
    replies, taken = list(results), list[Any]()
    answer: Any = None
    while True:
        try:
            step = operation.send(answer)
        except StopIteration as end:
            assert not replies
            return end.value, taken
        taken.append(step)
        answer = None
        if isinstance(step, steps.GetOffer):
            answer = Offer(extra={"era": "stateless"})
        elif isinstance(step, steps.AskHost):
            answer = Reply(None, {"action": "accept"})
        elif isinstance(step, Request):
            answer = Reply(None, replies.pop(0))


TASK = {"resultType": "task", "taskId": "1", "status": "working"}
DONE = {"status": "completed", "result": {"content": []}}
INPUT = {"a": {"method": "elicitation/create", "params": {}}}
INPUT_REQUIRED = {"resultType": "input_required", "inputRequests": INPUT}


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        (int("9" * 400), 30),
        (-int("9" * 400), 0.05),
        (float("inf"), 30),
        (float("-inf"), 0.05),
        (float("nan"), 0.05),
        (0, 0.05),
        (500, 0.5),
        (1500.0, 1.5),
        (True, 1),
        ("9", 1),
        (None, 1),
    ],
    ids=str,
)
def test_the_interval_that_a_server_names_is_limited(interval: Any, seconds: float) -> None:
    result, taken = run(wait_for_task("tools/call", {**TASK, "pollIntervalMs": interval}), DONE)
    assert result == {"content": []}
    [wait] = [step for step in taken if isinstance(step, steps.WaitFor)]
    assert wait.seconds == seconds


def test_the_state_of_a_task_can_lack_its_id() -> None:
    state = {"status": "input_required", "inputRequests": INPUT}
    _, taken = run(wait_for_task("tools/call", TASK), state, {}, DONE)
    requests = [step for step in taken if isinstance(step, Request)]
    assert [request.params["taskId"] for request in requests] == ["1", "1", "1"]


@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
def test_a_result_of_an_unknown_type_after_requested_input_is_an_error(method: str) -> None:
    finish = make_input_operation(method).finish
    assert finish is not None
    with pytest.raises(ProtocolViolation, match="unknown type 'hologram'"):
        run(finish({}, INPUT_REQUIRED), {"resultType": "hologram"})


def test_a_task_after_requested_input_is_followed() -> None:
    finish = make_input_operation("prompts/get").finish
    assert finish is not None
    assert run(finish({}, INPUT_REQUIRED), TASK, DONE)[0] == {"content": []}
