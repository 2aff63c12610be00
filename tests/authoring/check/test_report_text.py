"""The report of `exthost check` as lines of text: each rule with its outcome and id."""

from exthost.authoring.check.findings import Outcome
from exthost.authoring.check.report_text import outcome_lines
from exthost.dialects.rules import Rule

RULE = Rule(
    name="exit",
    id="mcp-life-01",
    text="The process exits at the end of its input.",
    fix="Exit then.",
    severity="fault",
)


def test_the_line_of_a_rule_that_was_not_checked_has_the_reason() -> None:
    outcome = Outcome(RULE, reason="the dialect has no such request", skipped=True)
    (line,) = outcome_lines(outcome)
    assert RULE.id in line and line.endswith("  the dialect has no such request")


def test_the_line_of_a_rule_without_a_reason_ends_with_its_id() -> None:
    (line,) = outcome_lines(Outcome(RULE))
    assert line.endswith(RULE.id)
