"""Why a session ended (`EndCause`), and the errors for broken rules of the protocol or of streams.

A session is the host's end of one process, the child. An `EndCause` is a value. Its `error` method
makes an error for each call that was in flight. It is called later than the end, when the exit
status and the last lines of stderr may be known. Each error names its own call.
"""

from dataclasses import replace
from typing import NamedTuple, Protocol, TypeAlias

from exthost.errors import (
    Evidence,
    ExtensionGone,
    ExthostError,
    ProtocolViolation,
    Refused,
    UsageError,
)
from exthost.model.messages import Noise
from exthost.model.shortened_text import shorten_to
from exthost.wire.framing import Broken

# The number of bytes of faulty output that errors and logs show: enough to recognise it.
SHOWN_BYTES = 200

_SEE_STDERR = "see its stderr for the cause"

# An exit whose description contains one of these was caused by that limit, which a run by hand does
# not have. An example is "it used up its processor time (limits.cpu is 10 s)".
_LIMIT_KEYS = ("limits.", "max_memory")


class ChildFacts(Protocol):
    """Facts about the child, which `Diagnostics` supplies.

    extension  the id of the extension
    redacts    whether the child's output must not appear in errors
    exit       how the child ended, as text; "" while it runs
    is_lost    whether it ran on a node of a cluster that was lost

    `hide_in_error` hides the secrets of the extension in an error.
    """

    extension: str
    redacts: bool

    @property
    def exit(self) -> str: ...

    @property
    def is_lost(self) -> bool: ...

    def evidence(self, offending: bytes = b"") -> Evidence: ...
    def hide_in_error(self, error: ExthostError) -> None: ...


# -- why a session ended ---------------------------------------------------------------------


class Died(NamedTuple):
    """The process has exited, perhaps in the middle of a frame (`broken`)."""

    broken: Broken | None = None

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        during = f" during {method}" if method else ""
        message = f"it ended{during}: {facts.exit}{_describe_broken(self.broken)}"
        return _gone_error(facts, "X1001", message, _SEE_STDERR, self.broken)


class ClosedPipe(NamedTuple):
    """The process closed its stdin or stdout. It may have exited since, or still run."""

    name: str
    broken: Broken | None = None

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        if facts.exit:
            return Died(self.broken).error(facts, method)
        consequence = f", so {method} is lost" if method else ""
        message = (
            f"it closed its {self.name} and still runs{consequence}{_describe_broken(self.broken)}"
        )
        help = "an extension keeps its pipes for as long as it lives"
        return _gone_error(facts, "X1002", message, help, self.broken)


class GivenUp(NamedTuple):
    """The host ended the process because a call was given up: in its positional dialect
    (replies carry no id and match requests by order) a late reply would match the next call."""

    dialect: str
    call: str
    reason: str

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        message = (
            f"it was ended because {self.call} was given up ({self.reason}): "
            f"{self.dialect} answers by order"
        )
        return _gone_error(facts, "X1003", message, "the next call gets a new process")


class Retired(NamedTuple):
    """The host ended the process because an operation left it unable to take another call."""

    dialect: str
    call: str

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        message = (
            f"it was ended after {self.call}, which leaves a {self.dialect} extension unusable"
        )
        return _gone_error(facts, "X1020", message, "the next call gets a new process")


class Stalled(NamedTuple):
    """The process has not read its stdin for too long."""

    seconds: float

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        consequence = f", so {method} is lost" if method else ""
        message = f"it has not read its stdin for {self.seconds:g} s{consequence}"
        return _gone_error(facts, "X1004", message, "the extension hangs: find out why")


class ClosedByHost(NamedTuple):
    """The host ended the process, by a stop or a restart."""

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        message = f"it was closed during {method}" if method else "it was closed"
        return _gone_error(facts, "X1005", message, "close an extension after its last call")


class Violated(NamedTuple):
    """The process broke a rule of its dialect."""

    violation: ProtocolViolation

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        return copy_error(add_evidence(self.violation, facts))


class PinBroken(NamedTuple):
    """The host ended the process because its tools are no longer the pinned ones: those that the
    lock file records."""

    refused: Refused

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        return copy_error(self.refused)


class NotUnderstood(NamedTuple):
    """Code of the host or the dialect failed on the child's output."""

    exception: Exception

    def error(self, facts: ChildFacts, method: str) -> ExthostError:
        return add_evidence(not_understood_error(self.exception), facts)


EndCause: TypeAlias = (
    Died
    | ClosedPipe
    | GivenUp
    | Retired
    | Stalled
    | ClosedByHost
    | Violated
    | PinBroken
    | NotUnderstood
)


def _describe_broken(broken: Broken | None) -> str:
    """Return the end of an error message that says which frame the output broke off in."""
    return f"; {broken.reason}" if broken is not None else ""


