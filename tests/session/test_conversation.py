"""The conversation as a pure thing: calls and bytes in, effects out. No loop, no process."""

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
    BOTH,
    BY_ID,
    BY_ORDER,
    MAX_MESSAGE,
    OFFER,
    PlainCodec,
    StubCall,
    error_of,
    failure,
    generator,
    is_empty,
    line,
    notification,
    opened,
    reply,
    sent,
    stream,
    whole,
    with_traits,
    written,
)
from tests.toys import askback

LATE = Count("late or repeated replies")
UNKNOWN = Count("replies to no question")
UNNAMED = Count(
    "errors that name no request", "it answered with an error that names no request", "no"
)
NO_STREAM = Count("events of no open stream")


# -- phases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("event", ["open", "drain", "end"])
def test_a_move_that_is_not_in_the_table_is_a_bug(phase: Phase, event: str) -> None:
    conversation = Conversation(BY_ID, MAX_MESSAGE)
    conversation.phase = phase
    if (phase, event) in PHASES:
        conversation.move(event)
        assert conversation.phase is PHASES[phase, event]
    else:
        with pytest.raises(KeyError):
            conversation.move(event)


def test_a_conversation_reports_its_state() -> None:
    conversation = opened()
    sent(conversation)
    assert repr(conversation) == "<Conversation open, 1 in flight>"
    assert conversation.offer is OFFER


# -- sending ---------------------------------------------------------------------------------


def test_requests_are_numbered_from_the_first_id_and_remembered() -> None:
    conversation = opened(first_id=7)
    calls = [sent(conversation, "echo", n) for n in range(3)]
    assert [call.id for call in calls] == [7, 8, 9]
    assert conversation.calls() == calls
    assert conversation.requests.next_id == 10


def test_the_first_id_is_the_dialects_unless_another_is_given() -> None:
    assert opened().requests.next_id == BY_ID.traits.first_id == 1
    assert opened(first_id=0).requests.next_id == 0


@pytest.mark.parametrize("params", [object(), "x" * (MAX_MESSAGE + 1)])
def test_a_request_that_cannot_be_sent_is_not_remembered_and_takes_no_id(params: object) -> None:
    conversation = opened()
    with pytest.raises(UsageError):
        sent(conversation, "echo", params)
    assert is_empty(conversation)
    assert sent(conversation).id == 1


def test_a_request_that_cannot_be_sent_by_order_does_not_move_the_replies() -> None:
    conversation = opened(BY_ORDER)
    first = sent(conversation, "say", 1)
    with pytest.raises(UsageError):
        conversation.send(StubCall("say", "x" * MAX_MESSAGE))
    second = sent(conversation, "say", 2)
    frames = b"".join(conversation.framing.wrap(text) for text in (b"1", b"2"))
    assert flat(conversation.receive_bytes(frames)) == [(first, 1), (second, 2)]


def test_a_large_request_comes_in_parts_that_are_one_frame() -> None:
    conversation = Conversation(BY_ID, 2**20)
    frame = conversation.send(StubCall("echo", "x" * 2**17))
    assert isinstance(frame, tuple) and len(frame) == 3
    assert written([WriteFrame(frame)])[0]["params"] == "x" * 2**17


def flat(effects: list[Effect]) -> list[Any]:
    """Return every completion among these effects, which must be all of them."""
    found = []
    for effect in effects:
        assert isinstance(effect, list), effect
        found += effect
    return found


# -- replies ---------------------------------------------------------------------------------


def test_the_replies_of_one_read_are_one_effect_in_their_order() -> None:
    conversation = opened()
    a, b, c = (sent(conversation) for _ in range(3))
    effects = conversation.receive_bytes(reply(2, "b") + reply(3, "c") + reply(1, "a"))
    assert effects == [[(b, "b"), (c, "c"), (a, "a")]]
    assert is_empty(conversation)


def test_something_between_two_replies_keeps_its_place() -> None:
    conversation = opened()
    a, b = sent(conversation), sent(conversation)
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
        (failure(None), UNNAMED),
        (failure("1"), UNKNOWN),
    ],
)
def test_a_reply_that_answers_no_call_is_counted(data: bytes, expected: Count) -> None:
    conversation = opened()
    sent(conversation)
    conversation.receive_bytes(reply(1))
    assert conversation.receive_bytes(data) == [expected]


def test_a_reply_to_a_call_that_was_given_up_is_late() -> None:
    conversation = opened()
    call = sent(conversation)
    conversation.abandon(call, "no reason")
    assert conversation.receive_bytes(reply(1)) == [LATE]


def test_an_error_reply_fails_its_call_alone() -> None:
    conversation = opened()
    a, b = sent(conversation, "one"), sent(conversation, "two")
    effects = conversation.receive_bytes(failure(1, "out of paper", 7) + reply(2, 2))
    error = error_of(effects, a)
    assert isinstance(error, CallFailed)
    assert (error.error_message, error.error_code) == ("out of paper", 7)
    assert "one" in error.message
    assert effects[1] == [(b, 2)]


@pytest.mark.parametrize("dialect", BOTH)
def test_a_result_is_mapped(dialect: Dialect) -> None:
    conversation = opened(dialect)
    call = StubCall("echo", None, MapResultHandler(lambda result: result * 2))
    conversation.send(call)
    assert conversation.receive_bytes(reply(1, 21)) == [[(call, 42)]]


def refuse(_: object) -> Any:
    raise CallFailed("X0701", "not that")


