"""The report of `exthost check` as JUnit XML."""

from xml.etree import ElementTree

from exthost.authoring.check.findings import Finding, Outcome, Report
from exthost.authoring.check.junit import junit_text
from exthost.dialects.rules import Rule


def test_each_outcome_is_a_test_case_of_its_kind() -> None:
    fault = Rule("broken", "check-broken", "text", "fix", "fault")
    warning = Rule("odd", "check-odd", "text", "fix", "warning")
    outcomes = (
        Outcome(fault, (Finding(fault, "it <ended>"),)),
        Outcome(warning, (Finding(warning, "it waits"),)),
        Outcome(fault, reason="no request", skipped=True),
        Outcome(fault),
    )
    suite = ElementTree.fromstring(junit_text(Report("a", "morphir", outcomes)))[0]
    assert [[(part.tag, part.get("message")) for part in case] for case in suite] == [
        [("failure", "it <ended>")],
        [("system-out", None)],
        [("skipped", "no request")],
        [],
    ]
    counts = [suite.get(name) for name in ("tests", "failures", "skipped")]
    assert counts == ["4", "1", "1"]
