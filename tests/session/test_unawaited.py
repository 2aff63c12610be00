"""Which messages serve a call, and which are charged to the budget of floods. No process."""

import json
from typing import Any

import pytest

from exthost.authoring.testing.peers import PEERS
from exthost.dialects import find
from exthost.model.messages import Notification
from exthost.process.flood_budget import REQUEST_UNITS
from exthost.session.call import Call
from exthost.session.conversation import Conversation
from exthost.session.replies import DELIVER
from tests.faults.harness import frame

MB = 2**20


def conversation(dialect: str) -> tuple[Conversation, int]:
    """Return a conversation, and the id of its call in flight."""
    conversation = Conversation(find.find_dialect(dialect), 64 * MB)
    call = Call("m", {}, DELIVER, timeout=60.0, now=0.0)
    conversation.send(call)
    assert isinstance(call.id, int)
    return conversation, call.id


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def units(talk: Conversation, data: bytes) -> int:
    talk.receive_bytes(data)
    return talk.take_unawaited_units()


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "mcp"])
def test_a_reply_is_free_once(dialect: str) -> None:
    talk, id = conversation(dialect)
    assert units(talk, line(id=id, result={})) == 0
    assert units(talk, line(id=id, result={})) == 1  # repeated
    assert units(talk, line(id=id + 10, result={})) == 1  # unknown
    assert units(talk, line(id=id + 10, result={}) * 50) == 50  # decoded together


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "mcp"])
def test_the_size_of_a_message_is_part_of_its_cost(dialect: str) -> None:
    talk, id = conversation(dialect)
    large = line(id=id + 1, result="x" * MB)
    assert units(talk, large) > 1024
    assert units(talk, large + line(id=id + 1, result=1)) > 1024
    assert units(talk, line(id=id, result="x" * MB)) == 0


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        ("nexo", {"method": "progress", "params": {}}),
        ("nexo", {"method": "tools/progress", "params": {"id": 987, "progress": 1}}),
        ("nexo", {"error": {"code": 1, "message": "m"}, "id": 987}),
        ("mcp", {"method": "notifications/message", "params": {"level": "info", "data": "a"}}),
        ("mcp", {"method": "notifications/tools/list_changed"}),
        ("mcp", {"error": {"code": 1, "message": "m"}, "id": None}),
        ("morphir", {"method": "log", "params": {"level": "info", "message": "a"}}),
        ("morphir", {}),
    ],
)
def test_a_message_that_no_caller_waits_for_costs_one_unit(dialect: str, message: Any) -> None:
    talk, _ = conversation(dialect)
    assert units(talk, line(**message)) == 1


def test_progress_of_a_call_in_flight_is_charged_too() -> None:
    talk, id = conversation("mcp")
    params = {"progressToken": id, "progress": 1}
    assert units(talk, line(method="notifications/progress", params=params)) == 1


@pytest.mark.parametrize("dialect", ["nexo", "mcp"])
def test_a_request_to_the_host_costs_more(dialect: str) -> None:
    talk, _ = conversation(dialect)
    assert units(talk, line(method="ping", id=1)) == REQUEST_UNITS


def test_the_parts_of_a_batch_are_charged_one_by_one() -> None:
    talk, id = conversation("mcp")
    parts = [{"jsonrpc": "2.0", "method": "notifications/x"}] * 9
    batch = line(id=id, result={})[:-1], *[line(**part)[:-1] for part in parts]
    assert units(talk, b"[" + b",".join(batch) + b"]\n") == 9
    assert units(talk, b"[]\n") == 1


def test_stray_lines_and_lines_that_are_too_long_are_charged() -> None:
    talk = Conversation(find.find_dialect("nexo"), 10_000)
    assert units(talk, b"x\n" * 10) == 10
    assert units(talk, b"x" * 20_000 + b"\n") > 9


@pytest.mark.parametrize("dialect", [name for name, peer in PEERS.items() if peer.notification])
def test_a_notification_is_charged_in_every_dialect(dialect: str) -> None:
    peer = PEERS[dialect]
    assert isinstance(peer.notification, Notification)
    talk = Conversation(find.find_dialect(dialect), MB)
    assert units(talk, frame(peer, peer.notification)) == 1