def trip(_: object) -> Any:
    raise KeyError("missing")


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(("map_result", "code"), [(refuse, "X0701"), (trip, "X0604")])
def test_a_result_that_cannot_be_mapped_fails_its_call_alone(
    map_result: Callable[[object], Any], code: str, dialect: Dialect
) -> None:
    conversation = opened(dialect)
    bad = StubCall("bad", None, MapResultHandler(map_result))
    conversation.send(bad)
    good = sent(conversation)
    effects = conversation.receive_bytes(reply(1) + reply(2, "fine"))
    assert error_of(effects, bad).code == code
    assert effects[1] == [(good, "fine")]


# -- replies by order ------------------------------------------------------------------------


def frames(*payloads: bytes) -> bytes:
    framing = BY_ORDER.framing(MAX_MESSAGE)
    return b"".join(framing.wrap(payload) for payload in payloads)


def test_by_order_a_reply_answers_the_call_that_has_waited_longest() -> None:
    conversation = opened(BY_ORDER)
    calls = [sent(conversation, "say", n) for n in range(3)]
    assert flat(conversation.receive_bytes(frames(b"0", b"1"))) == [(calls[0], 0), (calls[1], 1)]
    assert flat(conversation.receive_bytes(frames(b"2"))) == [(calls[2], 2)]


def test_by_order_an_error_fails_the_call_that_has_waited_longest() -> None:
    conversation = opened(BY_ORDER)
    first, second = sent(conversation, "say", 1), sent(conversation, "say", 2)
    effects = conversation.receive_bytes(frames(b"!no", b"2"))
    assert isinstance(error_of(effects, first), CallFailed)
    assert effects[1] == [(second, 2)]


def test_by_order_an_unrequested_reply_ends_the_conversation() -> None:
    conversation = opened(BY_ORDER)
    call = sent(conversation, "say", 1)
    effects = conversation.receive_bytes(frames(b"1", b"2"))
    assert effects[0] == [(call, 1)]
    assert ended_by_violation(effects[1]) == "X0602"


def test_by_order_a_reply_does_not_answer_a_call_that_was_sent_after_it_was_read() -> None:
    """The read is decoded item by item, and an effect of the first may send the next call."""
    by_order = with_traits(BY_ID, positional=True)

    class SendingCodec(askback.Codec):
        """Sends a call while it decodes, as another thread might."""

        def decode(self, frame: Bytes) -> Incoming:
            sent(conversation)
            return Reply(None, "too early")

    conversation = opened(replace(by_order, codec=lambda role: SendingCodec()))
    (effect,) = conversation.receive_bytes(line("anything"))
    assert ended_by_violation(effect) == "X0602"
    assert len(conversation.pending) == 1


def ended_by_violation(effect: Effect) -> str:
    assert isinstance(effect, End) and isinstance(effect.cause, Violated)
    assert not effect.retired
    return effect.cause.violation.code


# -- generators ------------------------------------------------------------------------------


def test_a_handshake_runs_step_by_step_and_its_value_ends_it() -> None:
    def handshake() -> Generator[Any, Any, Offer]:
        report = result_of((yield Request("initialize", 1)), "initialize")
        yield Notification("initialized", None)
        return Offer(name=report)

    conversation = Conversation(BY_ID, MAX_MESSAGE)
    call, effects = generator(conversation, handshake(), limits_each_request=True)
    assert effects[0] == SetDeadline(call, call.timeout)
    assert [output["method"] for output in written(effects)] == ["initialize"]
    effects = conversation.receive_bytes(reply(1, "toy"))
    assert [output["method"] for output in written(effects)] == ["initialized"]
    assert effects[-1] == [(call, Offer(name="toy"))]
    assert conversation.offer is NO_OFFER
    conversation.open(Offer(name="toy"))
    assert conversation.phase is Phase.OPEN and is_empty(conversation)


def test_without_a_limit_for_each_request_only_the_frame_is_written() -> None:
    def twice() -> Generator[Any, Any, Any]:
        yield Request("one")
        return (yield Request("two"))

    conversation = opened()
    call, effects = generator(conversation, twice())
    assert [type(effect) for effect in effects] == [WriteFrame]
    effects = conversation.receive_bytes(reply(1))
    assert [type(effect) for effect in effects] == [WriteFrame]
    assert call.id == 2, "each request has an id of its own"
    assert conversation.receive_bytes(failure(2, "no")) == [[(call, Failure(2, "no", -1))]]


def test_a_generator_is_sent_the_offer_when_it_asks_for_it() -> None:
    def ask() -> Generator[Any, Any, Any]:
        offer = yield GetOffer()
        reply = yield Request("echo", offer.name)
        return offer, reply

    conversation = opened()
    call, effects = generator(conversation, ask())
    assert written(effects)[0]["params"] == "toy"
    assert conversation.receive_bytes(reply(1, 5)) == [[(call, (OFFER, Reply(1, 5)))]]


def test_a_generator_may_end_before_its_first_request() -> None:
    def nothing() -> Generator[Any, Any, Any]:
        yield Notification("bye")
        return "done"

    call, effects = generator(opened(), nothing())
    assert len(written(effects)) == 1 and effects[-1] == [(call, "done")]


@pytest.mark.parametrize(
    ("error", "code"), [(CallFailed("X0701", "no"), "X0701"), (KeyError("tools"), "X0604")]
)
@pytest.mark.parametrize("at", ["begin", "reply"])
def test_an_exception_in_a_generator_fails_its_call_alone(
    error: Exception, code: str, at: str
) -> None:
    def fail() -> Generator[Any, Any, Any]:
        yield Notification("first")
        if at == "reply":
            yield Request("one")
        raise error

    conversation = opened()
    other = sent(conversation)
    call, effects = generator(conversation, fail())
    if at == "reply":
        effects = conversation.receive_bytes(reply(2))
    assert error_of(effects, call).code == code
    assert conversation.receive_bytes(reply(1, "fine")) == [[(other, "fine")]]


