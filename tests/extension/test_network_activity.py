"""The connections of an extension are counted by target, and refused ones are logged.

An extension in a sandbox reaches the network through a proxy, which refuses a target, such as
"b.com:443", that is not in its `permissions.network`. The proxy reports each connection.
"""

import logging

import pytest

from exthost.events import Bus, NetworkProxyEnded, NetworkRefused
from exthost.extension.network_activity import (
    _MAX_LOGGED,
    MAX_TARGETS,
    OTHER_TARGETS,
    NetworkActivity,
)
from exthost.process.network_proxy import RefusedTarget


def test_a_limited_number_of_targets_is_counted() -> None:
    activity = NetworkActivity("a", Bus())
    for number in range(MAX_TARGETS + 2):
        activity.reached(f"host-{number}:443", 2)
    activity.reached("host-0:443", 1)
    counts = activity.reached_counts
    assert counts["host-0:443"] == 3 and counts[f"host-{MAX_TARGETS - 1}:443"] == 2
    assert counts[OTHER_TARGETS] == 4 and len(counts) == MAX_TARGETS + 1


# The entry is what the user could add to the permissions. Some targets are never allowed.
@pytest.mark.parametrize(("entry", "fix"), [("b.com", 'add "b.com" to'), ("", "")])
def test_a_refused_target_is_logged_once_and_always_published(
    entry: str, fix: str, caplog: pytest.LogCaptureFixture
) -> None:
    bus, events = Bus(), list[NetworkRefused]()
    bus.subscribe(NetworkRefused, events.append)
    activity = NetworkActivity("a", bus)
    for _ in range(2):
        activity.refused(RefusedTarget("b.com:443", "it is not granted", entry, 1))
    (record,) = caplog.records
    assert "it is not granted" in record.getMessage()
    assert fix in record.getMessage()
    assert ("to allow it" in record.getMessage()) == bool(entry)
    assert len(events) == 2 and activity.refused_counts == {"b.com:443": 2}
    assert activity.missing_entries == ({"b.com:443": entry} if entry else {})


def test_a_secret_in_a_target_is_hidden(caplog: pytest.LogCaptureFixture) -> None:
    bus, events = Bus(), list[NetworkRefused]()
    bus.subscribe(NetworkRefused, events.append)
    activity = NetworkActivity("a", bus)
    activity.hide_secrets = lambda text: text.replace("s3cr3t", "***")
    target = "s3cr3t.b.com:443"
    activity.refused(RefusedTarget(target, "it is not granted", target, 1))
    activity.reached(target, 1)
    assert activity.refused_counts == activity.reached_counts == {"***.b.com:443": 1}
    assert activity.missing_entries == {"***.b.com:443": "***.b.com:443"}
    assert "s3cr3t" not in repr(events) + caplog.text and events


def test_a_limited_number_of_targets_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    activity = NetworkActivity("a", Bus())
    for number in range(_MAX_LOGGED + 1):
        activity.refused(RefusedTarget(f"host-{number}:443", "no", "", 1))
    assert len(caplog.records) == _MAX_LOGGED


@pytest.mark.parametrize(
    ("is_final", "level", "text"),
    [(True, logging.ERROR, "are refused"), (False, logging.WARNING, "started again")],
)
def test_the_end_of_a_proxy_is_logged_and_published(
    is_final: bool, level: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    bus, events = Bus(), list[NetworkProxyEnded]()
    bus.subscribe(NetworkProxyEnded, events.append)
    NetworkActivity("a", bus).proxy_ended("it ended", is_final)
    (record,) = caplog.records
    assert record.levelno == level and text in record.getMessage()
    assert events == [NetworkProxyEnded("a", "it ended", not is_final)]
