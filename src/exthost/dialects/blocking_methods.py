"""Blocking forms of asynchronous methods, with the same parameters.

`forward(Documents.open)` in a class that has a `target` and a `loop_thread` is a method that runs
`target.open` on the loop's thread and returns its result. A type checker sees the parameters of the
original, so no signature is written a second time.

A dialect's package writes the blocking forms of its facets with this, as subclasses of `SyncFacet`.
The loop's thread itself is in `exthost.sync`.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from exthost.dialects.caller import Stream

__all__ = [
    "Forwarded",
    "LoopRunner",
    "SyncFacet",
    "SyncStream",
    "forward",
    "forward_plain",
    "forward_stream",
]

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class LoopRunner(Protocol):
    """A thread that runs an event loop, as other threads use it."""

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine on the loop's thread and return its result."""

    def run_plain(self, function: Callable[[], T]) -> T:
        """Call a plain function on the loop's thread and return its result."""


class _Holder(Protocol):
    """What a class with forwarded methods has."""

    @property
    def target(self) -> Any: ...
    @property
    def loop_thread(self) -> LoopRunner: ...


class Forwarded(Protocol, Generic[P, T_co]):
    """A method with the parameters of another one. At run time it is a plain function."""

    @overload
    def __get__(self, holder: None, owner: type) -> Callable[Concatenate[Any, P], T_co]: ...
    @overload
    def __get__(self, holder: object, owner: type | None = None) -> Callable[P, T_co]: ...


def forward(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Forwarded[P, T]:
    """Return the blocking form of a method that returns a coroutine."""

    @wraps(method)
    def call(self: _Holder, *args: P.args, **kwargs: P.kwargs) -> T:
        target = self.target
        return self.loop_thread.run(lambda: method(target, *args, **kwargs))

    return cast(Forwarded[P, T], call)


def forward_plain(method: Callable[Concatenate[Any, P], T]) -> Forwarded[P, T]:
    """Return the form of a plain method that runs on the loop's thread."""

    @wraps(method)
    def call(self: _Holder, *args: P.args, **kwargs: P.kwargs) -> T:
        target = self.target
        return self.loop_thread.run_plain(lambda: method(target, *args, **kwargs))

    return cast(Forwarded[P, T], call)


def forward_stream(
    method: Callable[Concatenate[Any, P], AbstractAsyncContextManager[Stream]],
) -> "Forwarded[P, SyncStream]":
    """Return the blocking form of a method that returns a stream of events."""

    @wraps(method)
    def call(self: _Holder, *args: P.args, **kwargs: P.kwargs) -> "SyncStream":
        target, loop_thread = self.target, self.loop_thread
        opened = loop_thread.run_plain(lambda: method(target, *args, **kwargs))
        return SyncStream(opened, loop_thread)

    return cast("Forwarded[P, SyncStream]", call)


class SyncFacet:
    """The base of blocking facets. `target` is the facet itself."""

    def __init__(self, target: Any, loop_thread: LoopRunner) -> None:
        self.target = target
        self.loop_thread = loop_thread

    def __repr__(self) -> str:
        return f"<blocking {type(self.target).__name__}>"


class SyncStream:
    """A stream of events: `with ext.stream(…) as events: for event in events: …`."""

    def __init__(
        self, stream: AbstractAsyncContextManager[Stream], loop_thread: LoopRunner
    ) -> None:
        self._context = stream
        self._stream: Stream | None = None
        self._loop_thread = loop_thread

    def __enter__(self) -> Self:
        self._stream = self._loop_thread.run(self._enter)
        return self

    async def _enter(self) -> Stream:
        return await self._context.__aenter__()

    def __exit__(self, *error: Any) -> None:
        async def leave() -> None:
            await self._context.__aexit__(*error)

        self._loop_thread.run(leave)

    def __iter__(self) -> Iterator[Any]:
        events = self._entered.__aiter__()

        async def read() -> Any:
            return await events.__anext__()

        while True:
            try:
                event = self._loop_thread.run(read)
            except StopAsyncIteration:
                return
            yield event

    @property
    def result(self) -> Any:
        """The result, once the events have ended."""
        return self._entered.result

    @property
    def _entered(self) -> Stream:
        # A stream that was never entered has the result and the error of its own object.
        return self._stream if self._stream is not None else cast(Stream, self._context)
