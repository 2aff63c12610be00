"""Messages that no call waits for are charged to the extension's flood budget; replies are not.

An extension that writes without end would occupy the event loop of the host. So each message has a
cost in units, and the host reads the output of an extension more slowly when its budget is used up.
The reply that a call waits for is free. PEERS has sample messages of each dialect.
"""

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

MIB = 2**20


def conversation_with_call(dialect: str) -> tuple[Conversation, int]:
    """Return a conversation, and the id of its call in flight."""
    conversation = Conversation(find.find_dialect(dialect), 64 * MIB)
    # DELIVER: the caller gets the reply.
    call = Call("m", {}, DELIVER, timeout=60.0, now=0.0)
    conversation.send(call)
    assert isinstance(call.id, int)
    return conversation, call.id


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def charged_units(conversation: Conversation, data: bytes) -> int:
    """Let the conversation receive these bytes, and return what they cost."""
    conversation.receive_bytes(data)
    return conversation.take_unawaited_units()


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "mcp"])
def test_only_the_first_reply_to_a_call_is_free(dialect: str) -> None:
    conversation, id = conversation_with_call(dialect)
    assert charged_units(conversation, line(id=id, result={})) == 0
    assert charged_units(conversation, line(id=id, result={})) == 1  # repeated
    assert charged_units(conversation, line(id=id + 10, result={})) == 1  # unknown
    assert charged_units(conversation, line(id=id + 10, result={}) * 50) == 50  # decoded together


@pytest.mark.parametrize("dialect", ["morphir", "nexo", "mcp"])
def test_the_size_of_a_message_is_part_of_its_cost(dialect: str) -> None:
    conversation, id = conversation_with_call(dialect)
    large = line(id=id + 1, result="x" * MIB)
    # At least one unit for each KiB.
    units = charged_units(conversation, large)
    assert units > 1024
    assert charged_units(conversation, large + line(id=id + 1, result=1)) == units + 1
    assert charged_units(conversation, line(id=id, result="x" * MIB)) == 0


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
        ("morphir", {}),  # neither a request nor a reply
    ],
)
def test_a_message_that_no_caller_waits_for_costs_one_unit(dialect: str, message: Any) -> None:
    conversation, _ = conversation_with_call(dialect)
    assert charged_units(conversation, line(**message)) == 1


def test_progress_of_a_call_in_flight_is_charged_too() -> None:
    conversation, id = conversation_with_call("mcp")
    params = {"progressToken": id, "progress": 1}
    assert charged_units(conversation, line(method="notifications/progress", params=params)) == 1


@pytest.mark.parametrize("dialect", ["nexo", "mcp"])
def test_a_request_to_the_host_costs_more_than_a_notification(dialect: str) -> None:
    conversation, _ = conversation_with_call(dialect)
    assert REQUEST_UNITS > 1
    assert charged_units(conversation, line(method="ping", id=1)) == REQUEST_UNITS


def test_each_message_of_a_batch_that_no_caller_waits_for_is_charged() -> None:
    conversation, id = conversation_with_call("mcp")
    notifications = [{"jsonrpc": "2.0", "method": "notifications/x"}] * 9
    batch = [line(id=id, result={}), *(line(**part) for part in notifications)]
    data = b"[" + b",".join(message.strip() for message in batch) + b"]\n"
    assert charged_units(conversation, data) == len(notifications)
    assert charged_units(conversation, b"[]\n") == 1


def test_stray_lines_and_lines_that_are_too_long_are_charged() -> None:
    conversation = Conversation(find.find_dialect("nexo"), 10_000)
    assert charged_units(conversation, b"x\n" * 10) == 10
    assert (
        charged_units(conversation, b"x" * 20_000 + b"\n") > 9
    )  # one for each KiB up to the limit


@pytest.mark.parametrize("dialect", [name for name, peer in PEERS.items() if peer.notification])
def test_a_notification_is_charged_in_every_dialect_that_has_one(dialect: str) -> None:
    peer = PEERS[dialect]
    assert isinstance(peer.notification, Notification)
    conversation = Conversation(find.find_dialect(dialect), MIB)
    assert charged_units(conversation, frame(peer, peer.notification)) == 1
