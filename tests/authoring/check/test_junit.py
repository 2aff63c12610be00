"""The report of `exthost check` as JUnit XML, the format that CI systems show as tests.

Each checked rule is a test case: a fault is a failure, and a warning is only text.
"""

from xml.etree import ElementTree

from exthost.authoring.check.findings import Finding, Outcome, Report
from exthost.authoring.check.junit import junit_text
from exthost.dialects.rules import Rule


def test_each_outcome_is_a_test_case_of_its_kind() -> None:
    strict_rule = Rule("broken", "check-broken", "text", "fix", "fault")
    mild_rule = Rule("odd", "check-odd", "text", "fix", "warning")
    outcomes = (
        Outcome(strict_rule, (Finding(strict_rule, "it <ended>"),)),
        Outcome(mild_rule, (Finding(mild_rule, "it waits"),)),
        Outcome(strict_rule, reason="no request", skipped=True),
        Outcome(strict_rule),  # it passed
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
