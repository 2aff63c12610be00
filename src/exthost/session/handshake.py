"""The handshake with a fresh process, and a clear error when it fails.

Every failure ends in HandshakeFailed with the evidence: the exit status, the last lines of stderr
and, where the first bytes show it, that the program speaks another dialect.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.sniff import sniff
from exthost.dialects.steps import Exchanges, Handshake
from exthost.errors import CallFailed, CallTimeout, ExtensionGone, ExthostError, HandshakeFailed
from exthost.offer import Offer
from exthost.session.session import Session


class HandshakeProgress(NamedTuple):
    """The progress of a handshake, seen from outside: how many bytes the child has not read yet,
    and the first bytes of its output."""

    unread_bytes: int
    first_output: bytes


def progress_of(session: Session) -> HandshakeProgress:
    """Return the progress of this session's handshake."""
    return HandshakeProgress(session.unread_bytes(), session.first_output)


async def shake_hands(
    session: Session, context: HandshakeContext, *, fallback: bool = False
) -> Offer:
    """Run the dialect's handshake, or its fallback. The time limit applies to each request."""
    make = session.dialect.fallback if fallback else None
    steps = (make or session.dialect.handshake)(context)
    offer = await _run(session, "the handshake", steps, session.open)
    assert isinstance(offer, Offer)
    return offer


async def greet(session: Session, steps: Exchanges) -> None:
    """Run the exchanges that the dialect needs after the handshake, before any call."""
    await _run(session, "what follows the handshake", steps, _ignore)


def _ignore(_: Any) -> None:
    pass


async def _run(
    session: Session, name: str, steps: Exchanges | Handshake, done: Callable[[Any], None]
) -> Any:
    limit = session.limits.handshake
    assert limit is not None
    call = session.internal.run_operation(name, steps, limit, limits_each_request=True)
    try:
        value = await call.future
        done(value)
    except HandshakeFailed as error:
        error.evidence = replace(session.diagnostics.evidence(), bytes=error.evidence.bytes)
        error.extension = session.diagnostics.extension
        raise
    except ExthostError as error:
        raise _failed(session, error) from None
    except asyncio.CancelledError:
        session.internal.cancel(call)
        raise
    return value


def _failed(session: Session, error: ExthostError) -> HandshakeFailed:
    dialect, first = session.dialect, session.first_output
    if isinstance(error, CallTimeout):
        code, message = "X0504", f"it did not shake hands in {session.limits.handshake:g} s"
        if not first:
            message += ", and wrote nothing to stdout at all"
        help = (
            f"does it speak {dialect.name}? and does it flush what it prints? if it is slow to "
            "start, as a program that is compiled first, raise limits.handshake"
        )
    elif isinstance(error, ExtensionGone):
        code, message = "X0501", f"it was gone before it shook hands: {error.message}"
        help = "run its command by hand: what it writes to stderr tells why"
    elif isinstance(error, CallFailed):
        code, message, help = "X0502", f"it refused the handshake: {error.message}", error.help
    else:
        code, message, help = "X0505", f"it broke the handshake: {error.message}", error.help
    sniffed = sniff(first)
    speaks_another = sniffed is not None and sniffed.framing is not dialect.framing
    if sniffed is not None and speaks_another:
        code = "X0506"
        others = ", ".join(sniffed.dialects)
        message = f"{message}; you said {dialect.name}, but it answers in {sniffed.form} ({others})"
        help = "choose the dialect it speaks, with --dialect or `dialect = …`"
    evidence = session.diagnostics.evidence()
    return HandshakeFailed(
        code,
        message,
        extension=session.diagnostics.extension,
        help=help,
        permanent=speaks_another,
        process_ended=isinstance(error, ExtensionGone) and not speaks_another,
        evidence=replace(evidence, bytes=first.decode("utf-8", "backslashreplace")),
    )
