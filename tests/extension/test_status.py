"""The state and the tools of an extension: what is published, logged and reported to the host.

A `Status` is the part of an extension that has its state in the life cycle and its offer (the tools
that the program announced). If `exthost.lock` has a record of the extension, a tool that differs
from it is quarantined, that is neither listed nor called; with the mode "warn" it is only reported.
"""

import logging
from typing import Any

import pytest

from exthost.errors import CallFailed
from exthost.events import Bus, OfferChanged, Quarantined, StateChanged
from exthost.extension.lifecycle import Event, State
from exthost.extension.status import Status
from exthost.model.lock_record import LockRecord, SpecLock, record_tool
from exthost.model.offer import Offer, Tool
from exthost.model.spec import Pool, Spec

A, B = Tool("a", "A."), Tool("b", "B.")
OTHER_A = Tool("a", "Another A.")


def make_status(**settings: Any) -> tuple[Status, list[Any]]:
    """Return the status of an extension with these settings, and the events that it publishes.

    The events include the text "change" for each call of `on_change`, which informs the host.
    """
    publishes_changes = settings.pop("publishes_changes", True)
    bus, events = Bus(), list[Any]()
    for kind in (OfferChanged, Quarantined, StateChanged):
        bus.subscribe(kind, events.append)
    spec = Spec(id="x", argv=("x",), dialect="mcp", **settings)
    status = Status(
        spec,
        bus,
        on_change=lambda: events.append("change"),
        publishes_changes=publishes_changes,
    )
    return status, events


@pytest.mark.parametrize(
    ("before", "after", "change"),  # the names of the added, removed and changed tools
    [
        ((), (A,), (("a",), (), ())),
        ((A,), (), ((), ("a",), ())),
        ((A, B), (OTHER_A, B), ((), (), ("a",))),
        ((A,), (B,), (("b",), ("a",), ())),
        ((A,), (A,), None),
    ],
)
def test_changes_of_the_tools_are_published(
    before: tuple[Tool, ...], after: tuple[Tool, ...], change: tuple[Any, ...] | None
) -> None:
    status, events = make_status()
    status.set_offer(Offer(tools=before))
    events.clear()
    status.set_tools(after)
    expected = ["change"] if change is None else ["change", OfferChanged("x", *change)]
    assert events == expected and status.offer_is_known
    assert list(status.tools.values()) == list(after)


@pytest.mark.parametrize("mode", ["enforce", "warn"])
def test_a_tool_that_differs_from_the_lock_is_kept_apart_only_if_it_is_enforced(mode: Any) -> None:
    record = LockRecord(tools={tool.name: record_tool(tool) for tool in (A, B)})
    status, events = make_status(lock=SpecLock(record=record, mode=mode))
    status.set_offer(Offer(tools=(OTHER_A, B)))
    is_enforced = mode == "enforce"
    assert list(status.tools) == (["b"] if is_enforced else ["a", "b"])
    assert list(status.quarantined) == (["a"] if is_enforced else [])
    (quarantined,) = [event for event in events if isinstance(event, Quarantined)]
    assert quarantined.tool == "a" and quarantined.is_enforced is is_enforced
    events.clear()
    status.set_offer(Offer(tools=(OTHER_A, B)))
    # The second announcement of the same tool is reported again only if the tool can be called.
    is_reported_again = any(isinstance(event, Quarantined) for event in events)
    assert is_reported_again == (not is_enforced)


def test_a_tool_of_a_manifest_without_descriptions_is_compared_after_the_handshake() -> None:
    record = LockRecord(tools={"a": record_tool(A)})
    declared = (Tool("a", input_schema={}), Tool("new", input_schema={}))  # in the manifest
    status, events = make_status(lock=SpecLock(record=record), declared_tools=declared)
    assert list(status.tools) == ["a"] and list(status.quarantined) == ["new"]
    events.clear()
    status.set_offer(Offer(tools=(OTHER_A,)))
    assert list(status.tools) == [] and list(status.quarantined) == ["a"]


@pytest.mark.parametrize(("processes", "stays"), [(1, False), (2, True)])
def test_a_tool_stays_in_quarantine_while_another_process_may_have_it(
    processes: int, stays: bool
) -> None:
    lock = SpecLock(record=LockRecord(tools={"a": record_tool(A)}))
    status, _ = make_status(lock=lock, pool=Pool(max=processes))
    status.set_offer(Offer(tools=(OTHER_A,)))
    status.set_offer(Offer(tools=(A,)))
    assert ("a" in status.quarantined) == stays
    assert ("a" in status.tools) == (not stays)


@pytest.mark.parametrize(
    ("event", "cause", "level", "text"),
    [
        (Event.ADMIT, None, None, ""),
        (Event.REFUSE, None, logging.WARNING, "[x] refused: why not"),
        (
            Event.REFUSE,
            CallFailed("X0701", "it ended", help="look at it"),
            logging.WARNING,
            "[x] refused: why not: it ended [X0701]; look at it",
        ),
        (
            Event.REFUSE,
            CallFailed("X0701", "why not"),
            logging.WARNING,
            "[x] refused: why not [X0701]",
        ),
    ],
)
def test_a_state_that_needs_attention_is_logged_with_its_cause(
    event: Event,
    cause: CallFailed | None,
    level: int | None,
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    status, events = make_status()
    status.cause = cause
    with caplog.at_level(logging.DEBUG, "exthost.states"):
        status.apply_event(event, "why not")
    logged = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert logged == ([] if level is None else [(level, text)])
    (changed, _) = events
    assert (changed.before, changed.after) == (State.DISCOVERED.value, status.state.value)


def test_a_replacement_publishes_only_after_it_has_taken_over() -> None:
    """At a reload, the new extension starts while the old one still serves calls."""
    old, old_events = make_status()
    old.set_offer(Offer(tools=(A,)))
    new, events = make_status(publishes_changes=False)
    new.apply_event(Event.ADMIT)
    new.set_offer(Offer(tools=(B,)))
    assert events == []
    new.take_over(old)
    assert [type(event) for event in events] == [StateChanged, str, OfferChanged]  # str: "change"
    events.clear()
    new.take_over(old)  # nothing, since it has taken over already
    old_events.clear()
    old.set_offer(Offer())
    assert events == old_events == []


@pytest.mark.parametrize(
    ("old_tool", "is_new"),
    [(A, True), (OTHER_A, False), (None, True)],
    ids=["new", "known", "none"],
)
def test_a_replacement_publishes_the_tools_that_are_newly_in_quarantine(
    old_tool: Tool | None, is_new: bool
) -> None:
    lock = SpecLock(record=LockRecord(tools={"a": record_tool(A)}))
    old = None
    if old_tool is not None:
        old, _ = make_status(lock=lock)
        old.set_offer(Offer(tools=(old_tool,)))
    new, events = make_status(publishes_changes=False, lock=lock)
    new.set_offer(Offer(tools=(OTHER_A,)))
    new.take_over(old)
    assert any(isinstance(event, Quarantined) for event in events) == is_new