def test_a_step_that_cannot_be_encoded_fails_the_call() -> None:
    def unsayable() -> Generator[Any, Any, Any]:
        yield Request("echo", object())

    conversation = opened()
    call, effects = generator(conversation, unsayable())
    assert isinstance(error_of(effects, call), UsageError)
    assert is_empty(conversation)


def test_the_generator_of_a_call_that_is_given_up_is_closed() -> None:
    closed = []

    def wait() -> Generator[Any, Any, Any]:
        try:
            yield Request("one")
        finally:
            closed.append(True)

    conversation = opened()
    call, _ = generator(conversation, wait())
    conversation.abandon(call, "no reason")
    assert closed == [True]


# Waiting for a notification


def notice(n: int) -> bytes:
    return notification("told", n=n)


def test_a_generator_is_resumed_with_the_notification_that_it_waits_for() -> None:
    def wait() -> Generator[Any, Any, Any]:
        yield Notification("open")
        return (yield WaitFor("told", lambda params: bool(params["n"] == 2)))

    conversation = opened()
    call, effects = generator(conversation, wait())
    assert [output["method"] for output in written(effects)] == ["open"]
    effects = conversation.receive_bytes(notice(1) + notification("other", n=2) + notice(2))
    assert [type(effect) for effect in effects[:3]] == [Notified, Notified, Notified]
    assert effects[3:] == [[(call, Notification("told", {"n": 2}))]]
    assert is_empty(conversation)
    assert len(conversation.receive_bytes(notice(2))) == 1, "nobody waits any more"


def test_a_wait_of_its_own_length_ends_with_none_and_restores_the_deadline() -> None:
    def wait() -> Generator[Any, Any, Any]:
        received = yield WaitFor("told", seconds=0.5)
        return received, (yield Request("echo"))

    conversation = opened()
    call, effects = generator(conversation, wait())
    assert effects == [SetDeadline(call, 0.5)]
    effects = conversation.continue_without_reply(call)
    assert effects[0] == SetDeadline(call, None)
    assert conversation.receive_bytes(reply(2, 5)) == [[(call, (None, Reply(2, 5)))]]


def test_a_condition_that_raises_fails_its_call_alone() -> None:
    def wait(condition: Any) -> Generator[Any, Any, Any]:
        return (yield WaitFor("told", condition))

    conversation = opened()
    bad, _ = generator(conversation, wait(lambda params: params["nothing"]))
    good, _ = generator(conversation, wait(lambda params: True))
    effects = conversation.receive_bytes(notice(7))
    assert error_of([effects[1]], bad).code == "X0604"
    assert effects[2:] == [[(good, Notification("told", {"n": 7}))]]
    assert is_empty(conversation)


def test_a_wait_that_was_given_up_is_not_resumed() -> None:
    def wait() -> Generator[Any, Any, Any]:
        return (yield WaitFor("told"))

    conversation = opened()
    call, _ = generator(conversation, wait())
    conversation.abandon(call, "no reason")
    assert len(conversation.receive_bytes(notice(7))) == 1
    assert is_empty(conversation)


# A question to the host


def test_a_question_to_the_host_waits_under_an_id_that_no_child_can_send() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield Request("one")
        return (yield AskHost("config.get", {"key": 1}))

    conversation = opened()
    call, _ = generator(conversation, ask())
    (effect,) = conversation.receive_bytes(reply(1))
    assert isinstance(effect, RunHandler) and effect.call is call
    assert effect.request[:2] == ("config.get", {"key": 1})
    held = effect.request.id
    assert conversation.calls() == [call], "it can time out while it waits"
    for id in (2, [2]):
        assert all(
            isinstance(byte, Count | Stray) for byte in conversation.receive_bytes(reply(id))
        )
    assert conversation.resume(call, held, Reply(None, "yes")) == [[(call, Reply(None, "yes"))]]
    assert is_empty(conversation)


def test_the_answer_of_the_host_to_a_call_that_ended_meanwhile_is_dropped() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield AskHost("config.get", None)

    conversation = opened()
    call, (effect,) = generator(conversation, ask())
    assert isinstance(effect, RunHandler)
    conversation.abandon(call, "timed out")
    assert conversation.resume(call, effect.request.id, Reply(None, 1)) == []


# A request that may stay unanswered


def try_once() -> Generator[Any, Any, Any]:
    received = yield TryRequest(Request("maybe"), 3.0)
    then = yield Request("then")
    return received, then.result


def test_a_request_that_may_stay_unanswered_has_less_time() -> None:
    call, effects = generator(opened(), try_once())
    assert effects[1] == SetDeadline(call, 3.0)
    call, effects = generator(opened(), iter_tentative(60.0))
    assert effects[1] == SetDeadline(call, call.timeout / 2)
    assert handler_of(call).is_optional


def test_after_a_request_with_its_own_limit_the_deadline_of_the_call_applies_again() -> None:
    conversation = opened()
    call, _ = generator(conversation, try_once())
    effects = conversation.continue_without_reply(call)
    assert effects[0] == SetDeadline(call, None)
    whole = call.deadline
    call.limit_request(whole - 7)
    assert call.started_at == whole - call.timeout
    call.limit_request(None)
    assert call.deadline == whole


def test_a_question_to_the_host_has_the_deadline_of_the_call_again() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield TryRequest(Request("maybe"), 3.0)
        yield AskHost("config.get", None)

    conversation = opened()
    call, _ = generator(conversation, ask())
    effects = conversation.continue_without_reply(call)
    assert effects[0] == SetDeadline(call, None)
    assert not handler_of(call).is_optional, "the host answers, or the call times out"


