"""The report of `exthost check` as text, for a person:

text (morphir) fails
FAULT    restart            check-07  40 ms
         it did not start again
         rule:   …
         fix:    …
text (morphir) fails: 1 passed, 1 fault; score 50 of 100; 0.4 s
"""

from collections.abc import Iterator

from exthost.authoring.check.findings import Finding, Outcome, Report
from exthost.errors import escape_message

_MARKS = {"passed": "ok", "warning": "warning", "fault": "FAULT", "skipped": "-"}


def report_lines(report: Report, *, every: bool = False) -> Iterator[str]:
    """Yield the lines of a report: the verdict, each rule, the summary. With `every` it includes
    the rules that were not checked."""
    yield escape_message(f"{report.extension} ({report.dialect}) {report.verdict}")
    for outcome in report.outcomes:
        if outcome.status != "skipped" or every:
            yield from outcome_lines(outcome)
    yield summary_line(report)


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the lines of the outcome of one rule."""
    yield escape_message(_headline(outcome))
    for finding in outcome.findings:
        yield from map(escape_message, _finding_lines(finding))


def summary_line(report: Report) -> str:
    """Return the verdict, the counts and the score in one line."""
    counts = [f"{report.count('passed')} passed"]
    for status, noun in (("warning", "warning"), ("fault", "fault")):
        if number := report.count(status):  # type: ignore[arg-type]
            counts.append(f"{number} {noun}{'' if number == 1 else 's'}")
    if skipped := report.count("skipped"):
        counts.append(f"{skipped} not checked")
    return (
        f"{report.extension} ({report.dialect}) {report.verdict}: {', '.join(counts)}; "
        f"score {report.score} of 100; {report.seconds:.1f} s"
    )


def _headline(outcome: Outcome) -> str:
    reason = f"  {outcome.reason}" if outcome.reason else ""
    duration = f"  {outcome.seconds * 1000:.0f} ms" if outcome.seconds >= 0.0005 else ""
    mark = _MARKS[outcome.status]
    return f"{mark:<8} {outcome.rule.name:<18} {outcome.rule.id}{duration}{reason}".rstrip()


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield f"         {finding.message}"
    yield f"         rule:   {finding.rule.text}"
    for piece in finding.exchange:
        yield f"         {'sent:' if piece[0] == '>' else 'got:':<7} {piece[2:]}"
    for line in finding.stderr:
        yield f"         stderr: {line}"
    yield f"         fix:    {finding.fix or finding.rule.fix}"
