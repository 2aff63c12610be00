"""The table of the breaker: the numbers of nexo's specification, and a comparison with a model.

A circuit breaker stops calls to an extension that fails again and again. It is CLOSED while calls
pass. After a number of failures it is OPEN, and calls are refused. After some time it is HALF_OPEN:
calls are sent as probes, whose outcome closes it or opens it again, for twice the time. A `Circuit`
is one state of it; the time is an argument in seconds.
"""

from itertools import product

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exthost.dialects.nexo.dialect import DIALECT as NEXO
from exthost.errors import CallFailed, CallTimeout, ExtensionGone, ProtocolViolation, UsageError
from exthost.extension.breaker import TABLE, BreakerEvent, BreakerPhase, Circuit, is_breaker_failure
from exthost.model.spec import Breaker
from tests.dialects.requirements import shows

assert NEXO.traits.breaker is not None
NEXO_SETTINGS: Breaker = NEXO.traits.breaker


def after_failures(times: int, circuit: Circuit | None = None, now: float = 0.0) -> Circuit:
    """Return the state of a new breaker, or of this one, after consecutive failures."""
    circuit = circuit or Circuit()
    for _ in range(times):
        circuit = circuit.after_failure(NEXO_SETTINGS, now)
    return circuit


@shows("nexo-life-03")
def test_five_consecutive_failures_open_the_breaker_for_ten_seconds() -> None:
    assert after_failures(4).phase is BreakerPhase.CLOSED
    circuit = after_failures(5, now=100.0)
    assert circuit.phase is BreakerPhase.OPEN
    assert circuit.seconds_until_probe(100.0) == 10.0
    assert circuit.seconds_until_probe(107.5) == 2.5
    assert circuit.seconds_until_probe(110.0) == 0


def test_a_success_resets_the_count_of_failures() -> None:
    after_success = after_failures(4).after_success(NEXO_SETTINGS)
    assert after_failures(4, after_success).phase is BreakerPhase.CLOSED


@shows("nexo-life-03")
def test_two_successful_probes_close_the_breaker() -> None:
    half_open = after_failures(5).after_open_time()
    assert half_open.phase is BreakerPhase.HALF_OPEN
    after_one_success = half_open.after_success(NEXO_SETTINGS)
    assert after_one_success.phase is BreakerPhase.HALF_OPEN
    assert after_one_success.after_success(NEXO_SETTINGS) == Circuit()


@shows("nexo-life-03")
def test_each_failed_probe_doubles_the_open_time_up_to_its_maximum() -> None:
    circuit, open_times = after_failures(5), []
    for _ in range(6):
        open_times.append(circuit.open_seconds)
        circuit = circuit.after_open_time().after_failure(NEXO_SETTINGS, 0.0)
    assert open_times == [10, 20, 40, 80, 120, 120]
    closed = circuit.after_open_time().after_success(NEXO_SETTINGS).after_success(NEXO_SETTINGS)
    assert after_failures(5, closed).open_seconds == 10


def test_calls_in_flight_when_the_breaker_opened_are_not_counted() -> None:
    circuit = after_failures(5)
    assert after_failures(20, circuit, now=9.0) == circuit == circuit.after_success(NEXO_SETTINGS)


def test_a_max_open_below_open_does_not_shorten_the_open_time() -> None:
    settings = Breaker(failures=1, open=30, max_open=10)
    circuit = Circuit().after_failure(settings, 0.0)
    assert circuit.open_seconds == 30
    assert circuit.after_open_time().after_failure(settings, 0.0).open_seconds == 30


def test_unset_keys_have_the_values_of_nexo() -> None:
    circuit = Circuit()
    for _ in range(5):
        circuit = circuit.after_failure(Breaker(), 0.0)
    assert circuit.seconds_until_probe(0.0) == 10


@shows("nexo-life-03")
def test_timeouts_and_protocol_violations_are_failures_of_the_breaker() -> None:
    timeout, garbage = CallTimeout("X0801", ""), ProtocolViolation("X0602", "")
    answer = CallFailed("X0701", "", error_code=None, error_message="", data=None)
    assert is_breaker_failure(NEXO_SETTINGS, timeout) and is_breaker_failure(NEXO_SETTINGS, garbage)
    assert not is_breaker_failure(NEXO_SETTINGS, answer)
    assert is_breaker_failure(Breaker(count_error_replies=True), answer)
    # The exit of a process is counted once and separately; a wrong use sends no call.
    assert not is_breaker_failure(NEXO_SETTINGS, ExtensionGone("X1001", ""))
    assert not is_breaker_failure(NEXO_SETTINGS, UsageError("X1301", ""))