def iter_tentative(seconds: float) -> Generator[Any, Any, Any]:
    return (yield TryRequest(Request("maybe"), seconds))


def handler_of(call: StubCall) -> Any:
    return call.reply_handler


def test_after_its_time_the_generator_goes_on_and_the_late_reply_is_not_a_fault() -> None:
    conversation = opened()
    call, _ = generator(conversation, try_once())
    effects = conversation.continue_without_reply(call)
    assert [output["method"] for output in written(effects)] == ["then"]
    assert not handler_of(call).is_optional
    assert conversation.receive_bytes(reply(1, "late")) == []
    assert conversation.receive_bytes(reply(1, "late")) == [LATE], "the second time it is one"
    assert conversation.receive_bytes(reply(2, "now")) == [[(call, (None, "now"))]]


def test_of_requests_that_stay_unanswered_only_a_few_are_remembered() -> None:
    def try_often() -> Generator[Any, Any, Any]:
        while True:
            yield TryRequest(Request("maybe"), 3.0)
            yield WaitFor("never", seconds=3.0)

    conversation = opened()
    call, _ = generator(conversation, try_often())
    for _ in range(200):
        conversation.continue_without_reply(call)
    late = [id for id in range(1, 200) if conversation.receive_bytes(reply(id, "late")) == []]
    assert 1 <= len(late) <= 8
    assert max(late) == 199


def test_a_reply_in_time_goes_to_the_generator() -> None:
    conversation = opened()
    call, _ = generator(conversation, try_once())
    conversation.receive_bytes(reply(1, "in time"))
    ((done,),) = conversation.receive_bytes(reply(2, "now"))  # type: ignore[misc]
    assert done == (call, (Reply(1, "in time"), "now"))


# A process that is used up


@pytest.mark.parametrize("error", [None, CallFailed("X0701", "no"), KeyError("x")])
def test_a_process_that_is_used_up_ends_before_its_call_does(error: Exception | None) -> None:
    def use_up() -> Generator[Any, Any, Any]:
        yield RetireProcess()
        yield Request("one")
        if error is not None:
            raise error
        return "done"

    conversation = opened()
    call, effects = generator(conversation, use_up())
    assert [type(effect) for effect in effects] == [WriteFrame]
    end, last = conversation.receive_bytes(reply(1))
    assert end == End(Retired("by id", "operation"), retired=True)
    if error is None:
        assert last == [(call, "done")]
    else:
        assert isinstance(last, Failed) and last.call is call


# Subscriptions

SUBSCRIPTION = Subscribe(Request("subscribe", "changes"), (1.0,), refetch_offer=True)


def test_a_subscription_is_sent_and_the_generator_goes_on_at_once() -> None:
    def subscribe() -> Generator[Any, Any, Any]:
        received = yield SUBSCRIPTION
        return received

    conversation = opened()
    call, effects = generator(conversation, subscribe())
    assert effects[0] == Subscribed(1, SUBSCRIPTION)
    assert written(effects) == [
        {"jsonrpc": "2.0", "method": "subscribe", "params": "changes", "id": 1}
    ]
    assert effects[-1] == [(call, None)]
    assert conversation.is_idle and conversation.calls() == []


@pytest.mark.parametrize(
    ("data", "notice"), [(reply(1), None), (failure(1, "no"), Failure(1, "no", -1))]
)
def test_the_reply_to_a_subscription_is_its_end(data: bytes, notice: Failure | None) -> None:
    conversation = opened()
    conversation.subscribe(SUBSCRIPTION)
    assert conversation.receive_bytes(data) == [SubscriptionEnded(1, notice)]
    assert conversation.receive_bytes(data) == [LATE]
    effects = conversation.subscribe(SUBSCRIPTION)
    assert effects[0] == Subscribed(2, SUBSCRIPTION), "sent again, under an id of its own"


# -- a reply that asks for more --------------------------------------------------------------


def maybe_more() -> OneRequestOrMoreHandler:
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


@pytest.mark.parametrize("dialect", BOTH)
def test_the_first_reply_is_mostly_the_last(dialect: Dialect) -> None:
    conversation = opened(dialect)
    call = StubCall("tool", 5, maybe_more())
    (output,) = written([WriteFrame(conversation.send(call))])
    assert (output["method"], output["params"]) == ("wire", {"with": 5})
    assert conversation.receive_bytes(reply(1, "done")) == [[(call, "done")]]


@pytest.mark.parametrize("dialect", BOTH)
def test_a_reply_may_ask_for_more_between_others_and_the_order_is_kept(dialect: Dialect) -> None:
    conversation = opened(dialect)
    before = sent(conversation)
    call = StubCall("tool", 5, maybe_more())
    conversation.send(call)
    after = sent(conversation)
    effects = conversation.receive_bytes(reply(1, 1) + reply(2, "more") + reply(3, 3))
    assert effects[0] == [(before, 1)] and effects[2] == [(after, 3)]
    assert written(effects) == [{"jsonrpc": "2.0", "method": "more", "params": 5, "id": 4}]
    assert conversation.receive_bytes(reply(4, "done")) == [[(call, "done")]]


@pytest.mark.parametrize("dialect", BOTH)
def test_a_refusal_of_the_second_request_fails_the_call(dialect: Dialect) -> None:
    conversation = opened(dialect)
    call = StubCall("tool", 5, maybe_more())
    conversation.send(call)
    conversation.receive_bytes(reply(1, "more"))
    assert isinstance(error_of(conversation.receive_bytes(failure(2)), call), CallFailed)
    assert is_empty(conversation)


