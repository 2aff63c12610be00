"""The breaker's table: the page's numbers, and any run of events against a model of it."""

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
PAGE: Breaker = NEXO.traits.breaker


def after_failure(times: int, circuit: Circuit | None = None, now: float = 0.0) -> Circuit:
    circuit = circuit or Circuit()
    for _ in range(times):
        circuit = circuit.after_failure(PAGE, now)
    return circuit


@shows("nexo-life-03")
def test_five_failures_in_a_row_open_it_for_ten_seconds() -> None:
    assert after_failure(4).phase is BreakerPhase.CLOSED
    circuit = after_failure(5, now=100.0)
    assert (
        circuit.phase,
        circuit.seconds_until_probe(100.0),
        circuit.seconds_until_probe(107.5),
    ) == (BreakerPhase.OPEN, 10.0, 2.5)
    assert circuit.seconds_until_probe(110.0) == 0


def test_one_success_in_between_starts_the_count_anew() -> None:
    assert after_failure(4, after_failure(4).after_success(PAGE)).phase is BreakerPhase.CLOSED


@shows("nexo-life-03")
def test_two_successes_of_probes_close_it_and_forget_everything() -> None:
    after_open_time = after_failure(5).after_open_time()
    assert after_open_time.phase is BreakerPhase.HALF_OPEN
    once = after_open_time.after_success(PAGE)
    assert once.phase is BreakerPhase.HALF_OPEN
    assert once.after_success(PAGE) == Circuit()


@shows("nexo-life-03")
def test_each_failed_probe_doubles_the_time_up_to_the_most() -> None:
    circuit, spans = after_failure(5), []
    for _ in range(6):
        spans.append(circuit.open_seconds)
        circuit = circuit.after_open_time().after_failure(PAGE, 0.0)
    assert spans == [10, 20, 40, 80, 120, 120]
    closed = circuit.after_open_time().after_success(PAGE).after_success(PAGE)
    assert after_failure(5, closed).open_seconds == 10


def test_calls_under_way_when_it_opened_change_nothing() -> None:
    circuit = after_failure(5)
    assert after_failure(20, circuit, now=9.0) == circuit == circuit.after_success(PAGE)


def test_a_max_open_below_open_does_not_shorten_it() -> None:
    settings = Breaker(failures=1, open=30, max_open=10)
    circuit = Circuit().after_failure(settings, 0.0)
    assert (
        circuit.open_seconds
        == circuit.after_open_time().after_failure(settings, 0.0).open_seconds
        == 30
    )


def test_unset_keys_have_the_defaults_of_the_page() -> None:
    circuit = Circuit()
    for _ in range(5):
        circuit = circuit.after_failure(Breaker(), 0.0)
    assert circuit.seconds_until_probe(0.0) == 10


@shows("nexo-life-03")
def test_which_errors_count() -> None:
    timeout, garbage = CallTimeout("X0801", ""), ProtocolViolation("X0602", "")
    answer = CallFailed("X0701", "", error_code=None, error_message="", data=None)
    assert is_breaker_failure(PAGE, timeout) and is_breaker_failure(PAGE, garbage)
    assert not is_breaker_failure(PAGE, answer)
    assert is_breaker_failure(Breaker(count_error_replies=True), answer)
    # A process that is gone is counted once, by its end; nothing sent is nothing failed.
    assert not is_breaker_failure(PAGE, ExtensionGone("X1001", ""))
    assert not is_breaker_failure(PAGE, UsageError("X1301", ""))


def test_the_table_has_one_row_for_each_move_and_reaches_everything() -> None:
    assert len({(row.phase, row.event) for row in TABLE}) == len(TABLE)
    assert {row.phase for row in TABLE} == {row.next for row in TABLE} == set(BreakerPhase)
    assert {row.event for row in TABLE} == set(BreakerEvent)


@pytest.mark.parametrize("phase", [BreakerPhase.CLOSED, BreakerPhase.HALF_OPEN])
def test_only_an_open_one_can_be_probed(phase: BreakerPhase) -> None:
    with pytest.raises(KeyError):
        Circuit(phase=phase).after_open_time()


class AnyLife(RuleBasedStateMachine):
    """A list of what happened, judged by counting it, beside the circuit that was told of it."""

    @initialize(
        most=st.integers(1, 6),
        first=st.floats(0.1, 20),
        longest=st.floats(0.1, 200),
        enough=st.integers(1, 4),
    )
    def begin(self, most: int, first: float, longest: float, enough: int) -> None:
        self.settings = Breaker(failures=most, open=first, max_open=longest, successes=enough)
        self.most, self.first, self.longest, self.enough = most, first, longest, enough
        self.circuit = Circuit()
        self.now = 0.0
        self.word = "closed"
        self.row = 0  # failures, or successes of probes, without the other in between
        self.opened = 0  # times in a row, without a closing
        self.until = 0.0

    def _open(self) -> None:
        self.opened += 1
        wanted = self.first * 2 ** (self.opened - 1)
        self.until = self.now + min(wanted, max(self.first, self.longest))
        self.word, self.row = "open", 0

    @rule(seconds=st.floats(0, 30))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def fail(self) -> None:
        self.circuit = self.circuit.after_failure(self.settings, self.now)
        if self.word == "half-open":
            self._open()
        elif self.word == "closed":
            self.row += 1
            if self.row == self.most:
                self._open()

    @rule()
    def succeed(self) -> None:
        self.circuit = self.circuit.after_success(self.settings)
        if self.word == "closed":
            self.row = 0
        elif self.word == "half-open":
            self.row += 1
            if self.row == self.enough:
                self.word, self.row, self.opened = "closed", 0, 0

    @precondition(lambda self: self.word == "open" and self.now >= self.until)
    @rule()
    def probe(self) -> None:
        assert self.circuit.seconds_until_probe(self.now) == 0
        self.circuit = self.circuit.after_open_time()
        self.word = "half-open"

    @rule()
    def ask_again(self) -> None:
        self.circuit = Circuit()
        self.word, self.row, self.opened = "closed", 0, 0

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "circuit"):
            return
        assert self.circuit.phase.value == self.word
        left = max(0.0, self.until - self.now) if self.word == "open" else 0.0
        assert self.circuit.seconds_until_probe(self.now) == pytest.approx(left, abs=1e-6)


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_every_pair_of_phase_and_report_is_answered() -> None:
    for phase, report in product(BreakerPhase, ("failed", "succeeded")):
        circuit = Circuit(phase=phase, open_seconds=1.0)
        after = (
            circuit.after_failure(PAGE, 0) if report == "failed" else circuit.after_success(PAGE)
        )
        assert isinstance(after.phase, BreakerPhase)