def test_the_table_has_one_row_for_each_transition_and_all_phases() -> None:
    assert len({(row.phase, row.event) for row in TABLE}) == len(TABLE)
    assert {row.phase for row in TABLE} == {row.next for row in TABLE} == set(BreakerPhase)
    assert {row.event for row in TABLE} == set(BreakerEvent)


@pytest.mark.parametrize("phase", [BreakerPhase.CLOSED, BreakerPhase.HALF_OPEN])
def test_only_an_open_breaker_can_be_probed(phase: BreakerPhase) -> None:
    with pytest.raises(KeyError):
        Circuit(phase=phase).after_open_time()


class BreakerModel(RuleBasedStateMachine):
    """Failures, successes and probes in any order. A simple count predicts the phase and the open
    time of the circuit."""

    @initialize(
        failures=st.integers(1, 6),
        open_seconds=st.floats(0.1, 20),
        max_open_seconds=st.floats(0.1, 200),
        successes=st.integers(1, 4),
    )
    def begin(
        self, failures: int, open_seconds: float, max_open_seconds: float, successes: int
    ) -> None:
        self.settings = Breaker(
            failures=failures, open=open_seconds, max_open=max_open_seconds, successes=successes
        )
        self.failures, self.successes = failures, successes
        self.open_seconds, self.max_open_seconds = open_seconds, max_open_seconds
        self.circuit = Circuit()
        self.now = 0.0
        self.phase = "closed"
        self.consecutive = 0  # consecutive failures, or successful probes
        self.times_opened = 0  # since it was last closed
        self.open_until = 0.0

    def _open(self) -> None:
        self.times_opened += 1
        doubled_seconds = self.open_seconds * 2 ** (self.times_opened - 1)
        self.open_until = self.now + min(
            doubled_seconds, max(self.open_seconds, self.max_open_seconds)
        )
        self.phase, self.consecutive = "open", 0

    @rule(seconds=st.floats(0, 30))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def fail(self) -> None:
        self.circuit = self.circuit.after_failure(self.settings, self.now)
        if self.phase == "half-open":
            self._open()
        elif self.phase == "closed":
            self.consecutive += 1
            if self.consecutive == self.failures:
                self._open()

    @rule()
    def succeed(self) -> None:
        self.circuit = self.circuit.after_success(self.settings)
        if self.phase == "closed":
            self.consecutive = 0
        elif self.phase == "half-open":
            self.consecutive += 1
            if self.consecutive == self.successes:
                self.phase, self.consecutive, self.times_opened = "closed", 0, 0

    @precondition(lambda self: self.phase == "open" and self.now >= self.open_until)
    @rule()
    def probe(self) -> None:
        assert self.circuit.seconds_until_probe(self.now) == 0
        self.circuit = self.circuit.after_open_time()
        self.phase = "half-open"

    @rule()
    def request_restart(self) -> None:
        """A restart by the user begins with a new breaker."""
        self.circuit = Circuit()
        self.phase, self.consecutive, self.times_opened = "closed", 0, 0

    @invariant()
    def the_circuit_agrees_with_the_model(self) -> None:
        if not hasattr(self, "circuit"):
            return
        assert self.circuit.phase.value == self.phase
        seconds_left = max(0.0, self.open_until - self.now) if self.phase == "open" else 0.0
        assert self.circuit.seconds_until_probe(self.now) == pytest.approx(seconds_left, abs=1e-6)


TestBreakerModel = BreakerModel.TestCase
TestBreakerModel.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)


def test_every_phase_accepts_failures_and_successes() -> None:
    for phase, report in product(BreakerPhase, ("failed", "succeeded")):
        circuit = Circuit(phase=phase, open_seconds=1.0)
        after = (
            circuit.after_failure(NEXO_SETTINGS, 0)
            if report == "failed"
            else circuit.after_success(NEXO_SETTINGS)
        )
        assert isinstance(after.phase, BreakerPhase)
