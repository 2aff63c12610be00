"""The door to exthost: the only file here that knows its API.

It is imported by name, when a row needs it: until a piece exists its rows say "not built yet",
and what is there but does not import is a failure of the row, not of the table.
"""

import asyncio
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from bench.row import NotBuiltYet, NotHere

T = TypeVar("T")
# As a user would write it: the timer of a call is part of what is measured.
CALL_S = 30.0


class Extension(Protocol):
    """What `exthost.connect` gives."""

    async def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Ask, and wait for the answer."""


class SyncExtension(Protocol):
    """What the blocking face gives."""

    def call(self, method: str, params: Any = None, *, timeout: float | None = None) -> Any:
        """Ask, and wait for the answer."""


def public(name: str) -> Any:
    """A name of exthost's public API."""
    exthost = importlib.import_module("exthost")
    if name not in dir(exthost):
        raise NotBuiltYet(f"exthost.{name}")
    return getattr(exthost, name)


def failures() -> tuple[type[Exception], ...]:
    """What a call may fail with."""
    return (importlib.import_module("exthost.errors").ExthostError,)


def connect(argv: tuple[str, ...], **options: Any) -> AbstractAsyncContextManager[Extension]:
    """One extension, no files; morphir unless `dialect` says otherwise."""
    opened: AbstractAsyncContextManager[Extension] = public("connect")(
        list(argv), **{"dialect": "morphir", **options}
    )
    return opened


def connect_takes(option: str) -> bool:
    """Whether `connect` knows this keyword already."""
    parameters = inspect.signature(public("connect")).parameters
    return option in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )


def sync_host(argv: tuple[str, ...]) -> AbstractContextManager[Any]:
    """A blocking host with one extension, `x`."""
    source = {"type": "process", "command": argv[0], "args": list(argv[1:])}
    host: AbstractContextManager[Any] = public("SyncHost").from_config(
        {"extensions": [{"name": "x", "source": source}]}
    )
    return host


def uvloop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop, where it is installed."""
    if importlib.util.find_spec("uvloop") is None:
        raise NotHere("uvloop is not installed")
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
        "uvloop"
    ).new_event_loop
    return factory


def run(work: Coroutine[Any, Any, T], *, uvloop: bool = False) -> T:
    """`asyncio.run` on the wanted loop."""
    try:
        factory = uvloop_factory() if uvloop else None
    except NotHere:
        work.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)