def _gone_error(
    facts: ChildFacts, code: str, message: str, help: str, broken: Broken | None = None
) -> ExtensionGone:
    """Return the error of a call whose process has ended."""
    evidence = facts.evidence(broken.head if broken is not None else b"")
    # The general help is replaced by a more specific one, where one is known.
    if help is _SEE_STDERR and facts.is_lost:
        help = "the node failed, not the extension: is that machine up, reachable, overloaded?"
    elif help is _SEE_STDERR and any(key in facts.exit for key in _LIMIT_KEYS):
        help = "raise that limit, or make the extension use less"
    elif help is _SEE_STDERR and not evidence.stderr:
        help = "it wrote nothing to stderr: run its command by hand to see why it ends"
    return ExtensionGone(code, message, extension=facts.extension, help=help, evidence=evidence)


# -- mistakes of a child or a consumer -------------------------------------------------------


def unreadable_output_error(broken: Broken, dialect: str) -> ProtocolViolation:
    """Return the error for output in which the next frame cannot be found."""
    return ProtocolViolation(
        "X0601",
        f"its output cannot be read any further: {broken.reason}",
        help=f"does it speak {dialect}, and nothing else, on its stdout?",
        evidence=_offending_evidence(broken.head),
    )


def not_a_message_error(noise: Noise) -> ProtocolViolation:
    """Return the error for a frame that is not a message, in a dialect where that is fatal."""
    return ProtocolViolation(
        "X0602",
        f"it wrote something that is not a message: {noise.reason}",
        help="an extension must write nothing but messages to stdout",
        evidence=_offending_evidence(noise.data),
    )


def reply_too_long_error(reason: str, method: str, head: bytes) -> ProtocolViolation:
    """Return the error for a reply over the size limit."""
    return ProtocolViolation(
        "X0603",
        f"{reason}, in answer to {method}",
        help="raise limits.max_message for this extension, or request less",
        evidence=_offending_evidence(head),
    )


def unreadable_reply_error(noise: Noise, method: str) -> ProtocolViolation:
    """Return the error for a reply that contains something that its notation does not allow."""
    return ProtocolViolation(
        "X0606",
        f"its answer to {method} cannot be read: {noise.reason}",
        help="the extension has to answer with a message of its dialect",
        evidence=_offending_evidence(noise.data),
    )


def not_understood_error(exception: Exception) -> ProtocolViolation:
    """Return the error for an exception in the dialect's code, raised by the child's output."""
    return ProtocolViolation(
        "X0604",
        f"its output could not be read: {shorten_to(SHOWN_BYTES, repr(exception))}",
        help="if the extension is right, this is a bug in its dialect here: report it",
    )


def wrong_acknowledgement_error(method: str) -> ProtocolViolation:
    """Return the error for an acknowledgement that names another stream."""
    return ProtocolViolation(
        "X0605",
        f"it acknowledged another stream than the one that {method} opened",
        help="the extension must answer with the id that it was given",
    )


def stream_overrun_error(extension: str) -> UsageError:
    """Return the error for a stream that is not read while other calls wait behind it."""
    return UsageError(
        "X1306",
        "this stream was not read: its queue is full, and other calls wait behind it",
        extension=extension,
        help="read the stream faster, or close it when you need no more events",
    )


def used_after_fork_error() -> UsageError:
    """Return the error for a call in a fork of the process that opened the host."""
    return UsageError(
        "X1317",
        "this host was opened by another process, of which this one is a copy (fork)",
        help="open a host of its own here, or fork before you open one",
    )


# -- errors that several callers get ---------------------------------------------------------


def copy_error(error: ExthostError) -> ExthostError:
    """Return a copy for one caller. An error object that is raised twice would collect the
    tracebacks of both callers."""
    copy = type(error).__new__(type(error))
    copy.__dict__.update(error.__dict__)
    copy.args = error.args
    return copy


def failed_twice_error(first_error: ExthostError, second_error: ExthostError) -> ExthostError:
    """Return the error of a call that was sent to two processes and got no reply from either."""
    error = copy_error(second_error)
    error.message = f"{first_error.message}; sent once more: {second_error.message}"
    error.args = (error.message,)
    return error


def not_resent_error(first_error: ExthostError, second_error: ExthostError) -> ExthostError:
    """Return the error of a call that lost its process and was not sent to another one."""
    error = copy_error(second_error)
    error.message = f"{first_error.message}; it was not sent again: {second_error.message}"
    error.args = (error.message,)
    return error


def add_evidence(error: ExthostError, facts: ChildFacts) -> ExthostError:
    """Add the evidence about the child (command line, exit status, last stderr lines) to an error
    that was made without it, and hide the secrets of the extension in the error."""
    if not error.evidence.argv:
        old_evidence = error.evidence
        bytes = "" if facts.redacts else old_evidence.bytes
        error.evidence = replace(
            facts.evidence(), bytes=bytes, details=old_evidence.details, answer=old_evidence.answer
        )
        facts.hide_in_error(error)
    error.extension = error.extension or facts.extension
    return error


def _offending_evidence(data: bytes) -> Evidence:
    return Evidence(bytes=data[:SHOWN_BYTES].decode("utf-8", "backslashreplace"))