@pytest.mark.parametrize("dialect", BOTH)
def test_an_error_reply_may_lead_to_another_request(dialect: Dialect) -> None:
    conversation = opened(dialect)
    call = StubCall("tool", 5, maybe_more())
    conversation.send(call)
    effects = conversation.receive_bytes(failure(1, "not so"))
    assert written(effects) == [{"jsonrpc": "2.0", "method": "more", "params": 5, "id": 2}]
    assert conversation.receive_bytes(reply(2, "done")) == [[(call, "done")]]


@pytest.mark.parametrize("dialect", BOTH)
def test_an_error_reply_that_leads_to_nothing_fails_the_call(dialect: Dialect) -> None:
    conversation = opened(dialect)
    call = StubCall("tool", 5, maybe_more())
    conversation.send(call)
    error = error_of(conversation.receive_bytes(failure(1, "no")), call)
    assert isinstance(error, CallFailed) and error.message.startswith("tool was answered")
    assert is_empty(conversation)


# -- streams ---------------------------------------------------------------------------------


def event(name: str, word: Any) -> bytes:
    return notification("watch.event", stream=name, event=word)


def delivered(effects: list[Effect]) -> list[tuple[Any, Any, bool]]:
    """Return stream, event and whether it is the last, for each event among these effects."""
    return [
        (effect.stream, effect.event, effect.is_last)
        for effect in effects
        if isinstance(effect, DeliverEvent)
    ]


def test_the_events_of_a_nameless_stream_come_until_its_reply() -> None:
    conversation = opened()
    run = stream(conversation, "run", {})
    data = notification("run.event", n=1)
    effects = conversation.receive_bytes(data + notification("run.event", n=2) + reply(1, "end"))
    assert delivered(effects) == [(run, 1, False), (run, 2, False)]
    assert isinstance(effects[0], DeliverEvent) and effects[0].size == len(data) - 1
    assert [type(effect) for effect in effects[:2]] == [DeliverEvent, Notified]
    assert effects[-1] == [(run.call, "end")]
    assert is_empty(conversation)
    assert conversation.receive_bytes(data)[0] == NO_STREAM


def test_named_streams_get_their_own_events_only() -> None:
    conversation = opened()
    a = stream(conversation, "watch", {"stream": "a"})
    b = stream(conversation, "watch", {"stream": "b"})
    effects = conversation.receive_bytes(event("b", 1) + event("a", 2) + event("c", 3))
    assert delivered(effects) == [(b, 1, False), (a, 2, False)]
    assert NO_STREAM in effects


@pytest.mark.parametrize("params", [None, [], {"event": 1}, {"stream": [1], "event": 1}])
def test_an_event_without_a_usable_name_is_of_no_stream(params: Any) -> None:
    conversation = opened()
    stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(line({"method": "watch.event", "params": params}))
    assert effects[0] == NO_STREAM and delivered(effects) == []


def test_an_acknowledged_stream_goes_on_until_its_last_event() -> None:
    conversation = opened()
    a = stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(event("a", 1) + reply(1, {"stream": "a"}))
    assert delivered(effects) == [(a, 1, False)] and effects[-1] == StreamAccepted(a)
    assert a.acknowledged and not conversation.pending
    assert conversation.calls() == [a.call] and not conversation.is_idle
    effects = conversation.receive_bytes(event("a", "done") + event("a", "done"))
    assert delivered(effects) == [(a, "done", True)]
    assert effects[1] == [(a.call, "done")]
    assert NO_STREAM in effects and is_empty(conversation)


def test_a_last_event_before_the_acknowledgement_ends_the_stream_with_it() -> None:
    conversation = opened()
    a = stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(event("a", "done"))
    assert delivered(effects) == [(a, "done", True)]
    assert conversation.calls() == [a.call], "it still waits for the acknowledgement"
    effects = conversation.receive_bytes(reply(1, {"stream": "a"}))
    assert effects == [StreamAccepted(a), [(a.call, "done")]]
    assert is_empty(conversation)


def test_a_last_event_that_is_null_ends_its_stream_all_the_same() -> None:
    kind = replace(
        BY_ID.streams["watch"],
        decode=lambda method, params: StreamEvent(params["event"], params["event"] is None),
    )
    for early in (True, False):
        conversation = opened(replace(BY_ID, streams={"watch": kind}))
        a = stream(conversation, "watch", {"stream": "a"})
        parts = [event("a", None), reply(1, {"stream": "a"})]
        effects = conversation.receive_bytes(b"".join(parts if early else parts[::-1]))
        assert [(a.call, None)] in effects, early
        assert is_empty(conversation)


def test_the_acknowledgement_of_another_stream_fails_the_call() -> None:
    conversation = opened()
    a = stream(conversation, "watch", {"stream": "a"})
    effects = conversation.receive_bytes(reply(1, {"stream": "b"}))
    assert error_of(effects, a.call).code == "X0605"
    assert is_empty(conversation)
    assert conversation.receive_bytes(event("a", 1))[0] == NO_STREAM


@pytest.mark.parametrize("method", ["run", "watch"])
def test_a_stream_that_is_refused_is_closed(method: str) -> None:
    conversation = opened()
    one = stream(conversation, method, {"stream": "a"})
    effects = conversation.receive_bytes(failure(1, "no"))
    assert isinstance(error_of(effects, one.call), CallFailed)
    assert is_empty(conversation)


