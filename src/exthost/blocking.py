"""What lives on a loop, for threads that have none: the same names, and each call waits.

Knows nothing of hosts and extensions. A `Runner` is a loop in a thread of its own; `face` turns a
value that came from it into what a blocking program can use:

- a method runs on the loop's thread, and its result, awaited where that is needed, comes back;
- an object that has asynchronous methods (a facet, a stream, a chain of hooks) is shown as a
  `Blocking` one: `async with` becomes `with`, `async for` becomes `for`;
- anything else is a plain value and comes back as it is.

So no method of the asynchronous side has to be written a second time.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from exthost.errors import UsageError
from exthost.session.failures import used_after_fork

__all__ = ["LOOP_SECONDS", "Blocking", "Mirrored", "Runner", "face", "mirror", "not_open"]

T = TypeVar("T")

# The loop ends what it was told to end; this is for a loop that is itself stuck.
LOOP_SECONDS = 5.0


class Runner:
    """A loop in a thread of its own, and how others have it do something."""

    def __init__(self, special: Mapping[type, Callable[[Any, "Runner"], Any]]) -> None:
        """`special`: types that have a blocking face of their own."""
        self.special = special
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._turn, name="exthost loop", daemon=True)
        self._thread.start()

    def _turn(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def __call__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Have the loop's thread run this, and wait for it."""
        if threading.current_thread() is self._thread:
            raise UsageError("X1314", "a blocking call from the host's own loop would never return")

        if self.copied:
            raise used_after_fork()
        if self.loop.is_closed():
            raise not_open()

        async def run() -> T:
            return await make()

        future = asyncio.run_coroutine_threadsafe(run(), self.loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C above all: who no longer waits no longer wants it
            future.cancel()
            raise

    @property
    def copied(self) -> bool:
        """Whether this is a copy of the process whose thread it is: here, no thread turns it."""
        return os.getpid() != self._pid

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(LOOP_SECONDS)
        self.loop.close()


def not_open() -> UsageError:
    """What is told who asks a host that is not there yet, or no more."""
    return UsageError("X1315", "this host is not open", help="use it with `with`")


def face(value: Any, run: Runner) -> Any:
    """A value of the loop's, as a blocking program can use it."""
    kind: Any = type(value)
    make = run.special.get(kind)
    if make is not None:
        return make(value, run)
    if kind in (list, tuple) and value and type(value[0]) in run.special:
        return kind(face(one, run) for one in value)
    if inspect.ismethod(value):
        return _method(value, run)
    if _is_asynchronous(kind):
        return Blocking(value, run)
    return value


@cache
def _is_asynchronous(kind: Any) -> bool:
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in (inspect.getattr_static(kind, name) for name in dir(kind))
    )


def _method(method: Callable[..., Any], run: Runner) -> Callable[..., Any]:
    def wait(*arguments: Any, **named: Any) -> Any:
        async def call() -> Any:
            value = method(*arguments, **named)
            return await value if inspect.isawaitable(value) else value

        return face(run(call), run)

    wait.__name__ = method.__name__
    wait.__doc__ = method.__doc__
    return wait


class Blocking:
    """One object of the loop's, with its own names."""

    __slots__ = ("_run", "_target")

    def __init__(self, target: Any, run: Runner) -> None:
        self._target = target
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return face(getattr(self._target, name), self._run)

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"

    def __enter__(self) -> Any:
        entered = self._run(self._target.__aenter__)
        return self if entered is self._target else face(entered, self._run)

    def __exit__(self, *error: object) -> Any:
        return self._run(lambda: self._target.__aexit__(*error))

    def __iter__(self) -> Iterator[Any]:
        if not hasattr(self._target, "__aiter__"):
            yield from self._target
            return
        events = self._target.__aiter__()
        while True:
            try:
                event = self._run(events.__anext__)
            except StopAsyncIteration:
                return
            yield event

    def __getitem__(self, key: Any) -> Any:
        return self._target[key]

    def __contains__(self, key: object) -> bool:
        return key in self._target

    def __len__(self) -> int:
        return len(self._target)


class Mirrored:
    """An attribute of what its holder stands for. Not `__getattr__`: a class that has one pays
    for it at every attribute, on the way of every call."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, holder: Any, owner: type) -> Any:
        if holder is None:
            return self
        return face(getattr(holder.target, self._name), holder.runner)


def mirror(holder: type, shown: type, *more: str) -> None:
    """Give `holder`, which has `target` and `runner`, each public name of `shown` that it lacks,
    and `more`, which `shown` has on its instances alone."""
    for name in (*dir(shown), *more):
        if not name.startswith("_") and not hasattr(holder, name):
            setattr(holder, name, Mirrored(name))
