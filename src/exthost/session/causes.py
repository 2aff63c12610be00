"""Why a session ended, worded for the one who waits: each awaited call gets an error of its own.

A cause is made when it becomes known and worded when it is told, because in between more may be
learnt (the exit status, the last of stderr) and because each call is named in its own error.
"""

from collections.abc import Callable
from typing import TypeAlias

from exthost.errors import ExtensionGone, ExthostError, ProtocolViolation, UsageError
from exthost.session.witness import Witness
from exthost.wire.framing import Broken

_SEE_STDERR = "what it wrote to stderr tells more"

Cause: TypeAlias = Callable[[str], ExthostError]
"""From the name of what was waited for ("" for nothing) to the error it ends with."""


def forked() -> UsageError:
    """Who asks is a copy of the process that started it."""
    return UsageError(
        "X1317",
        "this host was opened by another process, of which this one is a copy (fork)",
        help="open a host of its own here, or fork before you open one",
    )


def died(witness: Witness, broken: Broken | None = None) -> Cause:
    """Its process is gone, perhaps in the middle of a frame."""

    def worded(method: str) -> ExthostError:
        while_asked = f" while {method} was under way" if method else ""
        message = f"it ended{while_asked}: {witness.exit}{_inside(broken)}"
        return _gone(witness, "X1001", message, _SEE_STDERR, broken)

    return worded


def closed_pipe(witness: Witness, name: str, broken: Broken | None = None) -> Cause:
    """It closed a pipe and, as it turns out, lives on or is gone."""

    def worded(method: str) -> ExthostError:
        if witness.exit:
            return died(witness, broken)(method)
        lost = f", so {method} is lost" if method else ""
        message = f"it closed its {name} and still runs{lost}{_inside(broken)}"
        help = "an extension keeps its pipes for as long as it lives"
        return _gone(witness, "X1002", message, help, broken)

    return worded


def _inside(broken: Broken | None) -> str:
    return f"; {broken.why}" if broken is not None else ""


def given_up(witness: Witness, dialect: str, call: str, why: str) -> Cause:
    """A call was given up, and in its dialect a late answer could not be told from the next."""

    def worded(method: str) -> ExthostError:
        message = f"it was ended because {call} was given up ({why}): {dialect} answers by order"
        return _gone(witness, "X1003", message, "the next call gets a fresh process")

    return worded


def spent(witness: Witness, dialect: str, call: str) -> Cause:
    """An operation left it expecting what no other operation begins with."""

    def worded(method: str) -> ExthostError:
        message = f"it was ended after {call}, which leaves a {dialect} extension out of step"
        return _gone(witness, "X1020", message, "the next call gets a fresh process")

    return worded


def stalled(witness: Witness, seconds: float) -> Cause:
    """It does not read what we write."""

    def worded(method: str) -> ExthostError:
        lost = f", so {method} is lost" if method else ""
        message = f"it has not read its stdin for {seconds:g} s{lost}"
        return _gone(witness, "X1004", message, "the extension hangs: look at what it is doing")

    return worded


def closed_by_us(witness: Witness) -> Cause:
    """We ended it."""

    def worded(method: str) -> ExthostError:
        message = f"it was closed while {method} was under way" if method else "it was closed"
        return _gone(witness, "X1005", message, "close an extension after its last call")

    return worded


def violated(error: ExthostError) -> Cause:
    """It broke the rules; everyone is told the same."""
    return lambda method: copy_of(error)


def not_understood(witness: Witness, error: Exception) -> Cause:
    """Our own reading of it failed."""

    def worded(method: str) -> ExthostError:
        return ProtocolViolation(
            "X0604",
            f"what it wrote could not be understood: {error!r}",
            extension=witness.extension,
            help="if the extension is right, this is a bug in its dialect here: report it",
            evidence=witness.evidence(),
        )

    return worded


def copy_of(error: ExthostError) -> ExthostError:
    """One for each who is told: a raised error collects its raiser's traceback."""
    copy = type(error).__new__(type(error))
    copy.__dict__.update(error.__dict__)
    copy.args = error.args
    return copy


def told_twice(first: ExthostError, second: ExthostError) -> ExthostError:
    """A call was sent to two processes, and neither answered it."""
    told = copy_of(second)
    told.message = f"{first.message}; sent once more: {second.message}"
    told.args = (told.message,)
    return told


def _gone(
    witness: Witness, code: str, message: str, help: str, broken: Broken | None = None
) -> ExtensionGone:
    evidence = witness.evidence(broken.head if broken is not None else b"")
    if help is _SEE_STDERR and not evidence.stderr:
        help = "it wrote nothing to stderr: run its command by hand to see why it ends"
    return ExtensionGone(code, message, extension=witness.extension, help=help, evidence=evidence)
