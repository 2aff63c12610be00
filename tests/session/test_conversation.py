"""The conversation without I/O: calls and bytes are its input, effects its output.

A `Conversation` is the protocol state of one end of a connection. It numbers requests, and matches
the replies in the bytes that it receives with the calls. It reads and writes nothing itself: it
returns effects, which are values that its session performs, for example `WriteFrame(frame)`. A list
of `(call, value)` pairs is the effect "these calls have these results".

Most tests use the dialect BY_ID of `conversation_peer`, which is JSON-RPC in lines: `reply(1, 7)`
returns the line of a reply with the id 1 and the result 7. In BY_ORDER, replies have no id, and the
first reply answers the oldest request.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest

from exthost.dialects.base import Dialect
from exthost.dialects.meanings import Progress
from exthost.dialects.steps import (
    AskHost,
    GetOffer,
    OneRequestOrMore,
    RetireProcess,
    Subscribe,
    TryRequest,
    WaitFor,
    result_of,
)
from exthost.dialects.streams import StreamEvent, StreamKind
from exthost.errors import CallFailed, ExthostError, UsageError
from exthost.model.messages import Batch, Failure, Incoming, Noise, Notification, Reply, Request
from exthost.model.offer import NO_OFFER, Offer
from exthost.session.conversation import Conversation
from exthost.session.effects import (
    Count,
    DeliverEvent,
    Effect,
    End,
    Failed,
    Interrupt,
    Notified,
    RunHandler,
    SendInternal,
    ServeRequest,
    SetDeadline,
    Stray,
    StreamAccepted,
    Subscribed,
    SubscriptionEnded,
    WriteFrame,
)
from exthost.session.failures import GivenUp, NotUnderstood, Retired, Violated
from exthost.session.phase import PHASES, Phase
from exthost.session.replies import MapResultHandler, OneRequestOrMoreHandler
from exthost.wire import jsontext
from exthost.wire.framing import Bytes
from tests.session.conversation_peer import (
    BY_ID,
    BY_ID_DIALECTS,
    BY_ORDER,
    MAX_MESSAGE,
    OFFER,
    PlainCodec,
    StubCall,
    begin_operation,
    error_of,
    failure,
    frame_bytes,
    is_empty,
    line,
    notification,
    open_conversation,
    open_stream,
    reply,
    send_call,
    with_traits,
    written_messages,
)
from tests.toys import askback

# A `Count` effect increases a counter in the statistics of the extension.
LATE = Count("late or repeated replies")
UNKNOWN = Count("replies without a request")
ERROR_WITHOUT_ID = Count(
    "errors that name no request", "it answered with an error that names no request", "no"
)
NO_STREAM = Count("events of no open stream")

# Error codes. X0701 is that of a call that the extension answered with an error.
NOT_A_MESSAGE = "X0602"
BROKEN_FRAMING = "X0601"  # the start of the next message cannot be found
TOO_LONG = "X0603"
UNREADABLE = "X0604"  # the code that reads the result raised an unexpected exception
WRONG_STREAM = "X0605"


# -- phases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", ["open", "drain", "end"])
def test_a_phase_change_that_is_not_in_the_table_raises_key_error(phase: Phase, event: str) -> None:
    conversation = Conversation(BY_ID, MAX_MESSAGE)
    conversation.phase = phase
    if (phase, event) in PHASES:
        conversation.move(event)
        assert conversation.phase is PHASES[phase, event]
    else:
        with pytest.raises(KeyError):
            conversation.move(event)


def test_a_conversation_reports_its_state() -> None:
    conversation = open_conversation()
    send_call(conversation)
    assert repr(conversation) == "<Conversation open, 1 in flight>"
    assert conversation.offer is OFFER


# -- sending ---------------------------------------------------------------------------------


def test_requests_are_numbered_from_the_first_id_and_remembered() -> None:
    conversation = open_conversation(first_id=7)
    calls = [send_call(conversation, "echo", n) for n in range(3)]
    assert [call.id for call in calls] == [7, 8, 9]
    assert conversation.calls() == calls
    assert conversation.requests.next_id == 10


def test_the_first_id_is_that_of_the_dialect_by_default() -> None:
    assert open_conversation().requests.next_id == BY_ID.traits.first_id == 1
    assert open_conversation(first_id=0).requests.next_id == 0


@pytest.mark.parametrize("params", [object(), "x" * (MAX_MESSAGE + 1)])
def test_a_request_that_cannot_be_sent_uses_no_id(params: object) -> None:
    conversation = open_conversation()
    with pytest.raises(UsageError):
        send_call(conversation, "echo", params)
    assert is_empty(conversation)
    assert send_call(conversation).id == 1


def test_by_order_a_request_that_cannot_be_sent_does_not_shift_the_replies() -> None:
    conversation = open_conversation(BY_ORDER)
    first = send_call(conversation, "say", 1)
    with pytest.raises(UsageError):
        conversation.send(StubCall("say", "x" * MAX_MESSAGE))
    second = send_call(conversation, "say", 2)
    frames = b"".join(conversation.framing.wrap(text) for text in (b"1", b"2"))
    assert list_completions(conversation.receive_bytes(frames)) == [(first, 1), (second, 2)]


def test_a_large_request_is_a_frame_in_three_parts() -> None:
    conversation = Conversation(BY_ID, 2**20)
    frame = conversation.send(StubCall("echo", "x" * 2**17))
    assert isinstance(frame, tuple) and len(frame) == 3
    assert written_messages([WriteFrame(frame)])[0]["params"] == "x" * 2**17


def list_completions(effects: list[Effect]) -> list[Any]:
    """Return the completed calls with their results; there must be no other effects."""
    completions = []
    for effect in effects:
        assert isinstance(effect, list), effect
        completions += effect
    return completions


# -- replies ---------------------------------------------------------------------------------


def test_the_replies_of_one_read_are_one_effect_in_their_order() -> None:
    conversation = open_conversation()
    a, b, c = (send_call(conversation) for _ in range(3))
    effects = conversation.receive_bytes(reply(2, "b") + reply(3, "c") + reply(1, "a"))
    assert effects == [[(b, "b"), (c, "c"), (a, "a")]]
    assert is_empty(conversation)


def test_a_notification_between_two_replies_keeps_its_place() -> None:
    conversation = open_conversation()
    a, b = send_call(conversation), send_call(conversation)
    effects = conversation.receive_bytes(
        reply(1) + notification("say", text="hi") + reply(2) + reply(9)
    )
    assert [type(effect) for effect in effects] == [list, Notified, list, Count]
    assert effects[0] == [(a, None)] and effects[2] == [(b, None)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (reply(1), LATE),
        (reply(0), LATE),
        (reply(2), UNKNOWN),
        (reply(99), UNKNOWN),
        (failure(1), LATE),
        (failure(99), UNKNOWN),
        (failure(None), ERROR_WITHOUT_ID),
        (failure("1"), UNKNOWN),
    ],
)
def test_a_reply_that_answers_no_call_is_counted(data: bytes, expected: Count) -> None:
    conversation = open_conversation()
    send_call(conversation)
    conversation.receive_bytes(reply(1))
    assert conversation.receive_bytes(data) == [expected]


def test_a_reply_to_an_abandoned_call_is_late() -> None:
    conversation = open_conversation()
    call = send_call(conversation)
    conversation.abandon(call, "no reason")
    assert conversation.receive_bytes(reply(1)) == [LATE]


def test_an_error_reply_fails_only_its_call() -> None:
    conversation = open_conversation()
    a, b = send_call(conversation, "one"), send_call(conversation, "two")
    effects = conversation.receive_bytes(failure(1, "out of paper", 7) + reply(2, 2))
    error = error_of(effects, a)
    assert isinstance(error, CallFailed)
    assert (error.error_message, error.error_code) == ("out of paper", 7)
    assert "one" in error.message
    assert effects[1] == [(b, 2)]


@pytest.mark.parametrize("dialect", BY_ID_DIALECTS)
def test_a_result_is_mapped(dialect: Dialect) -> None:
    conversation = open_conversation(dialect)
    call = StubCall("echo", None, MapResultHandler(lambda result: result * 2))
    conversation.send(call)
    assert conversation.receive_bytes(reply(1, 21)) == [[(call, 42)]]


def raise_call_failed(_: object) -> Any:
    raise CallFailed("X0701", "not that")


def raise_key_error(_: object) -> Any:
    raise KeyError("missing")


@pytest.mark.parametrize("dialect", BY_ID_DIALECTS)
@pytest.mark.parametrize(
    ("map_result", "code"), [(raise_call_failed, "X0701"), (raise_key_error, UNREADABLE)]
)
def test_a_result_that_cannot_be_mapped_fails_only_its_call(
    map_result: Callable[[object], Any], code: str, dialect: Dialect
) -> None:
    conversation = open_conversation(dialect)
    bad = StubCall("bad", None, MapResultHandler(map_result))
    conversation.send(bad)
    good = send_call(conversation)
    effects = conversation.receive_bytes(reply(1) + reply(2, "fine"))
    assert error_of(effects, bad).code == code
    assert effects[1] == [(good, "fine")]


# -- replies by order ------------------------------------------------------------------------


def frames_by_order(*payloads: bytes) -> bytes:
    framing = BY_ORDER.framing(MAX_MESSAGE)
    return b"".join(framing.wrap(payload) for payload in payloads)


def test_by_order_a_reply_answers_the_call_that_has_waited_longest() -> None:
    conversation = open_conversation(BY_ORDER)
    calls = [send_call(conversation, "say", n) for n in range(3)]
    assert list_completions(conversation.receive_bytes(frames_by_order(b"0", b"1"))) == [
        (calls[0], 0),
        (calls[1], 1),
    ]
    assert list_completions(conversation.receive_bytes(frames_by_order(b"2"))) == [(calls[2], 2)]


def test_by_order_an_error_fails_the_call_that_has_waited_longest() -> None:
    conversation = open_conversation(BY_ORDER)
    first, second = send_call(conversation, "say", 1), send_call(conversation, "say", 2)
    effects = conversation.receive_bytes(frames_by_order(b"!no", b"2"))
    assert isinstance(error_of(effects, first), CallFailed)
    assert effects[1] == [(second, 2)]


def test_by_order_a_reply_without_a_request_ends_the_conversation() -> None:
    conversation = open_conversation(BY_ORDER)
    call = send_call(conversation, "say", 1)
    effects = conversation.receive_bytes(frames_by_order(b"1", b"2"))
    assert effects[0] == [(call, 1)]
    assert code_of_violation(effects[1]) == NOT_A_MESSAGE


def test_by_order_a_reply_does_not_answer_a_call_that_was_sent_after_it_was_read() -> None:
    """The items of a read are decoded one after another; a call may be sent between them."""
    by_order = with_traits(BY_ID, positional=True)

    class SendingCodec(askback.Codec):
        """Sends a call while it decodes, as an effect of an earlier item can."""

        def decode(self, frame: Bytes) -> Incoming:
            send_call(conversation)
            return Reply(None, "too early")

    conversation = open_conversation(replace(by_order, codec=lambda role: SendingCodec()))
    (effect,) = conversation.receive_bytes(line("anything"))
    assert code_of_violation(effect) == NOT_A_MESSAGE
    assert len(conversation.pending) == 1


def code_of_violation(effect: Effect) -> str:
    """Return the error code of an effect that ends the conversation because of a violation."""
    assert isinstance(effect, End) and isinstance(effect.cause, Violated)
    assert not effect.retired
    return effect.cause.violation.code


# -- operations, which are generators of steps -----------------------------------------------
#
# A dialect writes a call that needs several messages as a generator. It yields steps, such as a
# `Request`, and gets the reply of each. The conversation runs it when the replies arrive.


def test_a_handshake_runs_step_by_step_and_returns_the_offer() -> None:
    def handshake() -> Generator[Any, Any, Offer]:
        report = result_of((yield Request("initialize", 1)), "initialize")
        yield Notification("initialized", None)
        return Offer(name=report)

    conversation = Conversation(BY_ID, MAX_MESSAGE)
    call, effects = begin_operation(conversation, handshake(), limits_each_request=True)
    assert effects[0] == SetDeadline(call, call.timeout)
    assert [output["method"] for output in written_messages(effects)] == ["initialize"]
    effects = conversation.receive_bytes(reply(1, "toy"))
    assert [output["method"] for output in written_messages(effects)] == ["initialized"]
    assert effects[-1] == [(call, Offer(name="toy"))]
    assert conversation.offer is NO_OFFER
    conversation.open(Offer(name="toy"))
    assert conversation.phase is Phase.OPEN and is_empty(conversation)


def test_without_a_limit_for_each_request_only_the_frame_is_written() -> None:
    def send_two_requests() -> Generator[Any, Any, Any]:
        yield Request("one")
        return (yield Request("two"))

    conversation = open_conversation()
    call, effects = begin_operation(conversation, send_two_requests())
    assert [type(effect) for effect in effects] == [WriteFrame]
    effects = conversation.receive_bytes(reply(1))
    assert [type(effect) for effect in effects] == [WriteFrame]
    assert call.id == 2, "each request has a different id"
    assert conversation.receive_bytes(failure(2, "no")) == [[(call, Failure(2, "no", -1))]]


def test_an_operation_can_get_the_offer_of_the_extension() -> None:
    def ask() -> Generator[Any, Any, Any]:
        offer = yield GetOffer()
        reply = yield Request("echo", offer.name)
        return offer, reply

    conversation = open_conversation()
    call, effects = begin_operation(conversation, ask())
    assert written_messages(effects)[0]["params"] == "toy"
    assert conversation.receive_bytes(reply(1, 5)) == [[(call, (OFFER, Reply(1, 5)))]]


def test_an_operation_may_end_without_a_request() -> None:
    def send_notification() -> Generator[Any, Any, Any]:
        yield Notification("bye")
        return "done"

    call, effects = begin_operation(open_conversation(), send_notification())
    assert len(written_messages(effects)) == 1 and effects[-1] == [(call, "done")]


@pytest.mark.parametrize(
    ("error", "code"), [(CallFailed("X0701", "no"), "X0701"), (KeyError("tools"), UNREADABLE)]
)
@pytest.mark.parametrize("moment", ["begin", "reply"])
def test_an_exception_in_an_operation_fails_only_its_call(
    error: Exception, code: str, moment: str
) -> None:
    def fail() -> Generator[Any, Any, Any]:
        yield Notification("first")
        if moment == "reply":
            yield Request("one")
        raise error

    conversation = open_conversation()
    other = send_call(conversation)
    call, effects = begin_operation(conversation, fail())
    if moment == "reply":
        effects = conversation.receive_bytes(reply(2))
    assert error_of(effects, call).code == code
    assert conversation.receive_bytes(reply(1, "fine")) == [[(other, "fine")]]


def test_a_step_that_cannot_be_encoded_fails_the_call() -> None:
    def send_object() -> Generator[Any, Any, Any]:
        yield Request("echo", object())

    conversation = open_conversation()
    call, effects = begin_operation(conversation, send_object())
    assert isinstance(error_of(effects, call), UsageError)
    assert is_empty(conversation)


def test_the_generator_of_an_abandoned_call_is_closed() -> None:
    closed = []

    def wait() -> Generator[Any, Any, Any]:
        try:
            yield Request("one")
        finally:
            closed.append(True)

    conversation = open_conversation()
    call, _ = begin_operation(conversation, wait())
    conversation.abandon(call, "no reason")
    assert closed == [True]


# Waiting for a notification


def change(n: int) -> bytes:
    return notification("changed", n=n)


def test_an_operation_is_resumed_with_the_notification_that_it_waits_for() -> None:
    def wait() -> Generator[Any, Any, Any]:
        yield Notification("open")
        return (yield WaitFor("changed", lambda params: bool(params["n"] == 2)))

    conversation = open_conversation()
    call, effects = begin_operation(conversation, wait())
    assert [output["method"] for output in written_messages(effects)] == ["open"]
    effects = conversation.receive_bytes(change(1) + notification("other", n=2) + change(2))
    assert [type(effect) for effect in effects[:3]] == [Notified, Notified, Notified]
    assert effects[3:] == [[(call, Notification("changed", {"n": 2}))]]
    assert is_empty(conversation)
    assert len(conversation.receive_bytes(change(2))) == 1, (
        "the second notification has no waiting call"
    )


def test_a_wait_with_a_limit_ends_with_none_and_restores_the_deadline() -> None:
    def wait() -> Generator[Any, Any, Any]:
        received = yield WaitFor("changed", seconds=0.5)
        return received, (yield Request("echo"))

    conversation = open_conversation()
    call, effects = begin_operation(conversation, wait())
    assert effects == [SetDeadline(call, 0.5)]
    effects = conversation.continue_without_reply(call)
    assert effects[0] == SetDeadline(call, None)
    assert conversation.receive_bytes(reply(2, 5)) == [[(call, (None, Reply(2, 5)))]]


def test_a_condition_that_raises_fails_only_its_call() -> None:
    def wait(condition: Any) -> Generator[Any, Any, Any]:
        return (yield WaitFor("changed", condition))

    conversation = open_conversation()
    bad, _ = begin_operation(conversation, wait(lambda params: params["nothing"]))
    good, _ = begin_operation(conversation, wait(lambda params: True))
    effects = conversation.receive_bytes(change(7))
    assert error_of([effects[1]], bad).code == UNREADABLE
    assert effects[2:] == [[(good, Notification("changed", {"n": 7}))]]
    assert is_empty(conversation)


def test_an_abandoned_wait_is_not_resumed() -> None:
    def wait() -> Generator[Any, Any, Any]:
        return (yield WaitFor("changed"))

    conversation = open_conversation()
    call, _ = begin_operation(conversation, wait())
    conversation.abandon(call, "no reason")
    assert len(conversation.receive_bytes(change(7))) == 1
    assert is_empty(conversation)


# A request of an operation to the host


def test_a_request_to_the_host_has_an_id_that_no_extension_can_send() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield Request("one")
        return (yield AskHost("config.get", {"key": 1}))

    conversation = open_conversation()
    call, _ = begin_operation(conversation, ask())
    (effect,) = conversation.receive_bytes(reply(1))
    assert isinstance(effect, RunHandler) and effect.call is call
    assert effect.request[:2] == ("config.get", {"key": 1})
    id_of_request = effect.request.id
    assert conversation.calls() == [call], "the call can time out while it waits"
    for id in (2, [2]):
        effects = conversation.receive_bytes(reply(id))
        assert all(isinstance(effect, Count | Stray) for effect in effects)
    assert conversation.resume(call, id_of_request, Reply(None, "yes")) == [
        [(call, Reply(None, "yes"))]
    ]
    assert is_empty(conversation)


def test_the_answer_of_the_host_to_an_abandoned_call_is_dropped() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield AskHost("config.get", None)

    conversation = open_conversation()
    call, (effect,) = begin_operation(conversation, ask())
    assert isinstance(effect, RunHandler)
    conversation.abandon(call, "timed out")
    assert conversation.resume(call, effect.request.id, Reply(None, 1)) == []


# A request that may stay unanswered (TryRequest)


def try_request_then_request() -> Generator[Any, Any, Any]:
    optional_reply = yield TryRequest(Request("maybe"), 3.0)
    second_reply = yield Request("then")
    return optional_reply, second_reply.result


def test_an_optional_request_has_at_most_half_of_the_time_of_its_call() -> None:
    call, effects = begin_operation(open_conversation(), try_request_then_request())
    assert effects[1] == SetDeadline(call, 3.0)
    call, effects = begin_operation(open_conversation(), try_request(60.0))
    assert effects[1] == SetDeadline(call, call.timeout / 2)
    assert handler_of(call).is_optional


def test_after_a_request_with_its_own_limit_the_deadline_of_the_call_applies_again() -> None:
    conversation = open_conversation()
    call, _ = begin_operation(conversation, try_request_then_request())
    effects = conversation.continue_without_reply(call)
    assert effects[0] == SetDeadline(call, None)
    deadline = call.deadline
    call.limit_request(deadline - 7)
    assert call.started_at == deadline - call.timeout
    call.limit_request(None)
    assert call.deadline == deadline


def test_a_request_to_the_host_has_the_deadline_of_the_call_again() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield TryRequest(Request("maybe"), 3.0)
        yield AskHost("config.get", None)

    conversation = open_conversation()
    call, _ = begin_operation(conversation, ask())
    effects = conversation.continue_without_reply(call)
    assert effects[0] == SetDeadline(call, None)
    assert not handler_of(call).is_optional, "the host answers, or the call times out"


def try_request(seconds: float) -> Generator[Any, Any, Any]:
    return (yield TryRequest(Request("maybe"), seconds))


def handler_of(call: StubCall) -> Any:
    return call.reply_handler


def test_an_operation_continues_without_the_optional_reply_and_a_late_reply_is_ignored() -> None:
    conversation = open_conversation()
    call, _ = begin_operation(conversation, try_request_then_request())
    effects = conversation.continue_without_reply(call)
    assert [output["method"] for output in written_messages(effects)] == ["then"]
    assert not handler_of(call).is_optional
    assert conversation.receive_bytes(reply(1, "late")) == []
    assert conversation.receive_bytes(reply(1, "late")) == [LATE], "a repeated reply is counted"
    assert conversation.receive_bytes(reply(2, "now")) == [[(call, (None, "now"))]]


def test_only_the_last_few_unanswered_optional_requests_are_remembered() -> None:
    def try_again_and_again() -> Generator[Any, Any, Any]:
        while True:
            yield TryRequest(Request("maybe"), 3.0)
            yield WaitFor("never", seconds=3.0)

    conversation = open_conversation()
    call, _ = begin_operation(conversation, try_again_and_again())
    for _ in range(200):
        conversation.continue_without_reply(call)
    remembered = [id for id in range(1, 200) if conversation.receive_bytes(reply(id, "late")) == []]
    assert 1 <= len(remembered) <= 8  # a small number, not all of them
    assert max(remembered) == 199


def test_the_operation_gets_the_optional_reply() -> None:
    conversation = open_conversation()
    call, _ = begin_operation(conversation, try_request_then_request())
    conversation.receive_bytes(reply(1, "optional"))
    ((completion,),) = conversation.receive_bytes(reply(2, "now"))  # type: ignore[misc]
    assert completion == (call, (Reply(1, "optional"), "now"))


# A process that an operation retires: it serves no more calls, and another one is started


@pytest.mark.parametrize("error", [None, CallFailed("X0701", "no"), KeyError("x")])
def test_a_retired_process_ends_before_its_call(error: Exception | None) -> None:
    def retire() -> Generator[Any, Any, Any]:
        yield RetireProcess()
        yield Request("one")
        if error is not None:
            raise error
        return "done"

    conversation = open_conversation()
    call, effects = begin_operation(conversation, retire())
    assert [type(effect) for effect in effects] == [WriteFrame]
    end, last = conversation.receive_bytes(reply(1))
    assert end == End(Retired("by id", "operation"), retired=True)
    if error is None:
        assert last == [(call, "done")]
    else:
        assert isinstance(last, Failed) and last.call is call


# Subscriptions: requests that stay open while the extension sends notifications

# It is sent again after 1 s, and then the host fetches the tools of the extension again.
SUBSCRIPTION = Subscribe(Request("subscribe", "changes"), (1.0,), refetch_offer=True)


def test_an_operation_does_not_wait_for_a_subscription() -> None:
    def subscribe() -> Generator[Any, Any, Any]:
        received = yield SUBSCRIPTION
        return received

    conversation = open_conversation()
    call, effects = begin_operation(conversation, subscribe())
    assert effects[0] == Subscribed(1, SUBSCRIPTION)
    assert written_messages(effects) == [
        {"jsonrpc": "2.0", "method": "subscribe", "params": "changes", "id": 1}
    ]
    assert effects[-1] == [(call, None)]
    assert conversation.is_idle and conversation.calls() == []


@pytest.mark.parametrize(
    ("data", "error"), [(reply(1), None), (failure(1, "no"), Failure(1, "no", -1))]
)
def test_the_reply_to_a_subscription_ends_it(data: bytes, error: Failure | None) -> None:
    conversation = open_conversation()
    conversation.subscribe(SUBSCRIPTION)
    assert conversation.receive_bytes(data) == [SubscriptionEnded(1, error)]
    assert conversation.receive_bytes(data) == [LATE]
    effects = conversation.subscribe(SUBSCRIPTION)
    assert effects[0] == Subscribed(2, SUBSCRIPTION), "it is sent again with another id"


# -- a reply that leads to another request ---------------------------------------------------


def one_request_or_more() -> OneRequestOrMoreHandler:
    """Return a handler that sends a second request after the result "more" or error "not so"."""

    def more(params: Any) -> Generator[Any, Any, Any]:
        received = yield Request("more", params)
        return result_of(received, "more")

    def settle(params: Any, result: Any) -> Any:
        return more(params) if result == "more" else result

    def try_again(params: Any, failure: Failure) -> Generator[Any, Any, Any] | None:
        return more(params) if failure.message == "not so" else None

    return OneRequestOrMoreHandler(
        OneRequestOrMore(lambda params: ("wire", {"with": params}), settle, try_again)
    )


@pytest.mark.parametrize("dialect", BY_ID_DIALECTS)
def test_a_call_usually_ends_with_its_first_reply(dialect: Dialect) -> None:
    conversation = open_conversation(dialect)
    call = StubCall("tool", 5, one_request_or_more())
    (output,) = written_messages([WriteFrame(conversation.send(call))])
    assert (output["method"], output["params"]) == ("wire", {"with": 5})
    assert conversation.receive_bytes(reply(1, "done")) == [[(call, "done")]]


@pytest.mark.parametrize("dialect", BY_ID_DIALECTS)
def test_a_reply_that_needs_a_second_request_does_not_delay_other_replies(dialect: Dialect) -> None:
    conversation = open_conversation(dialect)
    before = send_call(conversation)
    call = StubCall("tool", 5, one_request_or_more())
    conversation.send(call)
    after = send_call(conversation)
    effects = conversation.receive_bytes(reply(1, 1) + reply(2, "more") + reply(3, 3))
    assert effects[0] == [(before, 1)] and effects[2] == [(after, 3)]
    assert written_messages(effects) == [{"jsonrpc": "2.0", "method": "more", "params": 5, "id": 4}]
    assert conversation.receive_bytes(reply(4, "done")) == [[(call, "done")]]


@pytest.mark.parametrize("dialect", BY_ID_DIALECTS)
def test_an_error_reply_to_the_second_request_fails_the_call(dialect: Dialect) -> None:
    conversation = open_conversation(dialect)
    call = StubCall("tool", 5, one_request_or_more())
    conversation.send(call)
    conversation.receive_bytes(reply(1, "more"))
    assert isinstance(error_of(conversation.receive_bytes(failure(2)), call), CallFailed)
    assert is_empty(conversation)


@pytest.mark.parametrize("dialect", BY_ID_DIALECTS)
def test_an_error_reply_may_lead_to_another_request(dialect: Dialect) -> None:
    conversation = open_conversation(dialect)
    call = StubCall("tool", 5, one_request_or_more())
    conversation.send(call)
    effects = conversation.receive_bytes(failure(1, "not so"))
    assert written_messages(effects) == [{"jsonrpc": "2.0", "method": "more", "params": 5, "id": 2}]
    assert conversation.receive_bytes(reply(2, "done")) == [[(call, "done")]]


@pytest.mark.parametrize("dialect", BY_ID_DIALECTS)
def test_an_error_reply_without_another_request_fails_the_call(dialect: Dialect) -> None:
    conversation = open_conversation(dialect)
    call = StubCall("tool", 5, one_request_or_more())
    conversation.send(call)
    error = error_of(conversation.receive_bytes(failure(1, "no")), call)
    assert isinstance(error, CallFailed) and error.message.startswith("tool was answered")
    assert is_empty(conversation)


# -- streams ---------------------------------------------------------------------------------
#
# The events of a stream are notifications. There are two kinds: the stream `run` has no name, and
# ends with the reply to its request; `watch` has a name in each event, is acknowledged by the
# reply, and ends with its last event, "done".


def watch_event(name: str, value: Any) -> bytes:
    return notification("watch.event", stream=name, event=value)


def delivered_events(effects: list[Effect]) -> list[tuple[Any, Any, bool]]:
    """Return stream, event and whether it is the last, for each event among these effects."""
    return [
        (effect.stream, effect.event, effect.is_last)
        for effect in effects
        if isinstance(effect, DeliverEvent)
    ]


def test_a_stream_without_a_name_gets_events_until_its_reply() -> None:
    conversation = open_conversation()
    run = open_stream(conversation, "run", {})
    data = notification("run.event", n=1)
    effects = conversation.receive_bytes(data + notification("run.event", n=2) + reply(1, "end"))
    assert delivered_events(effects) == [(run, 1, False), (run, 2, False)]
    assert isinstance(effects[0], DeliverEvent) and effects[0].size == len(data) - 1
    assert [type(effect) for effect in effects[:2]] == [DeliverEvent, Notified]
    assert effects[-1] == [(run.call, "end")]
    assert is_empty(conversation)
    assert conversation.receive_bytes(data)[0] == NO_STREAM


def test_a_named_stream_gets_only_the_events_with_its_name() -> None:
    conversation = open_conversation()
    a = open_stream(conversation, "watch", {"stream": "a"})
    b = open_stream(conversation, "watch", {"stream": "b"})
    effects = conversation.receive_bytes(
        watch_event("b", 1) + watch_event("a", 2) + watch_event("c", 3)
    )
    assert delivered_events(effects) == [(b, 1, False), (a, 2, False)]
    assert NO_STREAM in effects


@pytest.mark.parametrize("params", [None, [], {"event": 1}, {"stream": [1], "event": 1}])
def test_an_event_without_a_valid_name_belongs_to_no_stream(params: Any) -> None:
    conversation = open_conversation()
    open_stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(line({"method": "watch.event", "params": params}))
    assert effects[0] == NO_STREAM and delivered_events(effects) == []


def test_an_acknowledged_stream_continues_until_its_last_event() -> None:
    conversation = open_conversation()
    a = open_stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(watch_event("a", 1) + reply(1, {"stream": "a"}))
    assert delivered_events(effects) == [(a, 1, False)] and effects[-1] == StreamAccepted(a)
    assert a.acknowledged and not conversation.pending
    assert conversation.calls() == [a.call] and not conversation.is_idle
    effects = conversation.receive_bytes(watch_event("a", "done") + watch_event("a", "done"))
    assert delivered_events(effects) == [(a, "done", True)]
    assert effects[1] == [(a.call, "done")]
    assert NO_STREAM in effects and is_empty(conversation)


def test_a_stream_whose_last_event_comes_first_ends_at_the_acknowledgement() -> None:
    conversation = open_conversation()
    a = open_stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(watch_event("a", "done"))
    assert delivered_events(effects) == [(a, "done", True)]
    assert conversation.calls() == [a.call], "the call waits for the acknowledgement"
    effects = conversation.receive_bytes(reply(1, {"stream": "a"}))
    assert effects == [StreamAccepted(a), [(a.call, "done")]]
    assert is_empty(conversation)


def test_a_last_event_may_be_null() -> None:
    kind = replace(
        BY_ID.streams["watch"],
        decode=lambda method, params: StreamEvent(params["event"], params["event"] is None),
    )
    for is_event_first in (True, False):
        conversation = open_conversation(replace(BY_ID, streams={"watch": kind}))
        a = open_stream(conversation, "watch", {"stream": "a"})
        parts = [watch_event("a", None), reply(1, {"stream": "a"})]
        effects = conversation.receive_bytes(b"".join(parts if is_event_first else parts[::-1]))
        assert [(a.call, None)] in effects, is_event_first
        assert is_empty(conversation)


def test_the_acknowledgement_of_another_stream_fails_the_call() -> None:
    conversation = open_conversation()
    a = open_stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(reply(1, {"stream": "b"}))
    assert error_of(effects, a.call).code == WRONG_STREAM
    assert is_empty(conversation)
    assert conversation.receive_bytes(watch_event("a", 1))[0] == NO_STREAM


@pytest.mark.parametrize("method", ["run", "watch"])
def test_a_stream_that_is_refused_is_closed(method: str) -> None:
    conversation = open_conversation()
    one = open_stream(conversation, method, {"stream": "a"})
    effects = conversation.receive_bytes(failure(1, "no"))
    assert isinstance(error_of(effects, one.call), CallFailed)
    assert is_empty(conversation)


def test_an_event_that_cannot_be_read_is_counted() -> None:
    conversation = open_conversation()
    run = open_stream(conversation, "run", {})
    effects = conversation.receive_bytes(notification("run.event", wrong=1) + reply(1))
    warning = "dropped: the event run.event could not be read"
    assert effects[0] == Count("events that could not be read", warning, {"wrong": 1})
    assert effects[-1] == [(run.call, None)]


@pytest.mark.parametrize(
    ("result", "code"), [("fine", None), ("bad", "X0701"), ("unknown", UNREADABLE)]
)
def test_the_reply_that_ends_a_stream_is_decoded_by_its_stream_kind(
    result: str, code: str | None
) -> None:
    """An exception in the code of the dialect fails only that call."""

    def decode_result(value: Any) -> Any:
        if value == "bad":
            raise CallFailed("X0701", "no")
        return {"fine": "very"}[value]

    kind = replace(BY_ID.streams["run"], result=decode_result)
    conversation = open_conversation(replace(BY_ID, streams={"run": kind}))
    run = open_stream(conversation, "run", {})
    other = send_call(conversation)
    effects = conversation.receive_bytes(reply(1, result) + reply(2))
    if code is None:
        assert effects[0] == [(run.call, "very")]
    else:
        assert error_of(effects, run.call).code == code
    assert effects[-1] == [(other, None)]
    assert is_empty(conversation)


def test_an_exception_of_the_dialect_loses_only_that_event() -> None:
    def decode(method: str, params: Any) -> StreamEvent:
        return StreamEvent(params["n"])

    kind = StreamKind(notifications={"tick": None}, decode=decode)
    conversation = open_conversation(replace(BY_ID, streams={"one": kind}))
    one = open_stream(conversation, "one", {})
    data = notification("tick", wrong=1) + notification("tick", n=2) + reply(1)
    effects = conversation.receive_bytes(data)
    warning = "dropped: the event tick could not be read"
    assert effects[0] == Count("events that could not be read", warning, {"wrong": 1})
    assert delivered_events(effects) == [(one, 2, False)]
    assert effects[-1] == [(one.call, None)]


def test_a_stream_whose_request_cannot_be_sent_is_not_open() -> None:
    conversation = open_conversation()
    with pytest.raises(UsageError):
        open_stream(conversation, "run", object())
    assert is_empty(conversation)


def test_two_streams_that_share_a_notification_both_get_it() -> None:
    kind = StreamKind(
        notifications={"tick": None}, decode=lambda method, params: StreamEvent(params)
    )
    conversation = open_conversation(replace(BY_ID, streams={"one": kind, "two": kind}))
    one, two = open_stream(conversation, "one", {}), open_stream(conversation, "two", {})
    effects = conversation.receive_bytes(notification("tick", n=1))
    assert delivered_events(effects) == [(one, {"n": 1}, False), (two, {"n": 1}, False)]
    conversation.receive_bytes(reply(1))
    effects = conversation.receive_bytes(notification("tick", n=2))
    assert delivered_events(effects) == [(two, {"n": 2}, False)]


def test_leaving_a_stream_cancels_it_once() -> None:
    """The reader of a stream leaves it when it wants no more events."""
    conversation = open_conversation()
    a = open_stream(conversation, "watch", {"stream": "a"})
    conversation.receive_bytes(reply(1, {"stream": "a"}))
    request = Request("watch.cancel", {"stream": "a", "why": "enough"})
    assert conversation.leave(a, "enough") == [SendInternal(request)]
    assert conversation.leave(a, "enough") == []
    assert is_empty(conversation)


def test_a_nameless_stream_that_is_left_keeps_its_place_until_its_reply() -> None:
    conversation = open_conversation()
    run = open_stream(conversation, "run", {})
    assert conversation.leave(run, "enough") == [
        SendInternal(Notification("run.cancel", {"why": "enough"}))
    ]
    assert conversation.pending == {1: run.call}
    assert conversation.receive_bytes(notification("run.event", n=1))[0] == NO_STREAM
    assert conversation.receive_bytes(reply(1)) == [[(run.call, None)]]


def test_others_wait_is_true_if_anything_but_this_stream_is_awaited() -> None:
    conversation = open_conversation()
    run = open_stream(conversation, "run", {})
    assert not conversation.others_wait(run)
    watch = open_stream(conversation, "watch", {"stream": "a"})
    assert conversation.others_wait(run)
    conversation.receive_bytes(reply(2, {"stream": "a"}))
    assert conversation.others_wait(run), "the other stream waits for events"
    watch.bytes = 2**40  # of events that were received and not read
    assert not conversation.others_wait(run), "the other stream has a full queue"
    send_call(conversation)
    assert conversation.others_wait(run)


# -- requests and notifications of the child -------------------------------------------------


def test_a_request_of_the_child_is_served() -> None:
    effects = open_conversation().receive_bytes(
        line({"method": "config.get", "params": 1, "id": "x"})
    )
    assert effects == [ServeRequest(Request("config.get", 1, "x"))]


def test_a_known_notification_has_a_meaning() -> None:
    effects = open_conversation().receive_bytes(
        notification("say", text="hi") + notification("unknown")
    )
    assert isinstance(effects[0], Notified) and type(effects[0].meaning).__name__ == "Log"
    assert effects[1] == Notified(Notification("unknown", {}), None, None)


@pytest.mark.parametrize(("id", "is_found"), [(1, True), (2, False), ("1", False), ([1], False)])
def test_progress_belongs_to_the_call_with_its_id(id: Any, is_found: bool) -> None:
    conversation = open_conversation()
    call = send_call(conversation)
    (effect,) = conversation.receive_bytes(notification("progress", id=id, done=5))
    assert effect == Notified(
        Notification("progress", {"id": id, "done": 5}), Progress(id, 5), call if is_found else None
    )


# -- noise, over-long messages, batches, interrupts ------------------------------------------


def test_noise_is_skipped_and_reported() -> None:
    conversation = open_conversation()
    call = send_call(conversation)
    effects = conversation.receive_bytes(b"hello\n" + reply(1))
    assert isinstance(effects[0], Stray) and effects[0].data == b"hello"
    assert effects[1] == [(call, None)]


def test_noise_with_the_id_of_a_call_is_kept_for_its_timeout_error() -> None:
    conversation = open_conversation()
    call, other = send_call(conversation), send_call(conversation)
    effects = conversation.receive_bytes(b'{"id":1,"result":oops}\n')
    assert isinstance(effects[0], Stray) and len(effects) == 1
    assert call.unreadable_reply is not None and call.unreadable_reply[0] == 1
    assert other.unreadable_reply is None
    assert conversation.calls() == [call, other], "the call may still be answered"


def test_by_order_noise_ends_the_conversation() -> None:
    conversation = open_conversation(with_traits(BY_ID, positional=True))
    call = send_call(conversation)
    effects = conversation.receive_bytes(reply(1) + b"hello\n" + reply(2))
    assert effects[0] == [(call, None)], "the reply before the noise is not lost"
    assert code_of_violation(effects[1]) == NOT_A_MESSAGE and len(effects) == 2


def test_broken_framing_ends_the_conversation() -> None:
    conversation = open_conversation(BY_ORDER)
    effects = conversation.receive_bytes(b"\xff\xff\xff\xff")
    assert code_of_violation(effects[-1]) == BROKEN_FRAMING


def too_long_reply(id: int) -> bytes:
    return line({"id": id, "result": "x" * MAX_MESSAGE})


def test_an_over_long_reply_fails_only_its_call() -> None:
    conversation = open_conversation()
    call, other = send_call(conversation, "much"), send_call(conversation)
    effects = conversation.receive_bytes(too_long_reply(1) + reply(2))
    assert isinstance(effects[0], Count) and effects[0].name == "messages over the size limit"
    assert "4,096" in effects[0].warning
    error = error_of(effects, call)
    assert error.code == TOO_LONG and "much" in error.message
    assert effects[-1] == [(other, None)]


def test_an_over_long_reply_to_no_call_is_counted() -> None:
    (effect,) = open_conversation().receive_bytes(too_long_reply(5))
    assert isinstance(effect, Count)


@pytest.mark.parametrize(
    ("method", "cancel"),
    [
        ("run", Notification("run.cancel", {"why": "its answer was too large"})),
        ("watch", Request("watch.cancel", {"stream": "a", "why": "its answer was too large"})),
    ],
)
def test_an_over_long_reply_to_a_stream_cancels_it(
    method: str, cancel: Request | Notification
) -> None:
    conversation = open_conversation()
    one = open_stream(conversation, method, {"stream": "a"})
    effects = conversation.receive_bytes(too_long_reply(1))
    assert SendInternal(cancel) in effects
    assert error_of(effects, one.call).code == TOO_LONG
    assert is_empty(conversation)


class DecodingCodec(PlainCodec):
    """Decodes the line `now` to the given value, or raises it if it is an exception."""

    def __init__(self, decoded: Any) -> None:
        self._decoded = decoded

    def decode(self, frame: Bytes) -> Incoming:
        if bytes(frame) != b"now":
            return super().decode(frame)
        if isinstance(self._decoded, BaseException):
            raise self._decoded
        decoded: Incoming = self._decoded
        return decoded


def conversation_decoding(decoded: Any) -> Conversation:
    """Return a conversation that decodes the line `now` to this value."""
    return open_conversation(replace(BY_ID, codec=lambda role: DecodingCodec(decoded)))


def test_the_messages_of_a_batch_are_handled_in_order() -> None:
    batch = Batch((Reply(2, "b"), Notification("say", "x"), Noise(b"?", "no"), Failure(1, "no")))
    conversation = conversation_decoding(batch)
    a, b = send_call(conversation), send_call(conversation)
    effects = conversation.receive_bytes(b"now\n")
    assert effects[0] == [(b, "b")]
    assert [type(effect) for effect in effects] == [list, Notified, Stray, Failed]
    assert isinstance(error_of(effects, a), CallFailed)


def test_the_bytes_of_a_batch_are_shared_among_its_events() -> None:
    conversation = conversation_decoding(
        Batch((Notification("run.event", {"n": 1}), Notification("run.event", {"n": 2})))
    )
    open_stream(conversation, "run", {})
    effects = conversation.receive_bytes(b"now\n")
    assert sum(effect.size for effect in effects if isinstance(effect, DeliverEvent)) <= len(b"now")


def test_an_empty_batch_has_no_effects() -> None:
    assert conversation_decoding(Batch(())).receive_bytes(b"now\n") == []


def test_a_codec_that_fails_ends_the_conversation_and_loses_no_reply() -> None:
    error = KeyError("ours")
    conversation = conversation_decoding(error)
    call = send_call(conversation)
    effects = conversation.receive_bytes(reply(1) + b"now\n")
    assert effects == [[(call, None)], End(NotUnderstood(error))]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_comes_after_the_replies_before_it(interrupt: BaseException) -> None:
    conversation = conversation_decoding(interrupt)
    call = send_call(conversation)
    effects = conversation.receive_bytes(reply(1) + b"now\n")
    assert effects == [[(call, None)], Interrupt(interrupt)]


# -- abandoned calls -------------------------------------------------------------------------------


def test_an_abandoned_call_is_cancelled_once() -> None:
    conversation = open_conversation()
    call = send_call(conversation)
    assert conversation.abandon(call, "timed out") == [
        SendInternal(Notification("cancelled", {"id": 1}))
    ]
    assert conversation.abandon(call, "timed out") == []
    assert is_empty(conversation)


def test_during_the_handshake_an_abandoned_call_is_not_cancelled() -> None:
    conversation = Conversation(BY_ID, MAX_MESSAGE)
    call = send_call(conversation)
    assert conversation.abandon(call, "timed out") == []


@pytest.mark.parametrize("cancel_message", [None, lambda request, reason: None])
def test_a_dialect_may_have_no_message_for_cancelling(cancel_message: Any) -> None:
    conversation = open_conversation(replace(BY_ID, cancel_message=cancel_message))
    assert conversation.abandon(send_call(conversation), "timed out") == []


def test_by_order_abandoning_a_call_ends_the_conversation() -> None:
    conversation = open_conversation(BY_ORDER)
    call = send_call(conversation, "say", 1)
    effects = conversation.abandon(call, "timed out")
    assert effects == [End(GivenUp("byorder", "say", "timed out"))]
    assert conversation.abandon(call, "timed out") == []


def test_abandoning_a_call_that_was_not_sent_has_no_effects() -> None:
    for dialect in (BY_ID, BY_ORDER):
        assert open_conversation(dialect).abandon(StubCall(), "cancelled") == []


@pytest.mark.parametrize("acknowledged", [True, False])
def test_abandoning_a_stream_cancels_it(acknowledged: bool) -> None:
    conversation = open_conversation()
    a = open_stream(conversation, "watch", {"stream": "a"})
    if acknowledged:
        conversation.receive_bytes(reply(1, {"stream": "a"}))
    effects = conversation.abandon(a.call, "enough")
    cancel = SendInternal(Request("watch.cancel", {"stream": "a", "why": "enough"}))
    cancel_request = SendInternal(Notification("cancelled", {"id": 1}))
    assert effects == ([cancel] if acknowledged else [cancel, cancel_request])
    assert is_empty(conversation)


def test_abandoning_a_stream_before_its_acknowledgement_cancels_the_request() -> None:
    conversation = open_conversation()
    a = open_stream(conversation, "watch", {"stream": "a"})
    conversation.receive_bytes(watch_event("a", "done"))
    assert conversation.abandon(a.call, "enough") == [
        SendInternal(Notification("cancelled", {"id": 1}))
    ]


def test_abandoning_an_operation_cancels_its_request_in_flight() -> None:
    def send_two_requests() -> Generator[Any, Any, Any]:
        yield Request("one")
        yield Request("two")

    conversation = open_conversation()
    call, _ = begin_operation(conversation, send_two_requests())
    conversation.receive_bytes(reply(1))
    assert conversation.abandon(call, "enough") == [
        SendInternal(Notification("cancelled", {"id": 2}))
    ]


# -- the end ---------------------------------------------------------------------------------


def test_the_end_returns_every_call_once() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield AskHost("config.get", None)

    conversation = open_conversation()
    simple = send_call(conversation)
    run = open_stream(conversation, "run", {})
    watch = open_stream(conversation, "watch", {"stream": "a"})
    asking, _ = begin_operation(conversation, ask())
    conversation.subscribe(SUBSCRIPTION)
    conversation.receive_bytes(reply(3, {"stream": "a"}))
    calls = conversation.end()
    assert len(calls) == 4 and set(calls) == {simple, run.call, watch.call, asking}
    assert conversation.phase is Phase.CLOSED and is_empty(conversation)
    with pytest.raises(KeyError):
        conversation.end()


def test_after_the_end_replies_have_no_call() -> None:
    conversation = open_conversation()
    send_call(conversation)
    run = open_stream(conversation, "run", {})
    conversation.subscribe(SUBSCRIPTION)
    conversation.end()
    effects = conversation.receive_bytes(
        reply(1) + reply(2) + reply(3) + notification("run.event", n=1)
    )
    assert [effect for effect in effects if not isinstance(effect, Notified)] == [
        LATE,
        LATE,
        LATE,
        NO_STREAM,
    ]
    assert conversation.abandon(run.call, "enough") == []


def test_internal_calls_do_not_keep_a_conversation_from_being_idle() -> None:
    conversation = open_conversation()
    call = send_call(conversation)
    assert not conversation.is_idle
    call.internal = True
    assert conversation.is_idle


def test_a_request_is_encoded_in_the_form_of_its_dialect() -> None:
    frame = frame_bytes(open_conversation().send(StubCall("echo", [1])))
    assert frame == b'{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}\n'


def test_the_error_of_a_failed_call_is_an_exthost_error() -> None:
    conversation = open_conversation()
    call = send_call(conversation)
    assert isinstance(error_of(conversation.receive_bytes(failure(1)), call), ExthostError)


# Large messages of which only the first bytes have arrived. If such a message cannot be for a call,
# the host may read it slowly.


class RecognisingCodec(PlainCodec):
    """JSON-RPC that recognises replies by their first bytes, as the built-in codecs do."""

    may_be_reply = staticmethod(jsontext.may_be_reply)


RECOGNISING = replace(BY_ID, codec=lambda role: RecognisingCodec())
NOTIFICATION_HEAD = b'{"jsonrpc":"2.0","method":"changed","params":[['


def test_without_a_call_a_large_message_cannot_be_a_reply() -> None:
    assert Conversation(RECOGNISING, MAX_MESSAGE).may_serve_call(b"xxx"), "in the handshake"
    conversation = open_conversation(RECOGNISING)
    for head in (b"", b'{"result":[', b'{"id":1,"result":[', NOTIFICATION_HEAD):
        assert not conversation.may_serve_call(head)


def test_a_large_message_may_serve_a_call_if_it_can_be_its_reply() -> None:
    conversation = open_conversation(RECOGNISING, first_id=7)
    call = send_call(conversation)
    for head in (b'{"id":7,"result":[', b'{"jsonrpc":"2.0","result":[', b"", b'[{"id":7'):
        assert conversation.may_serve_call(head), head
    for head in (b'{"id":8,"result":[', NOTIFICATION_HEAD, b"xxx"):
        assert not conversation.may_serve_call(head), head
    conversation.abandon(call, "a timeout")
    assert not conversation.may_serve_call(b'{"id":7,"result":[')


@pytest.mark.parametrize("dialect", [BY_ID, BY_ORDER])
def test_with_a_codec_that_cannot_recognise_replies_any_message_may_be_one(
    dialect: Dialect,
) -> None:
    conversation = open_conversation(dialect)
    assert not conversation.may_serve_call(b"xxx")
    send_call(conversation)
    assert conversation.may_serve_call(b"xxx")


def test_any_large_message_may_serve_a_stream_or_a_wait() -> None:
    conversation = open_conversation(RECOGNISING)
    open_stream(conversation, "watch", {"stream": "a"})
    assert conversation.may_serve_call(NOTIFICATION_HEAD)

    def wait() -> Generator[Any, Any, Any]:
        yield WaitFor("changed")

    conversation = open_conversation(RECOGNISING)
    begin_operation(conversation, wait())
    assert conversation.may_serve_call(NOTIFICATION_HEAD)
