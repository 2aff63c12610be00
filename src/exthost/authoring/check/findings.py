"""The results of `exthost check` as values: findings, outcomes, and the report with its score.

A finding is one broken rule. An outcome is the result of checking one rule: its findings, or that
it was kept or not checked. A report is the outcomes of all rules for one extension.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from exthost.dialects.rules import Rule

Verdict: TypeAlias = Literal["passes", "passes with warnings", "fails"]
Status: TypeAlias = Literal["passed", "warning", "fault", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule.

    rule      the rule that is broken
    message   what was observed
    exchange  the bytes that led to the finding, escaped and shortened; sent bytes begin with `> `,
              received bytes with `< `
    stderr    the last lines of stderr
    fix       how to fix the extension; "" for the fix that the rule suggests
    """

    rule: Rule
    message: str
    exchange: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    fix: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
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
    """The outcome of the checks of one rule.

    rule      the rule
    findings  how it was broken; empty if it was kept or not checked
    seconds   how long the checks took
    reason    why the rule was not checked, or what was measured
    skipped   whether the rule was not checked
    """

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
        """Return the outcome as a JSON object."""
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
    """Every outcome of the checks of one extension. `seconds` is how long all checks took."""

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
    def verdict(self) -> Verdict:
        """The result of the check in one to three words."""
        if not self.ok:
            return "fails"
        return "passes with warnings" if self.findings else "passes"

    @property
    def score(self) -> int:
        """The share of checked rules that were kept, 0 to 100. A rule with a warning counts half.
        An extension that does not get ready scores 0: hardly anything of it was checked."""
        checked = [outcome for outcome in self.outcomes if outcome.status != "skipped"]
        if not checked or any(
            outcome.status == "fault" and outcome.rule.name in ("start", "handshake")
            for outcome in checked
        ):
            return 0
        points_by_status = {"passed": 2, "warning": 1, "fault": 0}
        points = sum(points_by_status[outcome.status] for outcome in checked)
        # Rounded down, so that only an extension without any finding scores 100.
        return 100 * points // (2 * len(checked))

    def count(self, status: Status) -> int:
        """Return how many outcomes have this status."""
        return sum(outcome.status == status for outcome in self.outcomes)

    def with_status(self, *statuses: Status) -> Iterator[Outcome]:
        """Yield the outcomes of these statuses."""
        return (outcome for outcome in self.outcomes if outcome.status in statuses)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "extension": self.extension,
            "dialect": self.dialect,
            "verdict": self.verdict,
            "ok": self.ok,
            "score": self.score,
            "seconds": round(self.seconds, 3),
            "checks": [outcome.as_dict() for outcome in self.outcomes],
        }
