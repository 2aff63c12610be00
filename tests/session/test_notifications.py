"""Notifications of a child are passed on by their meaning, and published only for subscribers.

A notification is a message without a reply. The dialect gives it a meaning: for example a log line,
the progress of a call, or "the tools have changed" (`OfferStale`). `Notifications` does what the
meaning says.
"""

import logging
from types import SimpleNamespace
from typing import Any

from exthost.dialects.meanings import DialectEvent, Emitted, Log, OfferStale, Progress, Unusable
from exthost.events import Bus, ExtensionEvent, Noticed, Progressed
from exthost.model.messages import Notification
from exthost.session.effects import Notified
from exthost.session.notifications import Notifications
from exthost.session.trace.secrets import SecretFilter


class Recorder:
    """Stands for a session, and records what its notifications lead to.

    `subscribed` are the classes of events that have a subscriber.
    """

    def __init__(self, *subscribed: type) -> None:
        self.actions: list[Any] = []
        bus = Bus()
        for event in subscribed:
            bus.subscribe(event, self.actions.append)
        diagnostics = SimpleNamespace(
            extension="a",
            hide_secrets=lambda text: text.replace("secret", "***"),
            hide_in_content=SecretFilter(["secret"]).content,
            log=lambda *line: self.actions.append(line),
            count=self.actions.append,
            count_and_log=self.actions.append,
        )
        self._notifications = Notifications(
            diagnostics,  # type: ignore[arg-type]
            bus,
            "wire",
            extend_deadline=lambda call: self.actions.append("extended"),
            on_stale_offer=lambda: self.actions.append("stale"),
        )

    def handle(
        self, meaning: Any, call: Any = None, notification: Notification | None = None
    ) -> list[Any]:
        """Handle a notification, and return the actions so far."""
        notification = notification or Notification("m", {"n": 1})
        self._notifications.handle(Notified(notification, meaning, call))
        return self.actions


def test_log_lines_mistakes_and_changed_tools_are_passed_on() -> None:
    assert Recorder().handle(Log(logging.INFO, "text")) == [("log", logging.INFO, "text")]
    assert Recorder().handle(Unusable("no text")) == ["no text"]
    assert Recorder().handle(OfferStale()) == ["stale"]


def test_events_are_published_with_the_id_that_the_host_gave_the_extension() -> None:
    """The extension calls itself "wire"; its id in the config of the host is "a"."""
    emitted = Emitted("wire", "kind", 2, {})
    assert Recorder(ExtensionEvent).handle(emitted) == [ExtensionEvent("a", "kind", 2, {})]
    event = DialectEvent("kind", [])
    assert Recorder(ExtensionEvent).handle(event) == [ExtensionEvent("a", "kind", 1, [])]
    assert Recorder().handle(emitted) == []


def test_an_event_in_the_name_of_another_extension_is_only_counted() -> None:
    actions = Recorder(ExtensionEvent).handle(Emitted("other", "kind", 1, {}))
    assert actions == ["events in the name of another extension"]


def test_every_notification_is_published_for_subscribers_of_notifications() -> None:
    assert Recorder(Noticed).handle(OfferStale()) == ["stale", Noticed("a", "m", {"n": 1})]


def test_events_and_notifications_are_published_without_secrets() -> None:
    """A gateway passes them on to its clients, for example as log messages."""
    recorder = Recorder(Noticed, ExtensionEvent)
    payload = {"text": "a secret", "token": "other", "n": [1, None]}
    hidden = {"text": "a ***", "token": "other", "n": [1, None]}
    notification = Notification("m/secret", payload)
    actions = recorder.handle(DialectEvent("k secret", payload), notification=notification)
    assert actions == [ExtensionEvent("a", "k ***", 1, hidden), Noticed("a", "m/***", hidden)]


def test_progress_extends_the_deadline_and_is_published_without_secrets() -> None:
    call = SimpleNamespace(method="m", on_progress=None, ended=False, context=None)
    progress = Progress(1, 2.0, 4.0, "secret half")
    assert Recorder().handle(progress, call) == ["extended"]
    _, event = Recorder(Progressed).handle(progress, call)
    assert event == Progressed("a", "m", 2.0, 4.0, "*** half", None)
    assert Recorder(Progressed).handle(progress) == ["progress of no call"]
