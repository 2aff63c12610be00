"""Callbacks of a program are plain or async functions; plain ones do not block the event loop.

A callback is for example `confirm`, which asks a person whether a tool call may be made. A plain
function may wait for the answer, so it runs in a thread.
"""

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost.errors import Refused
from exthost.extension.callbacks import call_plain_or_async
from exthost.extension.confirmation import Confirmation
from tests.extensions.harness import error_of
from tests.extensions.synaps_tree import write_plugin
from tests.faces.gateway.gateway_process import write_config

TOOL = "ext_tools_echo"


async def double_later(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


class AsyncCallable:
    async def __call__(self, value: int) -> int:
        return 2 * value


def return_awaitable(value: int) -> Any:
    return double_later(value)


@pytest.mark.parametrize(
    "function",
    [
        double_later,
        partial(double_later),
        AsyncCallable(),
        return_awaitable,
        lambda value: 2 * value,
        partial(lambda value: 2 * value),
    ],
)
async def test_a_function_of_any_kind_is_called(function: Any) -> None:
    assert await call_plain_or_async(function, 3) == 6


async def test_the_event_loop_runs_while_a_plain_function_blocks() -> None:
    is_called, may_return = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def block(_: Any) -> bool:
        loop.call_soon_threadsafe(is_called.set)
        return may_return.wait(60)

    call = asyncio.ensure_future(call_plain_or_async(block, None))
    await asyncio.wait_for(is_called.wait(), 60)
    may_return.set()
    assert await call is True


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), SystemExit(3)])
async def test_any_exception_of_a_plain_function_is_an_error_of_the_call(
    error: BaseException,
) -> None:
    """A future cannot have a StopIteration, and a SystemExit would end the event loop."""

    def fail(_: Any) -> bool:
        raise error

    with pytest.raises((ValueError, RuntimeError)):
        await call_plain_or_async(fail, None)


# -- confirm -----------------------------------------------------------------------------------


def write_config_with_confirmation(folder: Path) -> Path:
    """Write a config of a tool, and of an extension whose hook demands a person for each call."""
    write_plugin(folder / "plugins" / "tools")
    confirm = {"hooks": {"before_tool_call": {"action": "confirm", "message": "really?"}}}
    write_plugin(folder / "plugins" / "guard", confirm, hooks=[{"hook": "before_tool_call"}])
    return write_config(folder, {"discovery": {"search_paths": [str(folder / "plugins")]}})


def agree_to_one(confirmation: Confirmation) -> bool:
    return confirmation.message == "really?" and confirmation.event["arguments"] == {"a": 1}


async def agree_to_one_later(confirmation: Confirmation) -> bool:
    return agree_to_one(confirmation)


plain_and_async = pytest.mark.parametrize("confirm", [agree_to_one, agree_to_one_later])


@plain_and_async
async def test_confirm_is_plain_or_async_for_a_host_and_an_attached_host(
    tmp_path: Path, confirm: Any
) -> None:
    config = write_config_with_confirmation(tmp_path)
    async with (
        exthost.Host.from_config(config, confirm=confirm, control=True) as host,
        exthost.attach(config) as attached,
    ):
        for caller in (host, attached):
            assert (await caller.call_tool(TOOL, {"a": 1})).data == {"a": 1}
            error = await error_of(caller.call_tool(TOOL, {"a": 2}))
            assert isinstance(error, Refused) and "not confirmed" in error.message


@plain_and_async
def test_confirm_is_plain_or_async_for_a_blocking_host(tmp_path: Path, confirm: Any) -> None:
    with exthost.SyncHost.from_config(
        write_config_with_confirmation(tmp_path), confirm=confirm
    ) as host:
        assert host.call_tool(TOOL, {"a": 1}).data == {"a": 1}
        with pytest.raises(Refused, match="not confirmed"):
            host.call_tool(TOOL, {"a": 2})


async def test_without_confirm_the_error_says_that_no_person_can_be_asked(tmp_path: Path) -> None:
    async with exthost.Host.from_config(write_config_with_confirmation(tmp_path)) as host:
        error = await error_of(host.call_tool(TOOL, {"a": 1}))
        assert error.code == "X0354" and "no person to ask" in error.message  # not confirmed
        assert "confirm" in error.help
