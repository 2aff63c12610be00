"""The results of checks as values: findings, outcomes, and the report with its score."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from exthost.dialects.rules import Rule

Status: TypeAlias = Literal["passed", "warning", "fault", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule.

    `message` says what was seen. `exchange` has the bytes of both sides that led to it, `>` before
    what was sent and `<` before what came, escaped and cut. `stderr` has its last lines.
    """

    rule: Rule
    message: str
    exchange: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    fix: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return {
            "rule": self.rule.id,
            "message": self.message,
            "requires": self.rule.text,
            "fix": self.fix or self.rule.fix,
            "exchange": list(self.exchange),
            "stderr": list(self.stderr),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the checks of one rule. `reason` says why it was skipped, or what was
    measured."""

    rule: Rule
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    reason: str = ""
    skipped: bool = False

    @property
    def status(self) -> Status:
        if self.findings:
            return self.rule.severity
        return "skipped" if self.skipped else "passed"

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome for JSON."""
        return {
            "check": self.rule.name,
            "rule": self.rule.id,
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "reason": self.reason,
            "findings": [finding.as_dict() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Every outcome of the checks of one extension."""

    extension: str
    dialect: str
    outcomes: tuple[Outcome, ...]
    seconds: float = 0.0

    @property
    def faults(self) -> list[Finding]:
        """Every finding that is a fault."""
        return [finding for finding in self.findings if finding.rule.severity == "fault"]

    @property
    def findings(self) -> list[Finding]:
        return [finding for outcome in self.outcomes for finding in outcome.findings]

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    @property
    def score(self) -> int:
        """How much of what was checked holds, from 0 to 100. A warning counts half."""
        run = [outcome for outcome in self.outcomes if outcome.status != "skipped"]
        if not run:
            return 0
        worth = {"passed": 2, "warning": 1, "fault": 0}
        points = sum(worth[outcome.status] for outcome in run)
        # 100 is for those without any finding.
        return 100 * points // (2 * len(run))

    def count(self, status: Status) -> int:
        """Return how many outcomes have this status."""
        return sum(outcome.status == status for outcome in self.outcomes)

    def with_status(self, *statuses: Status) -> Iterator[Outcome]:
        """Yield the outcomes of these statuses."""
        return (outcome for outcome in self.outcomes if outcome.status in statuses)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "extension": self.extension,
            "dialect": self.dialect,
            "ok": self.ok,
            "score": self.score,
            "seconds": round(self.seconds, 3),
            "checks": [outcome.as_dict() for outcome in self.outcomes],
        }
