"""Effects: values that a conversation returns, each of which says what its session must do.

A session is the host's end of one process (the child), and does the I/O. Its conversation decodes
what was read and matches replies to calls, without I/O. The session performs the effects at once
and in order. The most common effect is a plain list of `(call, value)` pairs: the calls that one
read completed, in the order of their replies. If another effect comes between two replies, the
second reply is in a new list.
"""

from typing import Any, NamedTuple, TypeAlias

from exthost.dialects.meanings import Meaning
from exthost.dialects.steps import Subscribe
from exthost.errors import ExthostError
from exthost.model.messages import Failure, Id, Notification, Request
from exthost.session.call import Call
from exthost.session.failures import EndCause
from exthost.session.stream_queue import StreamQueue

Completions: TypeAlias = list[tuple[Call, Any]]
"""Each of these calls ends with the value beside it, as its result."""

Frame: TypeAlias = bytes | tuple[bytes, ...]
"""The framed bytes of one message. A large message is in parts, which saves a copy."""


def join_frame(frame: Frame) -> bytes:
    """Return a frame in one piece."""
    return frame if isinstance(frame, bytes) else b"".join(frame)


class Failed(NamedTuple):
    """The call ends with this error."""

    call: Call
    error: ExthostError


class WriteFrame(NamedTuple):
    """Write this frame to the child."""

    frame: Frame


class SendInternal(NamedTuple):
    """Send a message that the host itself makes, and whose reply is not needed."""

    message: Request | Notification


class SetDeadline(NamedTuple):
    """Give the request of this call this many seconds from now; None restores the deadline of the
    call."""

    call: Call
    seconds: float | None


class DeliverEvent(NamedTuple):
    """An event of a stream arrived in a frame of `size` bytes."""

    stream: StreamQueue
    event: Any
    size: int
    is_last: bool


class StreamAccepted(NamedTuple):
    """The child has accepted a stream, whose events follow."""

    stream: StreamQueue


class ServeRequest(NamedTuple):
    """The child sent a request to the host."""

    request: Request


class RunHandler(NamedTuple):
    """A reply to this call contains a request to the host. `Conversation.resume` takes the host's
    answer."""

    call: Call
    request: Request


class Subscribed(NamedTuple):
    """A request was sent that stays open as long as the session."""

    id: Id
    subscription: Subscribe


class SubscriptionEnded(NamedTuple):
    """The child replied to a request that should stay open."""

    id: Id | None
    failure: Failure | None


class Notified(NamedTuple):
    """The child sent a notification. `meaning` is what it means in its dialect; `call` is the call
    whose progress it reports, if any."""

    notification: Notification
    meaning: Meaning
    call: Call | None


class Stray(NamedTuple):
    """The child wrote stray output: `data`, which is not a message, and the reason."""

    data: bytes
    reason: str


class Count(NamedTuple):
    """Something was dropped, and is counted under `name`. `warning` is logged if it is not
    empty, together with `content` if the dialect allows output in logs."""

    name: str
    warning: str = ""
    content: Any = None


class End(NamedTuple):
    """The conversation is over."""

    cause: EndCause
    # True if the process did nothing wrong, but its last call left it unable to take another.
    retired: bool = False


class Interrupt(NamedTuple):
    """Raise this exception (KeyboardInterrupt, for example) after the effects before it. It was
    raised while a read was decoded."""

    exception: BaseException


Effect: TypeAlias = (
    Completions
    | Failed
    | WriteFrame
    | SendInternal
    | SetDeadline
    | DeliverEvent
    | StreamAccepted
    | ServeRequest
    | RunHandler
    | Subscribed
    | SubscriptionEnded
    | Notified
    | Stray
    | Count
    | End
    | Interrupt
)
