"""Why a session ended, and the errors for a child or a consumer that broke a rule.

An `EndCause` is data. An error is made of it later and separately for each call, because more may
be known by then (the exit status, the last lines of stderr), and because each error names its own
call. Whether the conversation continues is decided where the fault is found, not here.
"""

from dataclasses import replace
from typing import NamedTuple, Protocol, TypeAlias

from exthost.errors import (
    Evidence,
    ExtensionGone,
    ExthostError,
    ProtocolViolation,
    UsageError,
)
from exthost.messages import Noise
from exthost.wire.framing import Broken

# How many bytes of something that is not a message a person needs to recognise it.
SHOWN_BYTES = 200

_SEE_STDERR = "what it wrote to stderr tells more"


class Observations(Protocol):
    """What is known of the child. `exit` says in words how it ended, or is "" while it runs. If
    `redacts` is true, the child's output must not be shown."""

    extension: str
    redacts: bool

    @property
    def exit(self) -> str: ...

    def evidence(self, offending: bytes = b"") -> Evidence: ...


# -- why a session ended ---------------------------------------------------------------------


class Died(NamedTuple):
    """Its process has exited, perhaps in the middle of a frame."""

    broken: Broken | None = None

    def error(self, seen: Observations, method: str) -> ExthostError:
        during = f" while {method} was under way" if method else ""
        message = f"it ended{during}: {seen.exit}{_inside(self.broken)}"
        return _gone(seen, "X1001", message, _SEE_STDERR, self.broken)


class ClosedPipe(NamedTuple):
    """It closed a pipe. It may have exited since, or still run."""

    name: str
    broken: Broken | None = None

    def error(self, seen: Observations, method: str) -> ExthostError:
        if seen.exit:
            return Died(self.broken).error(seen, method)
        consequence = f", so {method} is lost" if method else ""
        message = f"it closed its {self.name} and still runs{consequence}{_inside(self.broken)}"
        help = "an extension keeps its pipes for as long as it lives"
        return _gone(seen, "X1002", message, help, self.broken)


class GivenUp(NamedTuple):
    """A call was given up. In its dialect a late reply could not be distinguished from the next."""

    dialect: str
    call: str
    why: str

    def error(self, seen: Observations, method: str) -> ExthostError:
        message = (
            f"it was ended because {self.call} was given up ({self.why}): "
            f"{self.dialect} answers by order"
        )
        return _gone(seen, "X1003", message, "the next call gets a fresh process")


class Retired(NamedTuple):
    """An operation left the process in a state in which no other operation can begin."""

    dialect: str
    call: str

    def error(self, seen: Observations, method: str) -> ExthostError:
        message = (
            f"it was ended after {self.call}, which leaves a {self.dialect} extension unusable"
        )
        return _gone(seen, "X1020", message, "the next call gets a fresh process")


class Stalled(NamedTuple):
    """It does not read its stdin."""

    seconds: float

    def error(self, seen: Observations, method: str) -> ExthostError:
        consequence = f", so {method} is lost" if method else ""
        message = f"it has not read its stdin for {self.seconds:g} s{consequence}"
        return _gone(seen, "X1004", message, "the extension hangs: look at what it is doing")


class ClosedByHost(NamedTuple):
    """The host ended it."""

    def error(self, seen: Observations, method: str) -> ExthostError:
        message = f"it was closed while {method} was under way" if method else "it was closed"
        return _gone(seen, "X1005", message, "close an extension after its last call")


class Violated(NamedTuple):
    """It broke the rules of its dialect."""

    violation: ProtocolViolation

    def error(self, seen: Observations, method: str) -> ExthostError:
        return copy_error(with_evidence(self.violation, seen))


class NotUnderstood(NamedTuple):
    """Code of the host or the dialect failed on the child's output."""

    exception: Exception

    def error(self, seen: Observations, method: str) -> ExthostError:
        return with_evidence(not_understood_error(self.exception), seen)


EndCause: TypeAlias = (
    Died | ClosedPipe | GivenUp | Retired | Stalled | ClosedByHost | Violated | NotUnderstood
)


def _inside(broken: Broken | None) -> str:
    return f"; {broken.why}" if broken is not None else ""


def _gone(
    seen: Observations, code: str, message: str, help: str, broken: Broken | None = None
) -> ExtensionGone:
    evidence = seen.evidence(broken.head if broken is not None else b"")
    if help is _SEE_STDERR and not evidence.stderr:
        help = "it wrote nothing to stderr: run its command by hand to see why it ends"
    return ExtensionGone(code, message, extension=seen.extension, help=help, evidence=evidence)


# -- mistakes of a child or a consumer -------------------------------------------------------


def unreadable_output_error(broken: Broken, dialect: str) -> ProtocolViolation:
    """Return the error for bytes after which the next frame cannot be found."""
    return ProtocolViolation(
        "X0601",
        f"its output cannot be read any further: {broken.why}",
        help=f"does it speak {dialect}, and nothing else, on its stdout?",
        evidence=_offending(broken.head),
    )


def not_a_message_error(noise: Noise) -> ProtocolViolation:
    """Return the error for a frame that is not a message, in a dialect where that is fatal."""
    return ProtocolViolation(
        "X0602",
        f"it wrote something that is no message: {noise.why}",
        help="an extension must write nothing but messages to stdout",
        evidence=_offending(noise.data),
    )


def reply_too_long_error(why: str, method: str, head: bytes) -> ProtocolViolation:
    """Return the error for a reply over the size limit."""
    return ProtocolViolation(
        "X0603",
        f"{why}, in answer to {method}",
        help="raise limits.max_message for this extension, or ask for less",
        evidence=_offending(head),
    )


def not_understood_error(exception: Exception) -> ProtocolViolation:
    """Return the error for an exception in the dialect's code that read the child's output."""
    return ProtocolViolation(
        "X0604",
        f"what it wrote could not be understood: {exception!r}",
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
        help="read the stream faster, or leave it when you have what you need",
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
    """Return a copy for one caller. An error that is raised twice would collect both tracebacks."""
    copy = type(error).__new__(type(error))
    copy.__dict__.update(error.__dict__)
    copy.args = error.args
    return copy


def failed_twice_error(first: ExthostError, second: ExthostError) -> ExthostError:
    """Return the error of a call that was sent to two processes and got no reply from either."""
    error = copy_error(second)
    error.message = f"{first.message}; sent once more: {second.message}"
    error.args = (error.message,)
    return error


def with_evidence(error: ExthostError, seen: Observations) -> ExthostError:
    """Add what is known of the child to an error that was made without it."""
    if not error.evidence.argv:
        own = error.evidence
        bytes = "" if seen.redacts else own.bytes
        error.evidence = replace(
            seen.evidence(), bytes=bytes, details=own.details, answer=own.answer
        )
    error.extension = error.extension or seen.extension
    return error


def _offending(data: bytes) -> Evidence:
    return Evidence(bytes=data[:SHOWN_BYTES].decode("utf-8", "backslashreplace"))
