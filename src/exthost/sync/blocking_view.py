"""A blocking view of any object of the loop's thread: the facets of dialects that others bring.

`blocking_view` turns a value into what a program without a loop can use:

- a method runs on the loop's thread, and the caller waits for its result;
- an object with asynchronous methods becomes a `BlockingView`: `async with` becomes `with`, and
  `async for` becomes `for`;
- anything else is a plain value and is returned unchanged.

What exthost itself has is typed instead: see `forwarded`.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from exthost.sync.loop_thread import LoopThread

__all__ = ["BlockingView", "blocking_view"]


def blocking_view(value: Any, loop_thread: LoopThread) -> Any:
    """Return the value as a program without a loop can use it."""
    if inspect.ismethod(value):
        return _blocking_method(value, loop_thread)
    kind: Any = type(value)
    if _is_asynchronous(kind):
        return BlockingView(value, loop_thread)
    return value


@cache
def _is_asynchronous(kind: Any) -> bool:
    return any(
        inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)
        for member in (inspect.getattr_static(kind, name) for name in dir(kind))
    )


def _blocking_method(method: Callable[..., Any], loop_thread: LoopThread) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        async def run() -> Any:
            value = method(*arguments, **named)
            return await value if inspect.isawaitable(value) else value

        return blocking_view(loop_thread.run(run), loop_thread)

    call.__name__ = method.__name__
    call.__doc__ = method.__doc__
    return call


class BlockingView:
    """One object of the loop's thread, under its own names."""

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
