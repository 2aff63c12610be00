"""Keeps the events that observers miss while they start, and delivers them afterwards, in order.

An observer is an extension with a hook whose reply changes nothing (`Spec.observer_hooks`). Nothing
waits for it: while it starts, or starts again after a crash, its events wait in a queue. The queue
is bounded by the number of events and by their size. If it is full, the oldest event is dropped,
which is counted and reported as a failed hook.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from exthost.errors import ExthostError, Refused, UsageError
from exthost.host.hook_policy import HookFailure

if TYPE_CHECKING:
    from exthost.model.spec import Spec

_log = logging.getLogger("exthost.hooks")

# The most events that wait for one observer, and how large they are together, as JSON. A program
# that starts within seconds misses fewer, and a host with many observers stays small.
MAX_EVENTS = 256
MAX_BYTES = 16 * 2**20

# The states in which an observer will get ready by itself.
_LATE_STATES = ("starting", "backoff")


class Observer(Protocol):
    """An extension, as it is used here."""

    @property
    def id(self) -> str: ...
    @property
    def spec(self) -> Spec: ...
    @property
    def state(self) -> str: ...

    async def start(self) -> object: ...
    async def run_hook(
        self, name: str, event: Mapping[str, Any], *, timeout: float | None = None
    ) -> object: ...


class _Missed(NamedTuple):
    hook: str
    event: dict[str, Any]
    size: int
    timeout: float | None


class _Queue:
    """The events of one observer. `task` delivers them, and ends when there are no more."""

    __slots__ = ("dropped", "events", "size", "task")

    def __init__(self) -> None:
        self.events: deque[_Missed] = deque()
        self.size = 0
        self.dropped = 0
        self.task: asyncio.Task[None] | None = None

    def is_full(self) -> bool:
        return len(self.events) > MAX_EVENTS or (self.size > MAX_BYTES and len(self.events) > 1)

    def pop(self) -> _Missed:
        missed = self.events.popleft()
        self.size -= missed.size
        return missed


class ObserverQueues:
    """The queues of the observers of one host. `report` is called with each event that an observer
    does not get."""

    def __init__(self, report: Callable[[HookFailure, Mapping[str, Any]], None]) -> None:
        self._report = report
        self._queues: dict[Observer, _Queue] = {}

    def add_if_late(
        self, observer: Observer, hook: str, event: Mapping[str, Any], timeout: float | None
    ) -> bool:
        """Let the event wait, and return True, if the extension only observes it and is not ready
        or has earlier events to come. Otherwise return False: the hook is to be called now."""
        if hook not in observer.spec.observer_hooks:
            return False
        queue = self._queues.get(observer)
        if queue is None:
            if observer.state not in _LATE_STATES:
                return False
            queue = self._queues[observer] = _Queue()
            queue.task = asyncio.get_running_loop().create_task(self._deliver(observer, queue))
        missed = _Missed(hook, *_copy(event), timeout)
        queue.events.append(missed)
        queue.size += missed.size
        while queue.is_full():
            self._drop(observer, queue)
        return True

    async def close(self) -> None:
        """Stop delivering. Events that still wait are lost, which is logged."""
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _drop(self, observer: Observer, queue: _Queue) -> None:
        missed = queue.pop()
        queue.dropped += 1
        error = Refused(
            "X0355",
            f"it is {observer.state}, and {len(queue.events)} later events wait for it already",
            extension=observer.id,
            help="it observes calls again when it is ready; look at why it starts so slowly",
        )
        self._report(HookFailure(observer.id, missed.hook, error), missed.event)

    async def _deliver(self, observer: Observer, queue: _Queue) -> None:
        delivered = 0
        try:
            while queue.events:
                if observer.state == "starting":
                    try:
                        await observer.start()
                    except ExthostError:
                        pass  # the hook raises the error, too
                missed = queue.pop()
                try:
                    await observer.run_hook(missed.hook, missed.event, timeout=missed.timeout)
                    delivered += 1
                except ExthostError as error:
                    self._report(HookFailure(observer.id, missed.hook, error), missed.event)
        finally:
            del self._queues[observer]
            lost = queue.dropped + len(queue.events)
            level = logging.WARNING if lost else logging.DEBUG
            _log.log(
                level,
                "[%s] it got %d events late, after it was ready; %d are lost",
                observer.id,
                delivered,
                lost,
            )


def _copy(event: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the event as it is now, since its caller may change the result, and its size as JSON.
    The context is not copied: it may have values that JSON does not have."""
    copied, size = dict(event), 0
    for field, value in event.items():
        if field == "context":
            continue
        from exthost.wire import jsontext

        try:
            data = jsontext.encode(value)
        except UsageError:  # the hook will fail with this error
            continue
        copied[field] = jsontext.decode(data)
        size += len(data)
    return copied, size
