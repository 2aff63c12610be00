"""Makes blocking methods from asynchronous methods, with the same parameters.

    class SyncDocuments(SyncFacet):
        open = forward(Documents.open)       # async def open(self, name: str) -> Document

    document = sync_documents.open("a")      # blocks, and returns the Document

The new method runs the asynchronous method of the object `_target` on the event loop's thread,
blocks, and returns the result. Its class must have the attributes `_target` and `_loop_thread`.
Type checkers see the parameters of the original, so no signature is written a second time.

A facet is an attribute that only extensions of one dialect have, such as `ext.resources`. Each
dialect's package defines the blocking forms of its facets with these functions, as subclasses of
`SyncFacet`. The class of the loop's thread is in `exthost.host.sync`.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from exthost.dialects.caller import Stream

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


# P are the parameters of the original method without `self`, and T is its result.


class LoopRunner(Protocol):
    """The interface of a thread that runs an event loop, for calls from other threads."""

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that `make` returns on the loop's thread, and return its result."""

    def run_plain(self, function: Callable[[], T]) -> T:
        """Call a plain function on the loop's thread and return its result."""


class _Holder(Protocol):
    """The attributes that a class with forwarded methods must have."""

    @property
    def _target(self) -> Any: ...
    @property
    def _loop_thread(self) -> LoopRunner: ...


class Forwarded(Protocol, Generic[P, T_co]):
    """The type of a forwarded method, for type checkers. At run time it is a plain function."""

    @overload
    def __get__(self, holder: None, owner: type) -> Callable[Concatenate[Any, P], T_co]: ...
    @overload
    def __get__(self, holder: object, owner: type | None = None) -> Callable[P, T_co]: ...


def parameters_of(
    method: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., T]], Forwarded[P, T]]:
    """Return a decorator for a method that passes its arguments on to `method`: it declares the
    parameters of `method` to type checkers and to `inspect.signature`."""

    def declare(function: Callable[..., T]) -> Forwarded[P, T]:
        function.__wrapped__ = method  # type: ignore[attr-defined]
        return cast(Forwarded[P, T], function)

    return declare


def forward(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Forwarded[P, T]:
    """Return the blocking form of an asynchronous method."""

    @wraps(method)
    def call(self: _Holder, *args: P.args, **kwargs: P.kwargs) -> T:
        target = self._target
        return self._loop_thread.run(lambda: method(target, *args, **kwargs))

    return cast(Forwarded[P, T], call)


def forward_plain(method: Callable[Concatenate[Any, P], T]) -> Forwarded[P, T]:
    """Return a method that runs a synchronous method on the loop's thread."""

    @wraps(method)
    def call(self: _Holder, *args: P.args, **kwargs: P.kwargs) -> T:
        target = self._target
        return self._loop_thread.run_plain(lambda: method(target, *args, **kwargs))

    return cast(Forwarded[P, T], call)


def forward_stream(
    method: Callable[Concatenate[Any, P], AbstractAsyncContextManager[Stream]],
) -> "Forwarded[P, SyncStream]":
    """Return the blocking form of a method that returns a stream of events."""

    @wraps(method)
    def call(self: _Holder, *args: P.args, **kwargs: P.kwargs) -> "SyncStream":
        target, loop_thread = self._target, self._loop_thread
        stream = loop_thread.run_plain(lambda: method(target, *args, **kwargs))
        return SyncStream(stream, loop_thread)

    return cast("Forwarded[P, SyncStream]", call)


class SyncFacet:
    """The base class of blocking facets. `_target` is the asynchronous facet."""

    def __init__(self, target: Any, loop_thread: LoopRunner) -> None:
        self._target = target
        self._loop_thread = loop_thread

    def __repr__(self) -> str:
        return f"<blocking {type(self._target).__name__}>"


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
        """The result of the call. It is set after the last event."""
        return self._entered.result

    @property
    def _entered(self) -> Stream:
        # Without `with` there is no entered stream yet. Then the stream object that the method
        # returned gives the result, or raises the right error.
        return self._stream if self._stream is not None else cast(Stream, self._context)
