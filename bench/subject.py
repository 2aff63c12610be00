"""The interface to exthost: the only module of the bench that uses its API.

exthost is imported when a row needs it. A row whose part of the API does not exist yet reports "not
built yet"; a part that exists and cannot be imported fails only its row.
"""

import asyncio
import importlib
import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.row import NotBuiltYet, NotHere

T = TypeVar("T")
# Users set a timeout, so the timer of a call is part of what is measured.
CALL_S = 30.0
# How long the processes of a pool may take to start, on a machine that is busy.
START_S = 30.0


class Extension(Protocol):
    """The extension that `exthost.connect` returns."""

    async def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Send a request and return the result of its reply."""

    async def restart(self) -> None:
        """Replace the process by a fresh one."""


class Host(Protocol):
    """The members of `exthost.Host` that rows use."""

    events: Any
    traffic: Any

    def __getitem__(self, name: str) -> Any:
        """Return the extension of this name."""

    def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        hooks: bool = True,
    ) -> Awaitable[Any]:
        """Call a tool by its registered name, between its hooks."""


class SyncExtension(Protocol):
    """An extension of the blocking API."""

    def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Send a request and return the result of its reply."""


def public(name: str) -> Any:
    """Return a name of the public API of exthost."""
    exthost = importlib.import_module("exthost")
    if name not in dir(exthost):
        raise NotBuiltYet(f"exthost.{name}")
    return getattr(exthost, name)


def failures() -> tuple[type[Exception], ...]:
    """Return the base class of the errors of a call."""
    return (importlib.import_module("exthost.errors").ExthostError,)


def connect(argv: tuple[str, ...], **options: Any) -> AbstractAsyncContextManager[Extension]:
    """Connect to one extension without files, in morphir unless `dialect` is set."""
    opened: AbstractAsyncContextManager[Extension] = public("connect")(
        list(argv), **{"dialect": "morphir", **options}
    )
    return opened


def connect_takes(option: str) -> bool:
    """Return whether `connect` has this keyword."""
    parameters = inspect.signature(public("connect")).parameters
    return option in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )


def entry(name: str, argv: tuple[str, ...], **options: Any) -> dict[str, Any]:
    """Return an extension as an entry of a config."""
    source = {"type": "process", "command": argv[0], "args": list(argv[1:])}
    return {"name": name, "source": source, **options}


def host(*entries: dict[str, Any], **sections: Any) -> AbstractAsyncContextManager[Host]:
    """Return a host with these extensions, and with other sections of the config."""
    opened: AbstractAsyncContextManager[Host] = public("Host").from_config(
        {"extensions": list(entries), **sections}
    )
    return opened


def host_of(config: Path) -> AbstractAsyncContextManager[Host]:
    """Return a host with the extensions of a config file."""
    opened: AbstractAsyncContextManager[Host] = public("Host").from_config(config)
    return opened


def make_certificates(folder: Path) -> None:
    """Make the certificates of a cluster in a new folder."""
    importlib.import_module("exthost.cluster.certificates").make_certificates(folder)


def sync_host(argv: tuple[str, ...]) -> AbstractContextManager[Any]:
    """Return a blocking host with one extension, `x`."""
    opened: AbstractContextManager[Any] = public("SyncHost").from_config(
        {"extensions": [entry("x", argv)]}
    )
    return opened


def registered(extension: str, tool: str = "echo") -> str:
    """Return the name under which a host lists a tool of an extension."""
    return f"ext_{extension}_{tool}"


def raw(result: Any) -> Any:
    """Return the result of a tool as the extension sent it."""
    return getattr(result, "raw", result)


async def processes(extension: Any, count: int) -> None:
    """Wait until an extension has `count` processes."""
    async with asyncio.timeout(START_S):
        while extension.stats.processes < count:  # noqa: ASYNC110 - its API has no such event
            await asyncio.sleep(0.01)


async def replaced_processes_ended(extension: Any) -> None:
    """Wait until the processes that a restart has replaced are gone."""
    async with asyncio.timeout(START_S):
        while extension._supervisor.processes.dismissed_count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def template_modules(extension: Any) -> int:
    """Return how many modules the template has imported from which the last process of an extension
    was forked; 0 without a template."""
    modules: int = extension.internals.describe_start_method().get("modules", 0)
    return modules


def uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the loop factory of uvloop, if it is installed."""
    if importlib.util.find_spec("uvloop") is None:
        raise NotHere("uvloop is not installed")
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
        "uvloop"
    ).new_event_loop
    return factory


def run(work: Coroutine[Any, Any, T], *, uvloop: bool = False) -> T:
    """Run a coroutine on the chosen event loop."""
    try:
        factory = uvloop_factory() if uvloop else None
    except NotHere:
        work.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)
