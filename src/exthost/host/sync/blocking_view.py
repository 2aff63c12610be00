"""Wraps any asynchronous object for programs without an event loop.

This module is used for the facets (the objects with the methods that only extensions of one dialect
have) of dialects that define no blocking form of them. The built-in dialects have typed blocking
forms instead (see `dialects.blocking_methods`). `blocking_view` returns:

- for a method, a function that runs it on the thread of the event loop and waits for its result;
- for an object with asynchronous methods, a `BlockingView`, which is used with `with` and `for`
  instead of `async with` and `async for`;
- for any other value, the value itself.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from exthost.host.sync.loop_thread import LoopThread


def blocking_view(value: Any, loop_thread: LoopThread) -> Any:
    """Return the value, wrapped if it is a method or has asynchronous methods. The coroutines of
    the value run on the loop of `loop_thread`."""
    if inspect.ismethod(value):
        return _blocking_method(value, loop_thread)
    cls: Any = type(value)
    if _is_asynchronous(cls):
        return BlockingView(value, loop_thread)
    return value


@cache
def _is_asynchronous(cls: Any) -> bool:
    """Return whether a class has asynchronous methods."""
    return any(
        inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
        for member in (inspect.getattr_static(cls, name) for name in dir(cls))
    )


def _blocking_method(method: Callable[..., Any], loop_thread: LoopThread) -> Callable[..., Any]:
    """Return a function that runs the method on the loop's thread and wraps its result."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        async def run() -> Any:
            value = method(*arguments, **keywords)
            return await value if inspect.isawaitable(value) else value

        return blocking_view(loop_thread.run(run), loop_thread)

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call


class BlockingView:
    """A wrapper of one asynchronous object, with the same attributes."""

    __slots__ = ("_loop_thread", "_target")

    def __init__(self, target: Any, loop_thread: LoopThread) -> None:
        self._target = target
        self._loop_thread = loop_thread

    def __getattr__(self, name: str) -> Any:
        return blocking_view(getattr(self._target, name), self._loop_thread)

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def __repr__(self) -> str:
        return f"<blocking view of {self._target!r}>"

    def __enter__(self) -> Any:
        entered = self._loop_thread.run(self._target.__aenter__)
        return self if entered is self._target else blocking_view(entered, self._loop_thread)

    def __exit__(self, *error: object) -> Any:
        return self._loop_thread.run(lambda: self._target.__aexit__(*error))

    def __iter__(self) -> Iterator[Any]:
        if not hasattr(self._target, "__aiter__"):
            yield from self._target
            return
        events = self._target.__aiter__()
        while True:
            try:
                event = self._loop_thread.run(events.__anext__)
            except StopAsyncIteration:
                return
            yield event

    def __getitem__(self, key: Any) -> Any:
        return self._target[key]

    def __contains__(self, key: object) -> bool:
        return key in self._target

    def __len__(self) -> int:
        return len(self._target)