def test_an_event_that_cannot_be_read_is_counted() -> None:
    conversation = opened()
    run = stream(conversation, "run", {})
    effects = conversation.receive_bytes(notification("run.event", wrong=1) + reply(1))
    warning = "dropped: the event run.event could not be read"
    assert effects[0] == Count("events that could not be read", warning, {"wrong": 1})
    assert effects[-1] == [(run.call, None)]


@pytest.mark.parametrize(("result", "code"), [("fine", None), ("bad", "X0701"), ("trip", "X0604")])
def test_the_reply_that_ends_a_stream_is_read_by_its_kind(result: str, code: str | None) -> None:
    """What fails in the dialect's code fails that call alone, as for a call without events."""

    def read(value: Any) -> Any:
        if value == "bad":
            raise CallFailed("X0701", "no")
        return {"fine": "very"}[value]

    kind = replace(BY_ID.streams["run"], result=read)
    conversation = opened(replace(BY_ID, streams={"run": kind}))
    run = stream(conversation, "run", {})
    other = sent(conversation)
    effects = conversation.receive_bytes(reply(1, result) + reply(2))
    if code is None:
        assert effects[0] == [(run.call, "very")]
    else:
        assert error_of(effects, run.call).code == code
    assert effects[-1] == [(other, None)]
    assert is_empty(conversation)


def test_a_dialect_that_fails_on_an_event_loses_that_event_and_nothing_else() -> None:
    def decode(method: str, params: Any) -> StreamEvent:
        return StreamEvent(params["n"])

    kind = StreamKind(notifications={"tick": None}, decode=decode)
    conversation = opened(replace(BY_ID, streams={"one": kind}))
    one = stream(conversation, "one", {})
    data = notification("tick", wrong=1) + notification("tick", n=2) + reply(1)
    effects = conversation.receive_bytes(data)
    warning = "dropped: the event tick could not be read"
    assert effects[0] == Count("events that could not be read", warning, {"wrong": 1})
    assert delivered(effects) == [(one, 2, False)]
    assert effects[-1] == [(one.call, None)]


def test_a_stream_that_cannot_be_asked_for_leaves_nothing_open() -> None:
    conversation = opened()
    with pytest.raises(UsageError):
        stream(conversation, "run", object())
    assert is_empty(conversation)


def test_two_streams_that_share_a_notification_both_get_it() -> None:
    kind = StreamKind(
        notifications={"tick": None}, decode=lambda method, params: StreamEvent(params)
    )
    conversation = opened(replace(BY_ID, streams={"one": kind, "two": kind}))
    one, two = stream(conversation, "one", {}), stream(conversation, "two", {})
    effects = conversation.receive_bytes(notification("tick", n=1))
    assert delivered(effects) == [(one, {"n": 1}, False), (two, {"n": 1}, False)]
    conversation.receive_bytes(reply(1))
    effects = conversation.receive_bytes(notification("tick", n=2))
    assert delivered(effects) == [(two, {"n": 2}, False)]


def test_leaving_a_stream_cancels_it_once() -> None:
    conversation = opened()
    a = stream(conversation, "watch", {"stream": "a"})
    conversation.receive_bytes(reply(1, {"stream": "a"}))
    request = Request("watch.cancel", {"stream": "a", "why": "enough"})
    assert conversation.leave(a, "enough") == [SendInternal(request)]
    assert conversation.leave(a, "enough") == []
    assert is_empty(conversation)


def test_a_nameless_stream_that_is_left_keeps_its_place_until_its_reply() -> None:
    conversation = opened()
    run = stream(conversation, "run", {})
    assert conversation.leave(run, "enough") == [
        SendInternal(Notification("run.cancel", {"why": "enough"}))
    ]
    assert conversation.pending == {1: run.call}
    assert conversation.receive_bytes(notification("run.event", n=1))[0] == NO_STREAM
    assert conversation.receive_bytes(reply(1)) == [[(run.call, None)]]


def test_others_wait_is_true_if_anything_but_this_stream_is_awaited() -> None:
    conversation = opened()
    run = stream(conversation, "run", {})
    assert not conversation.others_wait(run)
    watch = stream(conversation, "watch", {"stream": "a"})
    assert conversation.others_wait(run)
    conversation.receive_bytes(reply(2, {"stream": "a"}))
    assert conversation.others_wait(run), "events of the other one"
    watch.bytes = 2**40
    assert not conversation.others_wait(run), "which is as full as this one"
    sent(conversation)
    assert conversation.others_wait(run)


# -- requests and notifications of the child -------------------------------------------------


def test_a_request_of_the_child_is_served() -> None:
    effects = opened().receive_bytes(line({"method": "config.get", "params": 1, "id": "x"}))
    assert effects == [ServeRequest(Request("config.get", 1, "x"))]


def test_a_notification_comes_with_its_meaning() -> None:
    effects = opened().receive_bytes(notification("say", text="hi") + notification("unheard"))
    assert isinstance(effects[0], Notified) and type(effects[0].meaning).__name__ == "Log"
    assert effects[1] == Notified(Notification("unheard", {}), None, None)


@pytest.mark.parametrize(("id", "is_found"), [(1, True), (2, False), ("1", False), ([1], False)])
def test_progress_finds_its_call(id: Any, is_found: bool) -> None:
    conversation = opened()
    call = sent(conversation)
    (effect,) = conversation.receive_bytes(notification("progress", id=id, done=5))
    assert effect == Notified(
        Notification("progress", {"id": id, "done": 5}), Progress(id, 5), call if is_found else None
    )


# -- noise, over-long messages, batches, interrupts ------------------------------------------


def test_noise_is_skipped_and_reported() -> None:
    conversation = opened()
    call = sent(conversation)
    effects = conversation.receive_bytes(b"hello\n" + reply(1))
    assert isinstance(effects[0], Stray) and effects[0].data == b"hello"
    assert effects[1] == [(call, None)]


