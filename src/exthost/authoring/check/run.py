"""Runs every check of one extension within a time limit, and returns the report.

The command `exthost check` and the pytest plugin call `run_checks`.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence

from exthost.authoring.check import survivors
from exthost.authoring.check.checked_process import (
    AnswerTimeout,
    CheckedProcess,
    NoAnswer,
    describe_error,
)
from exthost.authoring.check.conversation_checks import SLOW_START_SECONDS, ConversationChecks
from exthost.authoring.check.findings import Report
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.life_checks import LifeChecks
from exthost.authoring.check.offer_audit import (
    audit_declared_tools,
    audit_emptiness,
    audit_offer,
    audit_stderr,
)
from exthost.authoring.check.settings import Settings
from exthost.authoring.check.starter import Starter
from exthost.dialects.base import Dialect
from exthost.dialects.conformance import Conformance
from exthost.dialects.find import find_conformance_of, find_dialect_of, find_manifest_format
from exthost.errors import CallFailed, ExthostError, HandshakeFailed, ProtocolViolation
from exthost.launch.advice import find_missing, suggest_network, suggest_variable
from exthost.model.offer import Offer
from exthost.model.spec import Spec
from exthost.process.procfs import processor_wait

_RUN_BY_HAND = "run the command by hand, in the same folder, until it waits for input"
_WROTE_NOTHING = (
    "it wrote nothing: does it flush stdout after each message, and does it read stdin in a loop?"
)

# A healthy program, too, may report on stderr that it waits for input.
_SEE_STDERR = (
    "see its stderr; if it does not name the cause: does the program flush stdout after each "
    "message, and does it read stdin in a loop?"
)

_DOES_NOT_FLUSH = "flush stdout after each message: in Python print(…, flush=True)"

_EXITED = "it must read stdin until its end, and exit only then; with the SDK, call ext.run()"

# Rules that the audit checks on every message that is received.
_MESSAGE_RULES = ("stdout-noise", "byte-order-mark", "frame", "message-size")
_JSON_RULES = (
    "json", "utf8", "number", "message-form", "notification-form",
    "reply-id", "reply-id-type", "reply-once", "reply-form", "notification-reply",
)  # fmt: skip
_OFFER_RULES = ("offer", "tool-names", "tools", "input-schema", "output-schema")


async def run_checks(
    spec: Spec,
    environ: Mapping[str, str],
    settings: Settings,
    *,
    announce: Callable[[str], None] | None = None,
) -> Report:
    """Check an extension and return the report. Mistakes of the extension are never raised.
    `announce` is called with a line for a person if the first handshake takes long."""
    dialect = find_dialect_of(spec)
    conformance = find_conformance_of(dialect)
    ledger = Ledger(conformance)
    starter = Starter(
        spec, dialect, conformance, environ, ledger, settings.reply_seconds, announce=announce
    )
    began = time.perf_counter()
    default_reason = "not reached"
    try:
        async with asyncio.timeout(settings.seconds):
            default_reason = await _check(starter, settings, conformance, ledger)
    except TimeoutError:
        record_timeout(
            ledger,
            settings.seconds,
            has_connected=starter.has_connected,
            start_seconds=starter.all_starts_seconds,
        )
        default_reason = "out of time"
    else:
        ledger.mark_checked("time", time.perf_counter() - began)
    seconds = time.perf_counter() - began
    return Report(spec.id, spec.dialect, ledger.outcomes(default_reason), seconds)


def record_timeout(
    ledger: Ledger, seconds: float, *, has_connected: bool, start_seconds: float
) -> None:
    """Record that the checks did not finish within `seconds`. `has_connected` is whether a
    handshake has succeeded, `start_seconds` the time that all starts took together.

    The timeout is a fault if no handshake succeeded, or if starts took less than half of the time.
    If starts took more, it is only a warning, because a program that starts slowly may still keep
    every rule.
    """
    if not has_connected:
        ledger.add_finding("time", f"it did not finish its handshake in {seconds:g} s")
        return
    if start_seconds < seconds / 2:
        ledger.add_finding("time", f"the checks did not finish in {seconds:g} s")
        return
    reason = f"its starts took {start_seconds:.1f} of the {seconds:g} s"
    ledger.skip("time", f"{reason}: raise --timeout")
    fix = "give the checks more time: --timeout 10m; import and connect when first needed"
    ledger.add_finding("speed", f"{reason}, and some checks were not reached", fix=fix)


async def _check(
    starter: Starter, settings: Settings, conformance: Conformance, ledger: Ledger
) -> str:
    """Run the checks. Return the reason why the remaining rules were not checked."""
    began = time.perf_counter()
    # A tool that is called may leave processes, which can be found by this mark. So the process
    # whose tools are called is started by a separate starter, `first`.
    mark = survivors.make_mark() if settings.calls and survivors.can_look() else ""
    first = starter.make_plain(survivors.MARK_NAME, mark) if mark else starter
    try:
        try:
            process, offer = await first.connect()
        except (NoAnswer, HandshakeFailed, ProtocolViolation, CallFailed) as error:
            await _record_failed_handshake(error, first, ledger)
            return "the handshake failed"
        except ExthostError as error:
            ledger.add_finding("start", error.message, fix=error.help)
            return "it could not be started"
        ledger.mark_checked("start")
        start_seconds = time.perf_counter() - began
        ledger.mark_checked("handshake", start_seconds)
        # A busy machine is not a fault of the extension.
        if start_seconds - processor_wait(process.pipes.pid) > SLOW_START_SECONDS:
            ledger.add_finding(
                "speed", f"it takes {start_seconds:.1f} s until its handshake is over"
            )
        ledger.add_message_problems(process)
        _check_offer(offer, starter.spec, conformance, ledger)
        conversation = ConversationChecks(first, conformance, ledger, settings)
        await conversation.run(process, offer)
        ledger.add_problems(audit_stderr(process.pipes.stderr))
        life = LifeChecks(starter, ledger, settings.reply_seconds)
        left_by_calls = []
        if conversation.process is not None:
            # A process that the check has killed cannot end what it started.
            is_first = conversation.process is process
            left_by_calls = await life.check_shutdown(
                conversation.process, first, mark if is_first else ""
            )
        if mark:
            survivors.kill_survivors(-1, mark)
        await life.check_orphans(left_by_calls)
        await life.check_split_messages()
        await life.check_restart(offer)
        await life.check_early_end()
    finally:
        await starter.release_all()
        if mark:
            await first.release_all()
            survivors.kill_survivors(-1, mark)
            starter.add_starts(first)
    _mark_message_rules_checked(starter.dialect, conformance, ledger)
    return "not needed in this dialect"


async def _record_failed_handshake(
    error: NoAnswer | ExthostError, starter: Starter, ledger: Ledger
) -> None:
    """Record why the first handshake failed, and end its process."""
    process = starter.latest
    assert process is not None
    # What the process has done by itself, before `release_all` ends it.
    has_ended = process.pipes.status is not None or process.pipes.ended.is_set()
    has_exited = has_ended and not isinstance(error, AnswerTimeout)
    await starter.release_all()
    ledger.mark_checked("start")
    message, fix = _explain_handshake(error, process, starter.spec, has_exited=has_exited)
    ledger.add_finding("handshake", message, process, fix=fix)


def _check_offer(offer: Offer, spec: Spec, conformance: Conformance, ledger: Ledger) -> None:
    """Check the offer: the tools, hooks and capabilities that the handshake announced."""
    ledger.add_problems(audit_offer(offer, conformance.offer_warnings))
    if spec.manifest is None:  # a manifest may declare what the handshake does not
        if not ledger.has("handshake"):  # a faulty reply may be why nothing is offered
            ledger.add_problems(audit_emptiness(offer, conformance.empty_fix))
    elif (format := find_manifest_format(spec.dialect)) and format.lists_tools:
        ledger.add_problems(audit_declared_tools(spec.declared_tools, offer))
    other_rules = (warning.rule for warning in conformance.offer_warnings if warning.rule)
    _mark_all_checked(ledger, (*_OFFER_RULES, *other_rules))


def _mark_message_rules_checked(dialect: Dialect, conformance: Conformance, ledger: Ledger) -> None:
    """Mark the rules that every message was checked against, as far as the dialect has them."""
    _mark_all_checked(ledger, _MESSAGE_RULES)
    if not conformance.is_json:
        return
    _mark_all_checked(ledger, _JSON_RULES)
    if conformance.has_version:
        ledger.mark_checked("version-member")
    if conformance.error_form:
        ledger.mark_checked("error-form")
    if dialect.framing(2**20).suffix is not None:  # each message is a line
        ledger.mark_checked("one-line")


def _explain_handshake(
    error: NoAnswer | ExthostError, process: CheckedProcess, spec: Spec, *, has_exited: bool
) -> tuple[str, str]:
    """Return why a handshake failed, and what to do; "" for the fix that the rule suggests. A cause
    that stderr names comes first. `has_exited`: the process ended by itself."""
    reason = describe_error(error)
    problems = [problem for problem, _ in process.problems]
    rules = dict.fromkeys(problem.rule for problem in problems if problem.rule != "handshake")
    advice = f"correct the faults reported below for {', '.join(rules)}" if rules else ""
    if isinstance(error, ExthostError):
        # A mistake in a message explains more than the refusal that follows from it.
        own_fixes = (problem.fix for problem in problems if problem.rule == "handshake")
        return reason, advice or next(own_fixes, "") or error.help
    if process.writes_at_end_only:
        return f"{reason}; it wrote only when its stdin was closed", _DOES_NOT_FLUSH
    stderr = process.pipes.stderr
    launch = process.launch
    if missing := (
        suggest_variable(launch.environment, stderr, launch.enforced)
        or find_missing(stderr, spec.argv, spec.cwd)
    ):
        return f"{missing}; {reason}", _RUN_BY_HAND
    exception = _find_exception(stderr)
    if exception:
        reason = f"it failed with {exception}; {reason}"
    if process.has_written and not exception and not (stderr and has_exited):
        return reason, advice
    if stderr:
        fix = _RUN_BY_HAND if exception or has_exited else _SEE_STDERR
    else:
        fix = _EXITED if has_exited else _WROTE_NOTHING
    is_silent = not process.has_written
    argv = launch.plan.argv
    return reason, suggest_network(
        launch.enforced, fix, stderr, is_silent=is_silent, ended=has_exited, argv=argv
    )


# The margin of the lines of an exception group.
_GROUP_MARGIN = re.compile(r"^ *[|+] ")


def _find_exception(stderr: Sequence[str]) -> str:
    """Return the exception of the last Python traceback; "" if there is none. In an exception group
    this is the last of its exceptions that has a traceback."""
    lines = [_GROUP_MARGIN.sub("", line) for line in stderr]
    exception = ""
    is_inside = False
    for line in lines:
        if line.endswith("Traceback (most recent call last):"):
            is_inside = True
        elif is_inside and line and not line[0].isspace():
            exception, is_inside = line, False
    return exception


def _mark_all_checked(ledger: Ledger, names: tuple[str, ...]) -> None:
    for name in names:
        ledger.mark_checked(name)
