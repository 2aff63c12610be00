"""Explains why the output of a child is not what its dialect expects, for a failed handshake.

For example, a child (the extension's process) wrote `{"ID": 1, "result": {}}`. That is not a reply,
because its id is missing, so the host waited for the reply in vain. The error then says what is
wrong with that line. Checks the first bytes of the output against the rules of the dialect, as
`exthost check` does. It is used only after a failure, so the modules that it needs are imported
lazily.
"""

from collections.abc import Collection
from typing import NamedTuple

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Role
from exthost.errors import ConfigError, ProtocolViolation
from exthost.model.messages import Batch, Failure, Id, Incoming, Noise, Notification, Reply, Request
from exthost.process.stdout_reader import FIRST_BYTES
from exthost.wire.framing import Broken, Skipped

# Rules that a reply may break and still be read.
_HARMLESS = frozenset(
    {"stdout-noise", "byte-order-mark", "version-member", "error-form", "notification-form"}
)

# The rules that a reply with neither result nor error breaks. It is read as the result null.
_MISSING_RESULT = frozenset({"reply-form"})


class Diagnosis(NamedTuple):
    """A fault in the output: `message` describes it, `help` says how to fix it, and `data` are the
    bytes that show it."""

    message: str
    help: str
    data: bytes


def diagnose_output(
    dialect: Dialect, output: bytes, ids: range, *, was_read: bool = False
) -> Diagnosis | None:
    """Return the fault in the first output of a child that makes the handshake fail, or None.

    `ids` are the ids of the requests that were sent. `was_read`: the replies could be read, so only
    a reply without a result is searched for.
    """
    from exthost.dialects.conformance import Problem
    from exthost.dialects.find import find_conformance_of
    from exthost.dialects.message_audit import MessageAudit, explain_violation
    from exthost.dialects.rules import find_rule

    try:
        conformance = find_conformance_of(dialect)
    except ConfigError:  # a dialect object that belongs to no installed package
        return None
    audit = MessageAudit(conformance)
    # 0 as well, because a dialect may choose that id for its first request (`Request.id`).
    expected_ids = {0, *ids}
    for id in expected_ids:
        audit.add_request(id, "the handshake")
    # A size limit far above FIRST_BYTES, the maximum length of `output`.
    framing, codec = dialect.framing(2**26), dialect.codec(Role.HOST)
    problems: list[Problem] = audit.check_bytes(output)
    for item in framing.feed(output):
        if isinstance(item, Skipped | Broken):
            problems.append(audit.check_item(item))
            continue
        if dialect.traits.positional:  # its replies have no id: decoding one needs its request
            continue
        try:
            incoming = codec.decode(item)
        except ProtocolViolation as violation:
            problems.append(explain_violation(violation.message, bytes(item)))
            incoming = Noise(b"", "")
        frame_problems = audit.check_frame(item, incoming)
        if was_read or not _is_understood(incoming, expected_ids):
            problems += frame_problems
    broken = framing.end()
    # Of a long output only the beginning was kept, so its last frame may have been complete.
    if broken is not None and not problems and len(output) < FIRST_BYTES:
        problems.append(Problem("frame", _describe_unfinished(broken, framing.suffix), broken.head))
    for problem in problems:
        is_fault = problem.rule in _MISSING_RESULT if was_read else problem.rule not in _HARMLESS
        if is_fault:
            rule = find_rule(problem.rule, conformance)
            message = problem.message
            if dialect.traits.redact:  # the message may quote private text
                # The text of a rule ends with a full stop, a message does not.
                message = f"its output breaks the rule: {rule.text[:-1]}"
            fix = problem.fix or rule.fix
            return Diagnosis(message, fix, b"" if dialect.traits.redact else problem.data)
    return None


def _is_understood(incoming: Incoming, expected_ids: Collection[Id]) -> bool:
    """Return whether the host reads this as a reply that it expects, or as a notification. What is
    wrong with such a message does not make the handshake fail: the next reply may only be late."""
    match incoming:
        case Batch(messages):
            return all(_is_understood(message, expected_ids) for message in messages)
        case Noise() | Request():
            return False
        case Notification():
            return True
        case Reply(id) | Failure(id) | (id, _):
            return id in expected_ids


def _describe_unfinished(broken: Broken, suffix: bytes | None) -> str:
    if suffix is None:
        return broken.reason.replace("the output ended after", "its output stops after")
    return "its output has no newline at the end, so that no message is complete"
