"""Conversations of the host and of the extension (role GUEST) exchange frames in memory.

The same class `Conversation` serves both ends: the host uses it with the role HOST, and the test
tools that play an extension use it with the role GUEST. A frame is the bytes of one message.
"""

import pytest

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Role
from exthost.dialects.find import BUILT_IN, find_dialect
from exthost.model.messages import Failure, Notification, Reply, Request
from exthost.session.conversation import NOT_TAKEN, Conversation
from exthost.session.effects import Count, Notified, ServeRequest, join_frame
from tests.session.conversation_peer import MAX_MESSAGE, StubCall, open_conversation, send_call

DIALECTS = [find_dialect(name) for name in BUILT_IN]
# In these dialects a message has an id. The others match replies by their order.
WITH_IDS = [dialect for dialect in DIALECTS if not dialect.traits.positional]

# In morphir the host sends only requests, and the extension none.
BOTH_WAYS = [dialect for dialect in WITH_IDS if dialect.name != "morphir"]


def for_each_of(dialects: list[Dialect]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("dialect", dialects, ids=lambda dialect: dialect.name)


def guest_conversation(dialect: Dialect) -> Conversation:
    return Conversation(dialect, MAX_MESSAGE, role=Role.GUEST)


@for_each_of(WITH_IDS)
def test_a_guest_gets_the_request_and_the_host_gets_its_answer(dialect: Dialect) -> None:
    host, guest = open_conversation(dialect), guest_conversation(dialect)
    call = StubCall("some/method", {"a": 1})
    (effect,) = guest.receive_bytes(join_frame(host.send(call)))
    assert isinstance(effect, ServeRequest)
    assert (effect.request.method, effect.request.id) == ("some/method", call.id)
    answer = guest.encode(Reply(effect.request.id, {"b": 2}))
    assert host.receive_bytes(answer) == [[(call, {"b": 2})]]
    assert not host.pending and not guest.pending


@for_each_of(BOTH_WAYS)
def test_a_guest_numbers_its_requests_and_matches_the_answers(dialect: Dialect) -> None:
    host, guest = open_conversation(dialect), guest_conversation(dialect)
    frames = [guest.request(Request("ask", {"n": n})) for n in range(2)]
    requests = [host.receive_bytes(frame)[0] for frame in frames]
    first, second = (effect.request for effect in requests if isinstance(effect, ServeRequest))
    assert first.id != second.id
    (failed,) = guest.receive_bytes(host.encode(Failure(second.id, "no", -32000)))
    assert isinstance(failed, list)
    ((call, failure),) = failed
    assert call.params == {"n": 1} and isinstance(failure, Failure) and failure.message == "no"
    (completed,) = guest.receive_bytes(host.encode(Reply(first.id, {"yes": True})))
    assert isinstance(completed, list)
    ((call, reply),) = completed
    assert call.params == {"n": 0} and reply == Reply(None, {"yes": True})
    (late,) = guest.receive_bytes(host.encode(Reply(first.id, {"yes": True})))
    assert isinstance(late, Count) and late.name == "late or repeated replies"


@for_each_of(BOTH_WAYS)
def test_notifications_to_a_guest_have_no_meaning_and_no_stream(dialect: Dialect) -> None:
    host, guest = open_conversation(dialect), guest_conversation(dialect)
    for method in (*dialect.notifications, "other"):
        frame = host.encode(Notification(method, {"level": "info"}))
        (effect,) = guest.receive_bytes(frame)
        assert isinstance(effect, Notified)
        assert (effect.notification.method, effect.meaning, effect.call) == (method, None, None)


@for_each_of(DIALECTS)
def test_a_guest_reads_a_frame_as_a_request_of_the_expected_method(dialect: Dialect) -> None:
    """Frames of cigen do not name their methods, so a guest must know which one to expect. The
    other dialects ignore `expect`."""
    host, guest = open_conversation(dialect), guest_conversation(dialect)
    guest.expect("plan")
    (effect,) = guest.receive_bytes(join_frame(host.send(StubCall("plan", {}))))
    assert isinstance(effect, ServeRequest) and effect.request.method == "plan"


def test_receive_result_accepts_only_the_result_of_its_call() -> None:
    conversation = open_conversation()
    call, other = send_call(conversation), send_call(conversation)
    guest = guest_conversation(conversation.dialect)

    def receive_result(frame: bytes, may_end: bool = True) -> object:
        """Return the result of `call` in this frame. `may_end`: the caller still wants it."""
        return conversation.receive_result(call, frame, lambda _: may_end)

    assert receive_result(guest.encode(Reply(other.id, 1))) is NOT_TAKEN
    assert receive_result(guest.encode(Failure(call.id, "no"))) is NOT_TAKEN
    assert receive_result(guest.encode(Notification("log", {}))) is NOT_TAKEN
    assert receive_result(guest.encode(Reply(call.id, 1)), may_end=False) is NOT_TAKEN
    assert list(conversation.pending.values()) == [call, other]
    assert receive_result(guest.encode(Reply(call.id, 1))) == 1
    assert receive_result(guest.encode(Reply(call.id, 1))) is NOT_TAKEN
    assert list(conversation.pending.values()) == [other]
