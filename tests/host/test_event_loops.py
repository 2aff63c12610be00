"""A host belongs to the event loop that opened it; it cannot be used in another loop.

Such a use is refused with an error at once: otherwise it would wait for ever, or break the state of
the host. The extension `a` is running, and `lazy` starts at its first call.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import exthost
from exthost import errors
from tests.extensions.harness import pid_of, wait_until
from tests.extensions.proc import is_gone
from tests.host.test_host import config, entry

Use = Callable[[exthost.Host], Coroutine[Any, Any, Any]]


NO_ASYNCIO_LOOP = "X1336"
OTHER_LOOP = "X1319"

USES: dict[str, Use] = {
    "call": lambda host: host["a"].call("echo", 1),
    "call_tool": lambda host: host.call_tool("ext_a_echo", {"n": 1}),
    "call_tool of the extension": lambda host: host["a"].call_tool("echo", {"n": 1}),
    "call_tool by another name": lambda host: host.call_tool("a:echo", {"n": 1}),
    "call_tool of an unstarted extension": lambda host: host.call_tool("ext_lazy_echo", {"n": 1}),
    "start": lambda host: host["lazy"].start(),
    "restart": lambda host: host["a"].restart(),
    "close of the extension": lambda host: host["a"].close(),
    "load": lambda host: host.load(entry("b")),
    "unload": lambda host: host.unload("a"),
    "reload": lambda host: host.reload(config(entry("b"))),
    "close": lambda host: host.close(),
}


def test_opening_without_asyncio_is_reported(tmp_path: Path) -> None:
    """trio and curio run the coroutine without an asyncio event loop."""
    context_managers: dict[str, Any] = {
        "Host": exthost.Host.from_config(config(entry("a"))),
        "connect": exthost.connect([sys.executable], dialect="morphir"),
        "connect without a dialect": exthost.connect([sys.executable]),
        "attach": exthost.attach(tmp_path / "exthost.toml"),
    }
    for name, context_manager in context_managers.items():
        with pytest.raises(errors.UsageError, match="asyncio") as caught:
            context_manager.__aenter__().send(None)
        assert caught.value.code == NO_ASYNCIO_LOOP, name
        assert "SyncHost" in caught.value.help


def code_of_error_in_other_loop(host: exthost.Host, use: Use) -> str:
    """Return the code of the error that this use raises in another event loop."""

    async def run() -> None:
        await asyncio.wait_for(use(host), 60)

    with pytest.raises(errors.UsageError) as caught:
        asyncio.run(run())
    return caught.value.code


@pytest.mark.both_loops
async def test_every_use_in_another_loop_is_refused() -> None:
    async with exthost.Host.from_config(config(entry("a"), entry("lazy", start="lazy"))) as host:
        codes = {
            name: await asyncio.to_thread(code_of_error_in_other_loop, host, use)
            for name, use in USES.items()
        }
        assert set(codes.values()) == {OTHER_LOOP}, codes
        assert host["a"].stats.calls == 0 and list(host) == ["a", "lazy"]
        assert host["lazy"].state == "admitted"
        assert (await host.call_tool("ext_a_echo", {"n": 2})).data == {"n": 2}


@pytest.mark.more
@pytest.mark.parametrize("cancels_tasks", [True, False])
def test_a_host_that_is_not_closed_warns_and_leaves_no_process(
    cancels_tasks: bool,
) -> None:
    async def leave_open() -> int:
        host = await exthost.Host.from_config(config(entry("a"))).__aenter__()
        return pid_of(host["a"])

    with pytest.warns(ResourceWarning, match="without close"):
        if cancels_tasks:
            pid = asyncio.run(leave_open())
        else:  # the tasks of the host are not cancelled
            loop = asyncio.new_event_loop()
            pid = loop.run_until_complete(leave_open())
            loop.close()
        gc.collect()
    asyncio.run(wait_until(lambda: is_gone(pid)))


def test_after_the_end_of_its_loop_a_host_can_only_be_closed() -> None:
    async def open_host() -> exthost.Host:
        return await exthost.Host.from_config(config(entry("a"))).__aenter__()

    host = asyncio.run(open_host())
    for name in ("call", "call_tool", "restart", "load"):
        assert code_of_error_in_other_loop(host, USES[name]) == OTHER_LOOP, name
    asyncio.run(host.close())


@pytest.mark.parametrize("dialect", ["morphir", None])
async def test_an_open_connection_cannot_be_opened_again(dialect: str | None) -> None:
    source = entry("a")["source"]
    connection = exthost.connect([source["command"], *source["args"]], dialect=dialect)
    for n in range(2):  # after it was closed, it can be opened again
        async with connection as extension:
            with pytest.raises(errors.UsageError) as caught:
                await connection.__aenter__()
            assert caught.value.code == "X1311"  # it was opened twice
            assert await extension.call("echo", n) == n


@pytest.mark.parametrize("name", ["call", "call_tool", "call_tool by another name"])
def test_a_loop_may_continue_on_another_thread(name: str) -> None:
    async def open_host() -> exthost.Host:
        return await exthost.Host.from_config(config(entry("a"))).__aenter__()

    loop = asyncio.new_event_loop()
    host = loop.run_until_complete(open_host())
    try:
        with ThreadPoolExecutor(1) as other_thread:
            call = asyncio.wait_for(USES[name](host), 60)
            other_thread.submit(loop.run_until_complete, call).result(60)
    finally:
        loop.run_until_complete(host.close())
        loop.close()
