"""Progress reports of an extension are passed to the function `on_progress` of their call.

await host.call_tool("convert", {...}, on_progress=print)
"""

from types import SimpleNamespace
from typing import Any

import pytest

from exthost.dialects.meanings import Progress
from exthost.events import Bus
from exthost.model.messages import Notification
from exthost.session.effects import Notified
from exthost.session.notifications import Notifications

REPORT = Progress(1, 2.0, 4.0, "half")


def handle_report(call: Any) -> None:
    """Handle a progress report that an extension has sent for this call."""
    notifications = Notifications(
        SimpleNamespace(extension="a"),  # type: ignore[arg-type]
        Bus(),
        "a",
        extend_deadline=lambda call: None,
        on_stale_offer=lambda: None,
    )
    notifications.handle(Notified(Notification("progress", {}), REPORT, call))


def test_the_callback_of_a_call_gets_its_progress() -> None:
    reports: list[Progress] = []
    handle_report(SimpleNamespace(method="m", on_progress=reports.append, ended=False))
    assert reports == [REPORT]


def test_the_callback_of_an_ended_call_gets_no_progress() -> None:
    reports: list[Progress] = []
    handle_report(SimpleNamespace(method="m", on_progress=reports.append, ended=True))
    assert reports == []


def test_a_call_may_have_no_callback(caplog: pytest.LogCaptureFixture) -> None:
    handle_report(SimpleNamespace(method="m", on_progress=None, ended=False))
    assert not caplog.records


def test_an_error_of_the_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(report: Progress) -> None:
        raise ValueError("no")

    handle_report(SimpleNamespace(method="m", on_progress=fail, ended=False))
    assert "the progress callback of m failed" in caplog.text
