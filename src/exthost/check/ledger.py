"""Collects what the checks find, and makes the outcomes of it."""

from collections.abc import Iterable

from exthost.check.findings import Finding, Outcome
from exthost.check.peer import Peer
from exthost.dialects.conformance import Conformance
from exthost.dialects.message_audit import Problem
from exthost.dialects.rules import all_rules, rule_of

# Of one rule this many findings are kept: the next ones say the same.
MAX_FINDINGS = 5


class Ledger:
    """The findings of one run, by rule."""

    def __init__(self, conformance: Conformance) -> None:
        self._conformance = conformance
        self._findings: dict[str, dict[str, Finding]] = {}
        self._passed: dict[str, tuple[float, str]] = {}
        self._skipped: dict[str, str] = {}
        self._absorbed: dict[int, int] = {}

    def find(self, name: str, message: str, peer: Peer | None = None, *, fix: str = "") -> None:
        """Record a broken rule, with the bytes of this peer."""
        self._add(name, message, peer, () if peer is None else peer.exchange.shown(), fix)

    def _add(
        self, name: str, message: str, peer: Peer | None, exchange: tuple[str, ...], fix: str = ""
    ) -> None:
        findings = self._findings.setdefault(name, {})
        if message not in findings and len(findings) < MAX_FINDINGS:
            stderr = () if peer is None else peer.pipes.stderr
            rule = rule_of(name, self._conformance)
            findings[message] = Finding(rule, message, exchange, stderr, fix)

    def note(self, problems: Iterable[Problem]) -> None:
        """Record problems that no bytes belong to."""
        for problem in problems:
            self._add(problem.rule, problem.message, None, ())

    def absorb(self, peer: Peer) -> None:
        """Record the problems of a peer's messages that are new."""
        known = self._absorbed.get(id(peer), 0)
        for problem, exchange in peer.problems[known:]:
            self._add(problem.rule, problem.message, peer, exchange)
        self._absorbed[id(peer)] = len(peer.problems)

    def has(self, *names: str) -> bool:
        """Return whether one of these rules is broken."""
        return any(name in self._findings for name in names)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found yet."""
        return not self._findings

    def passed(self, name: str, seconds: float = 0.0, reason: str = "") -> None:
        """Record that a rule was checked. It holds unless something was found."""
        before = self._passed.get(name, (0.0, ""))
        self._passed[name] = (before[0] + seconds, reason or before[1])

    def skip(self, name: str, reason: str) -> None:
        """Record why a rule was not checked."""
        self._skipped.setdefault(name, reason)

    def outcomes(self, otherwise: str) -> tuple[Outcome, ...]:
        """Return the outcome of every rule; `otherwise` is why the others were not checked."""
        made = []
        for rule in all_rules(self._conformance):
            findings = tuple(self._findings.get(rule.name, {}).values())
            seconds, reason = self._passed.get(rule.name, (0.0, ""))
            skipped = not findings and rule.name not in self._passed
            if skipped:
                reason = self._skipped.get(rule.name, otherwise)
            made.append(Outcome(rule, findings, seconds, reason, skipped))
        return tuple(made)