def test_noise_under_the_id_of_a_call_is_remembered_for_its_timeout() -> None:
    conversation = opened()
    call, other = sent(conversation), sent(conversation)
    effects = conversation.receive_bytes(b'{"id":1,"result":oops}\n')
    assert isinstance(effects[0], Stray) and len(effects) == 1
    assert call.unreadable_reply is not None and call.unreadable_reply[0] == 1
    assert other.unreadable_reply is None
    assert conversation.calls() == [call, other], "it may still be answered"


def test_noise_ends_the_conversation_where_the_dialect_says_so() -> None:
    conversation = opened(with_traits(BY_ID, positional=True))
    call = sent(conversation)
    effects = conversation.receive_bytes(reply(1) + b"hello\n" + reply(2))
    assert effects[0] == [(call, None)], "what came before it is not lost"
    assert ended_by_violation(effects[1]) == "X0602" and len(effects) == 2


def test_bytes_after_which_no_frame_can_be_found_end_the_conversation() -> None:
    conversation = opened(BY_ORDER)
    effects = conversation.receive_bytes(b"\xff\xff\xff\xff")
    assert ended_by_violation(effects[-1]) == "X0601"


def too_long(id: int) -> bytes:
    return line({"id": id, "result": "x" * MAX_MESSAGE})


def test_an_over_long_reply_fails_its_call_alone() -> None:
    conversation = opened()
    call, other = sent(conversation, "much"), sent(conversation)
    effects = conversation.receive_bytes(too_long(1) + reply(2))
    assert isinstance(effects[0], Count) and effects[0].name == "messages over the size limit"
    assert "4,096" in effects[0].warning
    error = error_of(effects, call)
    assert error.code == "X0603" and "much" in error.message
    assert effects[-1] == [(other, None)]


def test_an_over_long_reply_to_no_call_is_counted() -> None:
    (effect,) = opened().receive_bytes(too_long(5))
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
    conversation = opened()
    one = stream(conversation, method, {"stream": "a"})
    effects = conversation.receive_bytes(too_long(1))
    assert SendInternal(cancel) in effects
    assert error_of(effects, one.call).code == "X0603"
    assert is_empty(conversation)


class DecodingCodec(PlainCodec):
    """Decodes the line `now` to what it was given, or raises that."""

    def __init__(self, decoded: Any) -> None:
        self._decoded = decoded

    def decode(self, frame: Bytes) -> Incoming:
        if bytes(frame) != b"now":
            return super().decode(frame)
        if isinstance(self._decoded, BaseException):
            raise self._decoded
        decoded: Incoming = self._decoded
        return decoded


def decoding(decoded: Any) -> Conversation:
    return opened(replace(BY_ID, codec=lambda role: DecodingCodec(decoded)))


def test_the_messages_of_a_batch_are_handled_in_order() -> None:
    batch = Batch((Reply(2, "b"), Notification("say", "x"), Noise(b"?", "no"), Failure(1, "no")))
    conversation = decoding(batch)
    a, b = sent(conversation), sent(conversation)
    effects = conversation.receive_bytes(b"now\n")
    assert effects[0] == [(b, "b")]
    assert [type(effect) for effect in effects] == [list, Notified, Stray, Failed]
    assert isinstance(error_of(effects, a), CallFailed)


def test_the_bytes_of_a_batch_are_shared_among_its_events() -> None:
    conversation = decoding(
        Batch((Notification("run.event", {"n": 1}), Notification("run.event", {"n": 2})))
    )
    stream(conversation, "run", {})
    effects = conversation.receive_bytes(b"now\n")
    assert sum(effect.size for effect in effects if isinstance(effect, DeliverEvent)) <= 3


def test_an_empty_batch_is_nothing() -> None:
    assert decoding(Batch(())).receive_bytes(b"now\n") == []


def test_a_codec_that_fails_ends_the_conversation_and_loses_no_reply() -> None:
    error = KeyError("ours")
    conversation = decoding(error)
    call = sent(conversation)
    effects = conversation.receive_bytes(reply(1) + b"now\n")
    assert effects == [[(call, None)], End(NotUnderstood(error))]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_comes_after_the_replies_before_it(interrupt: BaseException) -> None:
    conversation = decoding(interrupt)
    call = sent(conversation)
    effects = conversation.receive_bytes(reply(1) + b"now\n")
    assert effects == [[(call, None)], Interrupt(interrupt)]


# -- giving up -------------------------------------------------------------------------------


def test_a_call_that_is_given_up_is_withdrawn_once() -> None:
    conversation = opened()
    call = sent(conversation)
    assert conversation.abandon(call, "timed out") == [
        SendInternal(Notification("cancelled", {"id": 1}))
    ]
    assert conversation.abandon(call, "timed out") == []
    assert is_empty(conversation)


def test_during_the_handshake_nothing_is_withdrawn() -> None:
    conversation = Conversation(BY_ID, MAX_MESSAGE)
    call = sent(conversation)
    assert conversation.abandon(call, "timed out") == []


@pytest.mark.parametrize("cancel_message", [None, lambda request, why: None])
def test_a_dialect_may_have_no_words_for_giving_up(cancel_message: Any) -> None:
    conversation = opened(replace(BY_ID, cancel_message=cancel_message))
    assert conversation.abandon(sent(conversation), "timed out") == []


def test_by_order_giving_up_ends_the_conversation() -> None:
    conversation = opened(BY_ORDER)
    call = sent(conversation, "say", 1)
    effects = conversation.abandon(call, "timed out")
    assert effects == [End(GivenUp("byorder", "say", "timed out"))]
    assert conversation.abandon(call, "timed out") == []


