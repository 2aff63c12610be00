"""Why the output of a child is not what its dialect expects, for the error of a failed handshake.

Holds the first bytes of the output to the rules of the dialect, as `exthost check` does. Pure, and
used only after something went wrong: it imports what it needs then.
"""

from typing import NamedTuple

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Role
from exthost.errors import ConfigError, ProtocolViolation
from exthost.messages import Noise
from exthost.process.stdout_reader import FIRST_BYTES
from exthost.wire.framing import Broken, Skipped

# Rules whose breach does not keep a reply from being read.
_HARMLESS = frozenset({"stdout-noise", "byte-order-mark", "version-member", "error-form"})

# Rules that say what happened to a reply that was read as null.
_HALF_READ = frozenset({"reply-form"})


class Diagnosis(NamedTuple):
    """What is wrong with the output, how to fix it, and the bytes that show it."""

    message: str
    help: str
    data: bytes


def diagnose_output(
    dialect: Dialect, output: bytes, ids: range, *, was_read: bool = False
) -> Diagnosis | None:
    """Return the fault in the first output of a child that keeps the handshake from going on.

    `ids` are those of the requests that were sent. `was_read`: the replies could be read, and what
    they say is the fault.
    """
    from exthost.dialects.find import find_conformance
    from exthost.dialects.message_audit import MessageAudit, Problem, explain_violation
    from exthost.dialects.rules import find_rule

    try:
        conformance = find_conformance(dialect.name)
    except ConfigError:  # a dialect that is not installed, only used
        return None
    audit = MessageAudit(conformance)
    for id in (0, *ids):
        audit.add_request(id, "the handshake")
    framing, codec = dialect.framing(2**26), dialect.codec(Role.HOST)
    problems: list[Problem] = []
    for item in framing.feed(output):
        if isinstance(item, Skipped | Broken):
            problems.append(audit.check_item(item))
            continue
        if dialect.traits.positional:  # only the requests say what a frame is
            continue
        try:
            incoming = codec.decode(item)
        except ProtocolViolation as violation:
            problems.append(explain_violation(violation.message, bytes(item)))
            incoming = Noise(b"", "")
        problems += audit.check_frame(item, incoming)
    broken = framing.end()
    # Of a long output only the beginning is known: its last frame may well have ended.
    if broken is not None and not problems and len(output) < FIRST_BYTES:
        problems.append(Problem("frame", _unfinished(broken, framing.suffix), broken.head))
    wanted = _HALF_READ if was_read else None
    for problem in problems:
        if problem.rule in wanted if wanted is not None else problem.rule not in _HARMLESS:
            rule = find_rule(problem.rule, conformance)
            message = rule.text[:-1] if dialect.traits.redact else problem.message
            return Diagnosis(message, rule.fix, b"" if dialect.traits.redact else problem.data)
    return None


def _unfinished(broken: Broken, suffix: bytes | None) -> str:
    if suffix is None:
        return broken.why.replace("the output ended after", "its output stops after")
    return "its output has no newline at the end, so that no message is complete"
