"""What `exthost check` reports if its checks reach their time limit (`--timeout`).

A program that only starts slowly is not faulty: its starts may have used most of the time, and the
advice is a longer limit. A program that started quickly and then did not answer is faulty.
"""

import pytest

from exthost.authoring.check.findings import Outcome
from exthost.authoring.check.ledger import Ledger
from exthost.authoring.check.run import record_timeout
from exthost.dialects.conformance import Conformance


def outcomes_after(*, has_connected: bool, start_seconds: float) -> dict[str, Outcome]:
    """Return the result of each check by its name, after a time limit of 10 s.

    `start_seconds` is the part of that time that the starts of the program took.
    """
    ledger = Ledger(Conformance())
    record_timeout(ledger, 10.0, has_connected=has_connected, start_seconds=start_seconds)
    return {outcome.rule.name: outcome for outcome in ledger.outcomes("out of time")}


def test_a_time_limit_reached_by_slow_starts_is_not_a_fault() -> None:
    outcomes = outcomes_after(has_connected=True, start_seconds=7.0)
    assert outcomes["time"].status == "skipped" and "--timeout" in outcomes["time"].reason
    (finding,) = outcomes["speed"].findings
    assert "7.0 of the 10 s" in finding.message and "--timeout" in finding.fix
    assert not any(outcome.status == "fault" for outcome in outcomes.values())


@pytest.mark.parametrize(
    ("has_connected", "start_seconds", "message"),
    [
        (True, 1.0, "the checks did not finish in 10 s"),
        (False, 9.0, "it did not finish its handshake in 10 s"),
    ],
)
def test_a_time_limit_reached_for_other_reasons_is_a_fault(
    has_connected: bool, start_seconds: float, message: str
) -> None:
    outcomes = outcomes_after(has_connected=has_connected, start_seconds=start_seconds)
    assert outcomes["time"].status == "fault"
    assert [finding.message for finding in outcomes["time"].findings] == [message]
