"""Operations and handshakes of a dialect, and the steps that their generators may yield.

An operation is one of three things:

    OneRequest        one request and its reply
    OneRequestOrMore  one request, whose reply may lead to more
    a generator       any number of steps

A generator yields one step at a time and is resumed with the step's outcome:

    Request        resumed with its Reply or Failure
    Notification   resumed with None
    TryRequest     resumed with its Reply or Failure, or with None if neither arrived in time
    Subscribe      resumed with None at once
    WaitFor        resumed with the Notification, or with None if it did not come in time
    AskHost        resumed with the Reply or Failure of the host's own handler
    GetOffer       resumed with the Offer of this session's handshake
    RetireProcess  resumed with None
    CancelWith     resumed with None

For example, an operation of two requests, each sent when the reply to the one before has arrived:

    def _plan_and_apply(params):
        plan = result_of((yield Request("plan", params)), "plan")
        return result_of((yield Request("apply", plan)), "apply")

The generator returns the value of the operation, or raises one of the errors in `exthost.errors`.
It does no I/O and never waits: the session does both, and handles everything else that the
extension sends in the meantime. A handshake is such a generator, too. It returns an Offer (what the
extension announces), and cannot yield AskHost, GetOffer, RetireProcess and CancelWith.
"""

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, NamedTuple, TypeAlias

from exthost.errors import CallFailed, HandshakeFailed
from exthost.model.messages import Failure, Notification, Reply, Request
from exthost.model.offer import Offer

# JSON-RPC's code for a method that the other end does not have.
METHOD_NOT_FOUND = -32601


class GetOffer(NamedTuple):
    """Get the Offer of this session's handshake. Sends nothing.

    A handshake can store in its Offer what operations need later, such as an option.
    """


class RetireProcess(NamedTuple):
    """End the process when this operation is over. Sends nothing.

    For an extension that would misread the next operation, because it still waits for another
    message of this one.
    """


class CancelWith(NamedTuple):
    """From now on, cancel the operation with this message if its call is given up, in place of the
    dialect's own cancellation. Sends nothing.

    For an operation that continues in the extension while none of its requests is open.
    """

    message: Request | Notification


class TryRequest(NamedTuple):
    """Send a request to which some extensions do not reply.

    After `seconds`, or after half of the call's time limit if that is shorter, the generator is
    resumed with None. A reply that comes later is ignored.
    """

    request: Request
    seconds: float


class Subscribe(NamedTuple):
    """Send a request that stays open as long as the session. The generator does not wait for its
    reply.

    If the extension replies without an error, the request is sent again: the first time after
    `pauses[0]` seconds, then after `pauses[1]`, and so on. After the last pause, or after an error
    reply, it is not sent any more. With `refetch_offer` the host also requests the tools again each
    time, since it may have missed changes while the request was not open.
    """

    request: Request
    pauses: tuple[float, ...] = ()
    refetch_offer: bool = False


def _any_params(params: Any) -> bool:
    return True


class WaitFor(NamedTuple):
    """Wait for a notification of the extension. Sends nothing.

    The first notification of this method whose params `matches` accepts resumes the generator.
    The notification is also handled as usual. Notifications that arrived before this step do not
    count, even if they arrived between a request of the generator and its reply; but between that
    reply and this step none is missed. After `seconds`, or after half of the call's time limit if
    that is shorter, the generator is resumed with None. If `seconds` is None, the time limit of the
    call applies.
    """

    method: str
    matches: Callable[[Any], bool] = _any_params
    seconds: float | None = None


class AskHost(NamedTuple):
    """Pass a request that was contained in a reply to the handlers of the host, as if the extension
    had sent the request as a separate message."""

    method: str
    params: Any


Outgoing: TypeAlias = Request | Notification
Received: TypeAlias = Reply | Failure | Notification | Offer | None
Step: TypeAlias = (
    Outgoing | GetOffer | RetireProcess | CancelWith | TryRequest | Subscribe | WaitFor | AskHost
)
Exchanges: TypeAlias = Generator[Step, Received, Any]
Handshake: TypeAlias = Generator[Outgoing | TryRequest | Subscribe | WaitFor, Received, Offer]


class OneRequest(NamedTuple):
    """An operation of one request. `request` returns the method and the params of the message,
    given the params of the operation. `result` converts the result; None leaves it unchanged."""

    request: Callable[[Any], tuple[str, Any]]
    result: Callable[[Any], Any] | None = None


class OneRequestOrMore(NamedTuple):
    """An operation whose first reply is usually its last one.

    request     returns the method and the params of the message
    finish      takes the params of the operation and the result; returns the value of the
                operation, raises an ExthostError, or returns a generator that continues the
                operation; None leaves the result unchanged
    on_failure  takes the params of the operation and an error reply; returns a generator that
                continues the operation, or None if the error reply ends it
    """

    request: Callable[[Any], tuple[str, Any]]
    finish: Callable[[Any, Any], Any] | None
    on_failure: Callable[[Any, Failure], Exchanges | None] | None = None


Operation: TypeAlias = OneRequest | OneRequestOrMore | Callable[[Any], Exchanges]


def as_generator(operation: Operation, params: Any, name: str) -> Exchanges:
    """Return an operation of any kind as a generator. `name` is its name in errors."""
    if isinstance(operation, OneRequest):
        result = result_of((yield Request(*operation.request(params))), name)
        return result if operation.result is None else operation.result(result)
    if not isinstance(operation, OneRequestOrMore):
        return (yield from operation(params))
    request, finish, on_failure = operation
    received = yield Request(*request(params))
    if isinstance(received, Failure) and on_failure is not None:
        steps = on_failure(params, received)
        if steps is not None:
            return (yield from steps)
    result = result_of(received, name)
    value = result if finish is None else finish(params, result)
    return (yield from value) if isinstance(value, GeneratorType) else value


def result_of(received: Received, method: str) -> Any:
    """Return the result of a reply. Raises CallFailed for an error reply. For use in generators."""
    if isinstance(received, Reply):
        return received.result
    assert isinstance(received, Failure), "the session answers a Request with a Reply or a Failure"
    raise call_failed_error(received, method)


def call_failed_error(failure: Failure, method: str) -> CallFailed:
    """Return the exception for an error reply of an extension."""
    code = "" if failure.code is None else f" (code {failure.code})"
    text = failure.message if failure.message.strip() else "it gives no reason"
    return CallFailed(
        "X0701",
        f"{method} was answered with an error{code}: {text}",
        error_code=failure.code,
        error_message=failure.message,
        data=failure.data,
        help="this is the extension's own answer; check the arguments, or the log of the extension",
    )


def handshake_result(received: Received, method: str = "initialize") -> Any:
    """Return the result of the first request of a handshake. Raises HandshakeFailed for an error
    reply."""
    try:
        return result_of(received, method)
    except CallFailed as refused:
        is_unknown = refused.error_code == METHOD_NOT_FOUND
        raise HandshakeFailed(
            "X0502",
            f"it refused to initialize: {refused.error_message or 'it gives no reason'}",
            help=f"it does not know {method}: does it speak this dialect?"
            if is_unknown
            else "the text after the colon is its own answer: add what it requires to `config` or "
            "`env` of its entry, or fix the extension",
        ) from None
