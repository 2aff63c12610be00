"""Collects the findings of `exthost check`, and returns the outcome of each rule.

The checks report to one `Ledger`, by the name of a rule such as "restart":

    ledger.add_finding("restart", "it did not start again", process)    the rule is broken
    ledger.mark_checked("restart", seconds)                             it was checked
    ledger.skip("restart", "it is not supported here")                  it was not checked
"""

from collections.abc import Iterable
from dataclasses import replace

from exthost.authoring.check.checked_process import KEPT_PROBLEMS, CheckedProcess, shorten
from exthost.authoring.check.findings import Finding, Outcome
from exthost.dialects.conformance import Conformance, Problem
from exthost.dialects.rules import all_rules, find_rule
from exthost.session.trace.secrets import SecretFilter

# At most this many findings of one rule are kept; more would only repeat them.
MAX_FINDINGS = 5

# Rules that one mistake usually breaks on many lines, such as a `print` in a loop. The first line
# is shown, the others are counted.
_ONE_CAUSE = frozenset({"stdout-noise", "one-line"})


# At most this many of the others are counted. A process keeps no more problems of one rule.
_MAX_REPEATS = KEPT_PROBLEMS - 1


class Ledger:
    """The findings of one run, by rule."""

    def __init__(self, conformance: Conformance) -> None:
        self._conformance = conformance
        self._findings: dict[str, dict[str, Finding]] = {}  # rule → message → finding
        self._checked: dict[str, tuple[float, str]] = {}  # rule → seconds, what was measured
        self._skipped: dict[str, str] = {}  # rule → why it was not checked
        # id() of a process → how many of its problems are recorded.
        self._recorded_problems: dict[int, int] = {}
        # rule → the other messages of a cause whose first message is kept
        self._repeats: dict[str, set[str]] = {}
        self._secrets: set[str] = set()

    def hide_secrets(self, secrets: Iterable[str]) -> None:
        """Hide these secrets in all outcomes. Each start may have other secrets, and a finding may
        be about any of the starts."""
        self._secrets.update(secrets)

    def add_finding(
        self, name: str, message: str, process: CheckedProcess | None = None, *, fix: str = ""
    ) -> None:
        """Record a broken rule by its name, with the last bytes and stderr lines of the process."""
        self._add(
            name, message, process, () if process is None else process.byte_log.format_last(), fix
        )

    def _add(
        self,
        name: str,
        message: str,
        process: CheckedProcess | None,
        exchange: tuple[str, ...],
        fix: str = "",
    ) -> None:
        """Record a finding, unless it only repeats an earlier one. `exchange` are the bytes that it
        shows."""
        message, fix = shorten(message), shorten(fix)
        findings = self._findings.setdefault(name, {})
        if name in _ONE_CAUSE and findings and message not in findings:
            repeats = self._repeats.setdefault(name, set())
            if len(repeats) < _MAX_REPEATS:
                repeats.add(message)
        elif message not in findings and len(findings) < MAX_FINDINGS:
            stderr = () if process is None else process.pipes.stderr
            rule = find_rule(name, self._conformance)
            findings[message] = Finding(rule, message, exchange, stderr, fix)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Record problems for which no bytes are shown, such as those of the announced tools."""
        for problem in problems:
            self._add(problem.rule, problem.message, None, (), problem.fix)

    def add_message_problems(self, process: CheckedProcess) -> None:
        """Record the problems of a process's messages since the last call for this process."""
        start = self._recorded_problems.get(id(process), 0)
        for problem, exchange in process.problems[start:]:
            self._add(problem.rule, problem.message, process, exchange, problem.fix)
        self._recorded_problems[id(process)] = len(process.problems)

    def has(self, *names: str) -> bool:
        """Return whether one of these rules is broken."""
        return any(name in self._findings for name in names)

    def mark_checked(self, name: str, seconds: float = 0.0, reason: str = "") -> None:
        """Record that a rule was checked. The rule was kept unless a finding was recorded, too.
        `seconds` is added to the time that its checks took. `reason` is what was measured."""
        total_seconds, last_reason = self._checked.get(name, (0.0, ""))
        self._checked[name] = (total_seconds + seconds, shorten(reason) or last_reason)

    def skip(self, name: str, reason: str) -> None:
        """Record why a rule was not checked."""
        self._skipped.setdefault(name, shorten(reason))

    def outcomes(self, default_reason: str) -> tuple[Outcome, ...]:
        """Return the outcome of every rule. `default_reason` is the reason why a rule was not
        checked, if `skip` recorded no other reason."""
        outcomes = []
        secret_filter = SecretFilter(self._secrets)
        for rule in all_rules(self._conformance):
            findings = tuple(self._findings.get(rule.name, {}).values())
            if repeats := self._repeats.get(rule.name):
                first = findings[0]
                noun = "line" if len(repeats) == 1 else "lines"
                number = f"{len(repeats)} or" if len(repeats) == _MAX_REPEATS else len(repeats)
                message = f"{first.message} (and {number} more such {noun})"
                findings = (replace(first, message=message), *findings[1:])
            seconds, reason = self._checked.get(rule.name, (0.0, ""))
            skipped = not findings and rule.name not in self._checked
            if skipped:
                reason = self._skipped.get(rule.name, default_reason)
            if self._secrets:
                findings = tuple(_hide_secrets(secret_filter, finding) for finding in findings)
                reason = secret_filter.text(reason)
            outcomes.append(Outcome(rule, findings, seconds, reason, skipped))
        return tuple(outcomes)


def _hide_secrets(secret_filter: SecretFilter, finding: Finding) -> Finding:
    hide = secret_filter.cut_text  # long lines, and bytes of one read or write, are cut
    return replace(
        finding,
        message=hide(finding.message),
        exchange=tuple(f"{line[:2]}{hide(line[2:])}" for line in finding.exchange),
        stderr=tuple(map(hide, finding.stderr)),
        fix=hide(finding.fix),
    )
