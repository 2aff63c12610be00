"""Distributes the traffic of extensions (messages, stderr and life-cycle events) to listeners.

    stop = traffic.subscribe(print, "text")        # prints each record of the extension `text`

`Traffic` knows every session of each extension, so a listener gets the messages of running sessions
and of later ones. Messages are recorded only while their extension has a listener. The same holds
for stderr and life-cycle events, which come from the event bus.

Listeners are called on the event loop's thread, in the order of the messages. If a listener raises,
the error is logged and the listener stays subscribed. A slow listener uses a `TraceBuffer`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from time import time
from typing import TYPE_CHECKING, Any, TypeAlias

from exthost.events import Dropped, Exited, LogLine, Spawned, StateChanged

if TYPE_CHECKING:
    from exthost.events import Bus
    from exthost.session.session import Session
    from exthost.session.trace.record import TraceRecord
    from exthost.session.trace.secrets import SecretFilter

_log = logging.getLogger("exthost.session.trace")

# How many seconds a call of `subscribe` on another thread waits for the event loop.
_LOOP_SECONDS = 5.0

TraceListener: TypeAlias = "Callable[[TraceRecord], None]"


class Traffic:
    """The traffic of the extensions of one host."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.dialects: dict[str, str] = {}  # the dialect of each extension, by its id
        self._listeners: tuple[tuple[str, TraceListener], ...] = ()
        # The running sessions. The key is the future that is done when the session ends, and whose
        # callback removes the entry.
        self._sessions: dict[asyncio.Future[None], _FollowedSession] = {}
        # Returns the values to be hidden, for each extension by its id.
        self._secrets: dict[str, Callable[[], Iterable[str]]] = {}
        self._filters: dict[str, SecretFilter] = {}  # of extensions without a session, by id
        self._call_numbers: dict[str, count[int]] = {}
        self._unsubscribe_events: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        # Records of frames that other threads sent, until the loop publishes them.
        self._from_threads: deque[TraceRecord] = deque()

    def subscribe(self, listener: TraceListener, extension: str = "") -> Callable[[], None]:
        """Call `listener` with each record of this extension; "" is every extension.

        Thread-safe: the calls that the thread makes after this returned are recorded.

        Return a function that ends the subscription.
        """
        entry = (extension, listener)

        def add() -> None:
            self._listeners = (*self._listeners, entry)
            self._update()

        def remove() -> None:
            remaining = list(self._listeners)
            if entry in remaining:
                remaining.remove(entry)
            self._listeners = tuple(remaining)
            self._update()

        self._run_and_wait(add)
        return lambda: self._run_and_wait(remove)

    def is_traced(self, extension: str) -> bool:
        """Return whether this extension has a listener."""
        return any(name in ("", extension) for name, _ in self._listeners)

    def add_extension(
        self, extension: str, dialect: str, secrets: Callable[[], Iterable[str]]
    ) -> None:
        """Add an extension before its first start, or replace it by a new one of the same id.
        `secrets` returns the values that are hidden in its records."""
        self.dialects[extension] = dialect
        self._secrets[extension] = secrets
        self._filters.pop(extension, None)

    def follow(self, session: Session) -> None:
        """Follow a new session of an extension until it ends."""
        self._loop, self._thread = session.loop, session.thread
        extension = session.diagnostics.extension
        secrets = self._secrets[extension]
        self._filters.pop(extension, None)  # the next start may have other secrets
        followed = _FollowedSession(session, secrets)
        self._sessions[session.ended] = followed
        session.ended.add_done_callback(self._sessions.pop)
        if self._listeners:
            self._start_or_stop(followed)

    def _run_and_wait(self, function: Callable[[], None]) -> None:
        """Call a function on the loop's thread, and return when it has returned."""
        is_done = threading.Event()

        def run() -> None:
            function()
            is_done.set()

        if self._loop is None or self._thread == threading.get_ident():
            run()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(run)
            is_done.wait(_LOOP_SECONDS)  # a loop that is blocked runs the function later

    # -- switching on and off ----------------------------------------------------------------

    def _update(self) -> None:
        for followed in tuple(self._sessions.values()):
            self._start_or_stop(followed)
        if self._listeners and self._unsubscribe_events is None:
            event_types: Any = (LogLine, Spawned, Exited, StateChanged, Dropped)
            self._unsubscribe_events = self._bus.subscribe(event_types, self._on_event)
        elif not self._listeners and self._unsubscribe_events is not None:
            self._unsubscribe_events()
            self._unsubscribe_events = None

    def _start_or_stop(self, followed: _FollowedSession) -> None:
        """Observe a session if its extension has a listener; otherwise end its observation."""
        session = followed.session
        extension = session.diagnostics.extension
        has_listener = self.is_traced(extension)
        if has_listener and followed.end is None:
            numbers = self._call_numbers.setdefault(extension, count(1))
            max_message = session.limits.max_message or 0
            from exthost.session.trace.session_trace import SessionTrace

            trace = SessionTrace(
                extension,
                session.lifetime.child.pid,
                session.lifetime.child.node,
                session.dialect,
                max_message,
                followed.secret_filter(),
                numbers,
                self._publish_from_any_thread,
            )
            with session.lock:
                followed.end = session.observe(trace)
        elif not has_listener and followed.end is not None:
            with session.lock:
                followed.end()
            followed.end = None

    # -- records -----------------------------------------------------------------------------

    def _publish_from_any_thread(self, record: TraceRecord) -> None:
        if self._loop is None or self._thread == threading.get_ident():
            self._publish(record)
        elif not self._loop.is_closed():
            self._from_threads.append(record)
            self._loop.call_soon_threadsafe(self._publish_from_threads)

    def _publish_from_threads(self) -> None:
        while self._from_threads:
            self._deliver(self._from_threads.popleft())

    def _publish(self, record: TraceRecord) -> None:
        """Publish a record after those that other threads have queued. Otherwise the reply to a
        request that another thread sent could be published before the request."""
        self._publish_from_threads()
        self._deliver(record)

    def _deliver(self, record: TraceRecord) -> None:
        for extension, listener in self._listeners:
            if extension in ("", record.extension):
                try:
                    listener(record)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException:
                    _log.exception("a listener for the traffic of %s failed", record.extension)

    def _on_event(self, event: Any) -> None:
        """Publish an event of the bus as a record."""
        extension = event.extension
        if not self.is_traced(extension):
            return
        secret_filter = self._find_secret_filter(extension)
        from exthost.session.trace.record import TraceRecord

        match event:
            case LogLine(source="stderr", text=text, node=node):
                text = secret_filter.text(text)
                self._publish(TraceRecord(time(), extension, "stderr", text=text, node=node))
            case Spawned(pid=pid, argv=argv, node=node):
                data = {"argv": secret_filter.data(list(argv))}
                record = TraceRecord(time(), extension, "spawned", pid=pid, data=data, node=node)
                self._publish(record)
            case Exited(pid=pid, status=status, node=node):
                record = TraceRecord(time(), extension, "exited", pid=pid, text=status, node=node)
                self._publish(record)
            case StateChanged(before=before, after=after, reason=reason):
                data = {"before": str(before), "after": str(after)}
                reason = secret_filter.text(reason)
                self._publish(TraceRecord(time(), extension, "state", data=data, text=reason))
            case Dropped(what=what, times=times):
                data = {"times": times}
                self._publish(TraceRecord(time(), extension, "dropped", data=data, text=what))

    def _find_secret_filter(self, extension: str) -> SecretFilter:
        """Return the filter that hides the secrets of an extension."""
        for followed in self._sessions.values():
            if followed.session.diagnostics.extension == extension:
                return followed.secret_filter()
        # No session runs: it is being started, or it has ended and its last output is still read.
        if extension not in self._filters:
            secrets = self._secrets.get(extension, tuple)
            from exthost.session.trace.secrets import SecretFilter

            self._filters[extension] = SecretFilter(secrets())
        return self._filters[extension]


class _FollowedSession:
    """A running session. `end` ends its observation; None if it is not observed."""

    __slots__ = ("_filter", "_secrets", "end", "session")

    def __init__(self, session: Session, secrets: Callable[[], Iterable[str]]) -> None:
        self.session = session
        self.end: Callable[[], None] | None = None
        self._secrets = secrets
        self._filter: SecretFilter | None = None

    def secret_filter(self) -> SecretFilter:
        if self._filter is None:
            from exthost.session.trace.secrets import SecretFilter

            self._filter = SecretFilter(self._secrets())
        return self._filter
