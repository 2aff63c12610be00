"""What to call it when a peer breaks the rules, or a consumer does: a session's errors, worded.

Only words: who is told, and whether the conversation survives, is decided where the thing is seen.
"""

from exthost.errors import ProtocolViolation, UsageError
from exthost.messages import Noise
from exthost.session.witness import Witness
from exthost.wire.framing import Broken


def unreadable(witness: Witness, broken: Broken, dialect: str) -> ProtocolViolation:
    """After these bytes nobody knows where the next frame begins."""
    return ProtocolViolation(
        "X0601",
        f"its output cannot be read any further: {broken.why}",
        extension=witness.extension,
        help=f"does it speak {dialect}, and nothing else, on its stdout?",
        evidence=witness.evidence(broken.head),
    )


def no_message(witness: Witness, noise: Noise) -> ProtocolViolation:
    """A frame that is no message, in a dialect where that is fatal."""
    return ProtocolViolation(
        "X0602",
        f"it wrote something that is no message: {noise.why}",
        extension=witness.extension,
        help="an extension must write nothing but messages to stdout",
        evidence=witness.evidence(noise.data),
    )


def too_long(witness: Witness, why: str, method: str, head: bytes) -> ProtocolViolation:
    """An answer over the cap, to a call that waits for it."""
    return ProtocolViolation(
        "X0603",
        f"{why}, in answer to {method}",
        extension=witness.extension,
        help="raise limits.max_message for this extension, or ask for less",
        evidence=witness.evidence(head),
    )


def acknowledged_another(witness: Witness, method: str) -> ProtocolViolation:
    """A stream was opened, and another one acknowledged."""
    return ProtocolViolation(
        "X0605",
        f"it acknowledged another stream than the one that {method} opened",
        extension=witness.extension,
        help="the extension must answer with the id that it was given",
        evidence=witness.evidence(),
    )


def overrun(extension: str) -> UsageError:
    """A stream's consumer does not read, and others wait behind it."""
    return UsageError(
        "X1306",
        "this stream was not read: its queue is full, and other calls wait behind it",
        extension=extension,
        help="read the stream faster, or leave it when you have what you need",
    )
