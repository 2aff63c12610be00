"""A replay of a recording with many messages: the work for each message does not grow with their
number."""

from typing import Any

import pytest

from exthost.authoring.replay import comparison
from exthost.authoring.replay.extension_role import ExtensionRole
from exthost.authoring.replay.host_role import HostRole
from exthost.authoring.replay.script import Script
from exthost.model.messages import Notification, Reply, Request
from exthost.session.trace.record import TraceRecord

CALLS = 2000


class CountingTuple(tuple[Any, ...]):
    """A tuple that counts how many of its items are read by index or slice."""

    __slots__ = ()
    reads = 0

    def __getitem__(self, key: Any) -> Any:
        items = super().__getitem__(key)
        CountingTuple.reads += len(items) if isinstance(key, slice) else 1
        return items


def make_script(records: list[TraceRecord]) -> Script:
    return Script("x", "morphir", 1, CountingTuple(records), has_ended=False)


def make_calls() -> list[TraceRecord]:
    """Return the records of many calls. The host has made all of them before the first reply."""
    requests, replies = [], []
    for id in range(CALLS):
        requests.append(
            TraceRecord(0.0, "x", "request", "sent", id=id, call=id, method="run", data={"n": id})
        )
        for kind in ("notification", "reply"):
            data = {"result of": id}
            replies.append(
                TraceRecord(0.0, "x", kind, "received", id=id, call=id, method="run", data=data)
            )
    return requests + replies


def test_the_extension_of_a_long_recording_reads_each_record_a_few_times() -> None:
    waiting = TraceRecord(0.0, "x", "notification", "sent", method="never sent", data={})
    role = ExtensionRole(make_script([waiting, *make_calls()]))
    CountingTuple.reads = 0
    for id in range(CALLS):
        assert role.next_method == "run"
        sent = role.receive(Request("run", {"n": id}, id))
        assert [type(message) for message in sent] == [Notification, Reply]
    assert role.next_method == "" and role.compared == CALLS and not role.differences
    assert CountingTuple.reads < 20 * CALLS


def test_the_host_of_a_long_recording_compares_each_message_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparisons = 0
    compare = comparison.MessageComparer.compare

    def count(*arguments: Any) -> Any:
        nonlocal comparisons
        comparisons += 1
        return compare(*arguments)

    monkeypatch.setattr(comparison.MessageComparer, "compare", count)
    role = HostRole(make_script(make_calls()))
    assert len(role.due_messages()) == CALLS
    last = CALLS - 1  # this call overtakes all others
    for id in (last, *range(last)):
        for message in (Notification("run", {"result of": id}), Reply(id, {"result of": id})):
            assert role.receive(message, None) is None
    assert role.is_over and role.compared == 2 * CALLS
    assert comparisons < 10 * CALLS
    assert not any(role._expected.values())  # empty queues would be searched by each message
