"""Handles the notifications of a child (the extension's process): log lines, events, progress
reports, changed tools. A notification is a message without a reply.

The dialect (protocol) decodes a notification to a meaning (`dialects/meanings.py`); this module
passes it on to the log, the event bus or the caller whose call made progress. Events of streams are
handled in `stream_table.py`.
"""

import logging
from collections.abc import Callable

from exthost.dialects.meanings import DialectEvent, Emitted, Log, OfferStale, Progress, Unusable
from exthost.events import Bus, ExtensionEvent, Noticed, Progressed
from exthost.session.call import Call
from exthost.session.diagnostics import Diagnostics
from exthost.session.effects import Notified

_log = logging.getLogger("exthost.session")


class Notifications:
    """Passes on the notifications of one session.

    `extend_deadline` gives a call that reports progress more time, in dialects that allow this.
    `on_stale_offer` requests the tools again, because they have changed. (The offer is what an
    extension announces: its tools, hooks and capabilities.)
    """

    __slots__ = ("_bus", "_diagnostics", "_extend_deadline", "_on_stale_offer", "_wire_id")

    def __init__(
        self,
        diagnostics: Diagnostics,
        bus: Bus,
        wire_id: str,
        extend_deadline: Callable[[Call], None],
        on_stale_offer: Callable[[], None],
    ) -> None:
        self._diagnostics = diagnostics
        self._bus = bus
        self._wire_id = wire_id  # the id that the extension uses for itself in its messages
        self._extend_deadline = extend_deadline
        self._on_stale_offer = on_stale_offer

    def handle(self, notified: Notified) -> None:
        """Pass on one notification."""
        notification, meaning, call = notified
        match meaning:
            case Log(level, text):
                self._diagnostics.log("log", level, text)
            case Emitted(emitter, kind, version, payload):
                if emitter != self._wire_id:
                    self._diagnostics.count_and_log("events in the name of another extension")
                else:
                    self._publish(kind, version, payload)
            case DialectEvent(kind, payload):
                self._publish(kind, 1, payload)
            case Unusable(reason):
                self._diagnostics.count_and_log(reason)
            case Progress():
                self._handle_progress(meaning, call)
            case OfferStale():
                self._on_stale_offer()
        if Noticed in self._bus.listeners:
            hide = self._diagnostics.hide_in_content
            method, params = hide(notification.method), hide(notification.params)
            self._bus.publish(Noticed(self._diagnostics.extension, method, params))

    def _publish(self, kind: str, version: int, payload: object) -> None:
        """Publish an event under the extension's id in this host, which may differ from the id that
        it uses in its messages."""
        if ExtensionEvent in self._bus.listeners:
            hide = self._diagnostics.hide_in_content
            event = ExtensionEvent(self._diagnostics.extension, hide(kind), version, hide(payload))
            self._bus.publish(event)

    def _handle_progress(self, progress: Progress, call: Call | None) -> None:
        if call is None:
            self._diagnostics.count("progress of no call")
            return
        self._extend_deadline(call)
        if Progressed in self._bus.listeners:
            self._bus.publish(
                Progressed(
                    self._diagnostics.extension,
                    call.method,
                    progress.progress,
                    progress.total,
                    self._diagnostics.hide_secrets(progress.message),
                    call.context,
                )
            )
        if call.on_progress is not None and not call.ended:
            try:
                call.on_progress(progress)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # the caller's callback must not harm the session
                _log.exception("the progress callback of %s failed", call.method)
