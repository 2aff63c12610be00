"""Queues the events of observers that are starting, and delivers them afterwards, in order.

A hook is a function of an extension that the host calls with an event, such as the result of a tool
call. An observer is an extension with a hook whose reply changes nothing (`Spec.observer_hooks`),
as one that writes a log has. A tool call does not wait for it: while the observer starts, or starts
again after a crash, its events wait in a queue. The queue is bounded by the number of events and by
their size. If it is full, the oldest event is dropped, which is counted and reported as a failed
hook.
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

# The most events that wait for one observer, and the largest size of all of them together, as JSON.
# A program that starts within seconds misses fewer, and a host with many observers stays small.
MAX_EVENTS = 256
MAX_BYTES = 16 * 2**20

# The states in which an observer will get ready by itself; in "backoff" it waits for a restart.
_GETTING_READY_STATES = ("starting", "backoff")


class Observer(Protocol):
    """The attributes and methods of an extension that are used here."""

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


class _QueuedEvent(NamedTuple):
    """A call of the hook `hook` that waits. `size` is the size of the event in bytes, as JSON."""

    hook: str
    event: dict[str, Any]
    size: int
    timeout: float | None


class _Queue:
    """The events that wait for one observer. `task` delivers them, and ends when there are no more.
    `size` is the sum of their sizes, and `dropped` the number of those that were dropped."""

    __slots__ = ("dropped", "events", "size", "task")

    def __init__(self) -> None:
        self.events: deque[_QueuedEvent] = deque()
        self.size = 0
        self.dropped = 0
        self.task: asyncio.Task[None] | None = None

    def is_over_limit(self) -> bool:
        # A single event is kept whatever its size.
        return len(self.events) > MAX_EVENTS or (self.size > MAX_BYTES and len(self.events) > 1)

    def pop(self) -> _QueuedEvent:
        oldest = self.events.popleft()
        self.size -= oldest.size
        return oldest


class ObserverQueues:
    """The queues of the observers of one host. `report` is called with each event that an observer
    does not get."""

    def __init__(self, report: Callable[[HookFailure, Mapping[str, Any]], None]) -> None:
        self._report = report
        self._queues: dict[Observer, _Queue] = {}

    def queue_if_not_ready(
        self, observer: Observer, hook: str, event: Mapping[str, Any], timeout: float | None
    ) -> bool:
        """Queue the event and return True if the extension only observes it, and is starting or
        still has earlier events in its queue. Otherwise return False: the hook is to be called
        now."""
        if hook not in observer.spec.observer_hooks:
            return False
        queue = self._queues.get(observer)
        if queue is None:
            if observer.state not in _GETTING_READY_STATES:
                return False
            queue = self._queues[observer] = _Queue()
            queue.task = asyncio.get_running_loop().create_task(self._deliver(observer, queue))
        queued = _QueuedEvent(hook, *_copy(event), timeout)
        queue.events.append(queued)
        queue.size += queued.size
        while queue.is_over_limit():
            self._drop_oldest(observer, queue)
        return True

    async def close(self) -> None:
        """Stop delivering. Events that still wait are lost, which is logged."""
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _drop_oldest(self, observer: Observer, queue: _Queue) -> None:
        """Drop the oldest event of a full queue, and report that the hook did not get it."""
        dropped = queue.pop()
        queue.dropped += 1
        error = Refused(
            "X0355",
            f"it is {observer.state}, and {len(queue.events)} later events wait for it already",
            extension=observer.id,
            help="it observes calls again when it is ready; look at why it starts so slowly",
        )
        self._report(HookFailure(observer.id, dropped.hook, error), dropped.event)

    async def _deliver(self, observer: Observer, queue: _Queue) -> None:
        """Call the hook with each queued event, until the queue is empty."""
        delivered = 0
        try:
            while queue.events:
                # Wait for the start here: the timeout of the hook is for its call alone.
                if observer.state == "starting":
                    try:
                        await observer.start()
                    except ExthostError:
                        pass  # the hook raises the error, too
                queued = queue.pop()
                try:
                    await observer.run_hook(queued.hook, queued.event, timeout=queued.timeout)
                    delivered += 1
                except ExthostError as error:
                    self._report(HookFailure(observer.id, queued.hook, error), queued.event)
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
    """Return a copy of the event, and its size as JSON. It is copied because the caller of the tool
    may change the result while the event waits. The context is not copied: it may have values that
    JSON does not have."""
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
