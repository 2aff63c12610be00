"""Shaking hands, and saying well why it failed: the first five minutes with any extension.

Everything that can go wrong here ends in HandshakeFailed with the evidence: the exit status, the
last lines of stderr, and, where its first bytes show it, that it speaks another dialect.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exthost.errors import (
    CallFailed,
    CallTimeout,
    ExtensionGone,
    ExthostError,
    HandshakeFailed,
)
from exthost.model import Introduction, Offer
from exthost.session.state import Call
from exthost.wire.guess import looks_like

if TYPE_CHECKING:
    from exthost.session.session import Session


async def shake_hands(
    session: "Session", introduction: Introduction, *, fallback: bool = False
) -> Offer:
    """Run the dialect's handshake, or the one it falls back to: each of its questions has the
    handshake's time limit."""
    desk, limit = session.desk, session.limits.handshake
    assert limit is not None
    future: asyncio.Future[Any] = desk.loop.create_future()
    make = session.dialect.fallback if fallback else None
    steps = (make or session.dialect.handshake)(introduction)
    call = Call.of("the handshake", None, future, limit, desk.now()).through(steps)
    call.each = call.aside = True
    session.launch(call)
    desk.watch(call)
    try:
        offer = await future
        session.opened(offer)
    except HandshakeFailed as error:
        seen = session.witness.evidence()
        error.evidence = replace(seen, bytes=error.evidence.bytes)
        error.extension = desk.extension
        raise
    except ExthostError as error:
        raise _failed(session, error) from None
    except asyncio.CancelledError:
        desk.cancel(call)
        raise
    assert isinstance(offer, Offer)
    return offer


def _failed(session: "Session", error: ExthostError) -> HandshakeFailed:
    dialect, first = session.dialect, session.witness.first_output
    if isinstance(error, CallTimeout):
        code, message = "X0504", f"it did not shake hands in {session.limits.handshake:g} s"
        if not first:
            message += ", and wrote nothing to stdout at all"
        help = f"does it speak {dialect.name}? and does it flush what it prints?"
    elif isinstance(error, ExtensionGone):
        code, message = "X0501", f"it was gone before it shook hands: {error.message}"
        help = "run its command by hand: what it writes to stderr tells why"
    elif isinstance(error, CallFailed):
        code, message, help = "X0502", f"it refused the handshake: {error.message}", error.help
    else:
        code, message, help = "X0505", f"it broke the handshake: {error.message}", error.help
    guessed = looks_like(first)
    if guessed is not None and guessed[0] is not dialect.framing:
        code = "X0506"
        message = f"{message}; you said {dialect.name}, but it {guessed[1]}"
        help = "choose the dialect it speaks, with --dialect or `dialect = …`"
    evidence = replace(session.witness.evidence(), bytes=first.decode("utf-8", "backslashreplace"))
    return HandshakeFailed(
        code, message, extension=session.desk.extension, help=help, evidence=evidence
    )
