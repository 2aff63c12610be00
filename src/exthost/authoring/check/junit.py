"""Converts a report of `exthost check` to JUnit XML, which CI systems show, with one test case for
each rule:

    <testcase name="restart" classname="morphir.text" time="0.214"/>
"""

from xml.sax.saxutils import escape, quoteattr

from exthost.authoring.check.findings import Outcome, Report


def junit_text(report: Report) -> str:
    """Return the report as XML text. A rule with a warning counts as passed."""
    suite = f"exthost check {report.extension} ({report.dialect})"
    counts = (
        f'tests="{len(report.outcomes)}" failures="{report.count("fault")}" errors="0" '
        f'skipped="{report.count("skipped")}" time="{report.seconds:.3f}"'
    )
    cases = "\n".join(_format_case(outcome, report) for outcome in report.outcomes)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f"<testsuites>\n<testsuite name={_attribute(suite)} {counts}>\n{cases}\n"
        "</testsuite>\n</testsuites>\n"
    )


def _format_case(outcome: Outcome, report: Report) -> str:
    name = _attribute(outcome.rule.name)
    owner = _attribute(f"{report.dialect}.{report.extension}")
    head = f'<testcase name={name} classname={owner} time="{outcome.seconds:.3f}"'
    text = "\n".join(_describe(outcome))
    if outcome.status == "fault":
        first = _attribute(outcome.findings[0].message)
        return f"{head}><failure message={first}>{_content(text)}</failure></testcase>"
    if outcome.status == "skipped":
        return f"{head}><skipped message={_attribute(outcome.reason)}/></testcase>"
    if outcome.findings:
        return f"{head}><system-out>{_content(text)}</system-out></testcase>"
    return f"{head}/>"


def _describe(outcome: Outcome) -> list[str]:
    lines = [f"{outcome.rule.id}: {outcome.rule.text}"]
    for finding in outcome.findings:
        lines += [finding.message, *finding.exchange]
        lines += [f"stderr: {line}" for line in finding.stderr]
        lines.append(f"fix: {finding.fix or finding.rule.fix}")
    return lines


def _replace_invalid(text: str) -> str:
    """Return the text with "?" in place of characters that XML does not allow."""
    return "".join(
        char
        if char in "\t\n"
        or " " <= char <= "\ud7ff"
        or "\ue000" <= char <= "\ufffd"
        or char > "\uffff"
        else "?"
        for char in text
    )


def _content(text: str) -> str:
    return escape(_replace_invalid(text))


def _attribute(text: str) -> str:
    return quoteattr(_replace_invalid(text))