def test_a_call_that_was_never_sent_needs_no_withdrawal() -> None:
    for dialect in (BY_ID, BY_ORDER):
        assert opened(dialect).abandon(StubCall(), "cancelled") == []


@pytest.mark.parametrize("acknowledged", [True, False])
def test_giving_up_a_stream_cancels_it(acknowledged: bool) -> None:
    conversation = opened()
    a = stream(conversation, "watch", {"stream": "a"})
    if acknowledged:
        conversation.receive_bytes(reply(1, {"stream": "a"}))
    effects = conversation.abandon(a.call, "enough")
    cancel = SendInternal(Request("watch.cancel", {"stream": "a", "why": "enough"}))
    withdrawal = SendInternal(Notification("cancelled", {"id": 1}))
    assert effects == [cancel] if acknowledged else [cancel, withdrawal]
    assert is_empty(conversation)


def test_giving_up_a_stream_that_ended_before_its_acknowledgement_withdraws_the_request() -> None:
    conversation = opened()
    a = stream(conversation, "watch", {"stream": "a"})
    conversation.receive_bytes(event("a", "done"))
    assert conversation.abandon(a.call, "enough") == [
        SendInternal(Notification("cancelled", {"id": 1}))
    ]


def test_giving_up_between_two_requests_withdraws_the_one_in_flight() -> None:
    def twice() -> Generator[Any, Any, Any]:
        yield Request("one")
        yield Request("two")

    conversation = opened()
    call, _ = generator(conversation, twice())
    conversation.receive_bytes(reply(1))
    assert conversation.abandon(call, "enough") == [
        SendInternal(Notification("cancelled", {"id": 2}))
    ]


# -- the end ---------------------------------------------------------------------------------


def test_the_end_returns_every_call_once_and_leaves_nothing() -> None:
    def ask() -> Generator[Any, Any, Any]:
        yield AskHost("config.get", None)

    conversation = opened()
    simple = sent(conversation)
    run = stream(conversation, "run", {})
    watch = stream(conversation, "watch", {"stream": "a"})
    asking, _ = generator(conversation, ask())
    conversation.subscribe(SUBSCRIPTION)
    conversation.receive_bytes(reply(3, {"stream": "a"}))
    calls = conversation.end()
    assert len(calls) == 4 and set(calls) == {simple, run.call, watch.call, asking}
    assert conversation.phase is Phase.CLOSED and is_empty(conversation)
    with pytest.raises(KeyError):
        conversation.end()


def test_after_the_end_replies_meet_no_call() -> None:
    conversation = opened()
    sent(conversation)
    run = stream(conversation, "run", {})
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


def test_a_conversation_is_idle_without_calls_of_users() -> None:
    conversation = opened()
    call = sent(conversation)
    assert not conversation.is_idle
    call.internal = True
    assert conversation.is_idle


def test_the_request_of_a_call_has_the_form_of_its_dialect() -> None:
    frame = whole(opened().send(StubCall("echo", [1])))
    assert frame == b'{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}\n'


def test_errors_of_effects_are_errors_of_ours() -> None:
    conversation = opened()
    call = sent(conversation)
    assert isinstance(error_of(conversation.receive_bytes(failure(1)), call), ExthostError)


# Large messages that have begun


class RecognisingCodec(PlainCodec):
    """JSON-RPC that recognises replies by their first bytes, as the built-in codecs do."""

    may_be_reply = staticmethod(jsontext.may_be_reply)


RECOGNISING = replace(BY_ID, codec=lambda role: RecognisingCodec())
NOTIFICATION_HEAD = b'{"jsonrpc":"2.0","method":"told","params":[['


def test_without_a_call_no_large_message_serves_one() -> None:
    assert Conversation(RECOGNISING, MAX_MESSAGE).may_serve_call(b"xxx"), "in the handshake"
    conversation = opened(RECOGNISING)
    for head in (b"", b'{"result":[', b'{"id":1,"result":[', NOTIFICATION_HEAD):
        assert not conversation.may_serve_call(head)


def test_beside_a_call_a_large_message_may_serve_it_if_it_may_be_its_reply() -> None:
    conversation = opened(RECOGNISING, first_id=7)
    call = sent(conversation)
    for head in (b'{"id":7,"result":[', b'{"jsonrpc":"2.0","result":[', b"", b'[{"id":7'):
        assert conversation.may_serve_call(head), head
    for head in (b'{"id":8,"result":[', NOTIFICATION_HEAD, b"xxx"):
        assert not conversation.may_serve_call(head), head
    conversation.abandon(call, "a timeout")
    assert not conversation.may_serve_call(b'{"id":7,"result":[')


@pytest.mark.parametrize("dialect", [BY_ID, BY_ORDER])
def test_a_codec_that_recognises_no_reply_leaves_it_open(dialect: Dialect) -> None:
    conversation = opened(dialect)
    assert not conversation.may_serve_call(b"xxx")
    sent(conversation)
    assert conversation.may_serve_call(b"xxx")


def test_beside_a_stream_or_a_wait_any_large_message_may_serve_it() -> None:
    conversation = opened(RECOGNISING)
    stream(conversation, "watch", {"stream": "a"})
    assert conversation.may_serve_call(NOTIFICATION_HEAD)

    def wait() -> Generator[Any, Any, Any]:
        yield WaitFor("told")

    conversation = opened(RECOGNISING)
    generator(conversation, wait())
    assert conversation.may_serve_call(NOTIFICATION_HEAD)
