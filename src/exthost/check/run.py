"""Runs every check of one extension within a time limit, and returns the report."""

import asyncio
import time
from collections.abc import Mapping

from exthost.check.conversation_checks import SLOW_START_SECONDS, ConversationChecks
from exthost.check.findings import Report
from exthost.check.ledger import Ledger
from exthost.check.life_checks import LifeChecks
from exthost.check.offer_audit import audit_offer
from exthost.check.peer import NoAnswer, reason_of
from exthost.check.settings import Settings
from exthost.check.starter import Starter
from exthost.dialects.conformance import Conformance
from exthost.dialects.find import conformance_of, find_dialect
from exthost.errors import CallFailed, ExthostError, HandshakeFailed, ProtocolViolation
from exthost.spec import Spec

# Rules about messages: every message that comes is held to them.
_MESSAGE_RULES = ("stdout-noise", "byte-order-mark", "frame", "message-size")
_JSON_RULES = ("json", "utf8", "number", "reply-id", "reply-id-type", "reply-once", "reply-form")
_OFFER_RULES = ("tools", "input-schema", "output-schema")


async def run_checks(spec: Spec, environ: Mapping[str, str], settings: Settings) -> Report:
    """Check an extension. What is wrong with it is in the report, and never raised."""
    conformance = conformance_of(spec.dialect)
    ledger = Ledger(conformance)
    began = time.perf_counter()
    otherwise = "not reached"
    try:
        async with asyncio.timeout(settings.seconds):
            otherwise = await _check(spec, environ, settings, conformance, ledger)
    except TimeoutError:
        ledger.find("time", f"the checks did not finish in {settings.seconds:g} s")
        otherwise = "out of time"
    else:
        ledger.passed("time", time.perf_counter() - began)
    seconds = time.perf_counter() - began
    return Report(spec.id, spec.dialect, ledger.outcomes(otherwise), seconds)


async def _check(
    spec: Spec,
    environ: Mapping[str, str],
    settings: Settings,
    conformance: Conformance,
    ledger: Ledger,
) -> str:
    """Run the checks. Return why those that were not run were not."""
    dialect = find_dialect(spec.dialect)
    began = time.perf_counter()
    starter = Starter(spec, dialect, conformance, environ, ledger, settings.reply_seconds)
    try:
        try:
            peer, offer = await starter.connect()
        except (NoAnswer, HandshakeFailed, ProtocolViolation, CallFailed) as error:
            await starter.release_all()
            ledger.passed("start")
            help = error.help if isinstance(error, ExthostError) else ""
            ledger.find("handshake", reason_of(error), starter.latest, fix=help)
            return "the handshake failed"
        except ExthostError as error:
            ledger.find("start", error.message, fix=error.help)
            return "it could not be started"
        ledger.passed("start")
        took = time.perf_counter() - began
        ledger.passed("handshake", took)
        if took > SLOW_START_SECONDS:
            ledger.find("speed", f"it takes {took:.1f} s until its handshake is over")
        ledger.note(audit_offer(offer))
        _pass_all(ledger, _OFFER_RULES)
        conversation = ConversationChecks(starter, conformance, ledger, settings)
        await conversation.run(peer, offer)
        life = LifeChecks(starter, ledger, settings.reply_seconds)
        if conversation.peer is not None:
            await life.end_in_order(conversation.peer)
        await life.read_pieces()
        await life.start_again(offer)
        await life.end_early()
    finally:
        await starter.release_all()
    _pass_all(ledger, _MESSAGE_RULES)
    if conformance.is_json:
        _pass_all(ledger, _JSON_RULES)
        if conformance.has_version:
            ledger.passed("version-member")
        if conformance.error_form:
            ledger.passed("error-form")
        if dialect.framing(2**20).suffix is not None:
            ledger.passed("one-line")
    return "not needed in this dialect"


def _pass_all(ledger: Ledger, names: tuple[str, ...]) -> None:
    for name in names:
        ledger.passed(name)
