"""The restart policy: the numbers that the dialects specify, and properties of all policies.

After a process has ended, `decide` returns what the policy (a `Restart`) says about the history of
the extension: to start again after a delay (`Again`), at the next call (`OnDemand`), or not at all
(`GiveUp`).
A policy allows `max_retries` restarts. Restarts that are older than `window` seconds do not count.
`forgiven_by` says after what none counts any more: "uptime" (60 seconds ready, the default without
a window) or "call" (a served call).

The time and the random jitter of the delays are arguments, so no test waits.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exthost.extension.lifecycle import Event
from exthost.extension.restart import (
    Again,
    Decision,
    GiveUp,
    OnDemand,
    RestartHistory,
    decide,
    lifecycle_event_for,
)
from exthost.model.spec import Restart

# The default policies of three dialects. All times are in seconds.
MORPHIR = Restart(
    strategy="exponential", initial_delay=1, max_delay=30, max_retries=3, forgiven_by="uptime"
)
NEXO = Restart(strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300)
SYNAPS = Restart(
    strategy="exponential", initial_delay=0.25, max_delay=5, max_retries=3, forgiven_by="call"
)
ON_DEMAND = Restart(strategy="on-demand")
UNLIMITED = Restart(strategy="immediate")


class Life:
    """One extension with one restart policy, and a simulated time. `spawns` are the times of the
    restarts."""

    def __init__(self, policy: Restart) -> None:
        self.policy = policy
        self.history = RestartHistory()
        self.now = 0.0
        self.spawns: list[float] = []

    def run(self, *, up: float | None, serve: bool = False) -> None:
        """Start a process, which is ready for `up` seconds, or never if `up` is None. `serve`:
        it answers a call in that time."""
        if self.history.granted:  # the policy has decided this start
            self.spawns.append(self.now)
        self.history = self.history.started(self.now)
        if up is not None:
            self.history = self.history.ready(self.now)
            if serve:
                self.history = self.history.served()
            self.now += up
        self.history = self.history.ended(self.policy, self.now)

    def decide(
        self, *, jitter: float = 0.0, permanent: bool = False, start_retries: int = 0
    ) -> Decision:
        """Return the decision of the policy, after its delay has passed."""
        decision, self.history = decide(
            self.policy,
            self.history,
            now=self.now,
            jitter=jitter,
            is_permanent=permanent,
            start_retries=start_retries,
        )
        if isinstance(decision, Again):
            self.now += decision.delay
        return decision

    def crash(self, *, up: float = 0.0, serve: bool = False) -> Decision:
        self.run(up=up, serve=serve)
        return self.decide()

    def fail_to_start(self) -> Decision:
        self.run(up=None)
        return self.decide()


# -- the numbers of the dialects ---------------------------------------------------------------


def test_nexo_restarts_five_times_in_its_window_from_one_second_to_sixteen() -> None:
    life = Life(NEXO)
    assert [life.crash() for _ in range(5)] == [Again(1), Again(2), Again(4), Again(8), Again(16)]
    assert life.crash() == GiveUp(
        "it crashed while serving, and all 5 restarts allowed in the last 300 s were used (5 of 5)"
    )


@pytest.mark.parametrize(("up", "second"), [(299.9, Again(2)), (300.0, Again(1))])
def test_nexo_restarts_leave_the_window_after_exactly_300_seconds(
    up: float, second: Decision
) -> None:
    life = Life(NEXO)
    life.crash()  # restarted at 1 s
    assert life.crash(up=up) == second  # at 1 s + up


def test_nexo_never_gives_up_when_crashes_are_rare() -> None:
    life = Life(NEXO)
    assert all(isinstance(life.crash(up=70), Again) for _ in range(200))


def test_nexo_does_not_repeat_a_first_handshake_that_failed() -> None:
    assert Life(NEXO).fail_to_start() == GiveUp(
        "it was never ready, and a first start is not repeated"
    )


def test_nexo_counts_a_restart_whose_handshake_fails_like_a_crash() -> None:
    life = Life(NEXO)
    assert life.crash() == Again(1)
    assert [life.fail_to_start() for _ in range(4)] == [Again(2), Again(4), Again(8), Again(16)]
    assert isinstance(life.fail_to_start(), GiveUp)
    assert len(life.spawns) == 5


def test_morphir_gives_up_after_three_restarts_or_at_once_if_none_is_allowed() -> None:
    life = Life(MORPHIR)
    assert [life.crash() for _ in range(3)] == [Again(1), Again(2), Again(4)]
    assert life.crash() == GiveUp(
        "it crashed while serving, and all 3 restarts allowed since it was last ready for 60 s"
        " were used (3 of 3)"
    )
    assert Life(replace(MORPHIR, max_retries=0)).crash() == GiveUp(
        "it crashed while serving, and no restart is allowed (max_retries = 0)"
    )


@pytest.mark.parametrize(("up", "after"), [(59.9, Again(4)), (60.0, Again(1))])
def test_morphir_forgives_after_exactly_sixty_seconds_ready(up: float, after: Decision) -> None:
    life = Life(MORPHIR)
    assert [life.crash(), life.crash()] == [Again(1), Again(2)]
    assert life.crash(up=up, serve=True) == after  # a served call forgives nothing


def test_synaps_gives_up_when_a_fourth_restart_would_be_needed() -> None:
    life = Life(SYNAPS)
    assert [life.crash() for _ in range(3)] == [Again(0.25), Again(0.5), Again(1)]
    assert life.crash() == GiveUp(
        "it crashed while serving, and all 3 restarts allowed since it last served a call"
        " were used (3 of 3)"
    )


def test_synaps_caps_its_delay_at_five_seconds() -> None:
    life = Life(replace(SYNAPS, max_retries=7))
    assert [life.crash() for _ in range(7)][-2:] == [Again(5), Again(5)]


def test_synaps_forgives_after_a_served_call_but_not_after_long_uptime() -> None:
    life = Life(SYNAPS)
    assert [life.crash(), life.crash(up=1000)] == [Again(0.25), Again(0.5)]
    assert life.crash(serve=True) == Again(0.25)


def test_the_total_of_restarts_is_kept_when_crashes_are_forgiven_or_a_restart_is_requested() -> (
    None
):
    life = Life(SYNAPS)
    for _ in range(10):
        life.crash(serve=True)
    assert life.history.restarts == 9  # the last one is due, and has not begun
    life.history = life.history.restart_requested()
    assert life.history.restarts == 9 and life.history.crashes == 0


def test_on_demand_waits_for_the_next_use_after_a_crash_or_failed_start() -> None:
    life = Life(ON_DEMAND)  # without a limit of restarts
    assert life.fail_to_start() == OnDemand()
    assert life.crash() == OnDemand()
    assert life.fail_to_start() == OnDemand()


def test_on_demand_with_a_limit_counts_every_start_and_gives_up() -> None:
    life = Life(replace(ON_DEMAND, max_retries=2, forgiven_by="call"))
    assert [life.fail_to_start(), life.crash()] == [OnDemand(), OnDemand()]
    assert isinstance(life.crash(), GiveUp)


def test_on_demand_uses_a_retry_at_the_next_start_not_at_the_crash() -> None:
    life = Life(replace(ON_DEMAND, max_retries=1, window=10))
    life.crash()
    life.now += 100
    assert life.crash() == GiveUp(
        "it crashed while serving, and 1 restart allowed in the last 10 s was used (1 of 1)"
    )


# -- all strategies ----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [MORPHIR, NEXO, SYNAPS, UNLIMITED, Restart(strategy="never")])
def test_a_permanent_cause_is_never_retried(policy: Restart) -> None:
    life = Life(policy)
    life.run(up=1)
    assert life.decide(permanent=True) == GiveUp(
        "it crashed while serving, for a cause that trying again cannot cure"
    )


def test_on_demand_starts_again_after_a_permanent_error() -> None:
    life = Life(ON_DEMAND)
    life.run(up=None)
    assert life.decide(permanent=True) == OnDemand()


@pytest.mark.parametrize("policy", [Restart(), Restart(strategy="never", max_retries=3)])
def test_never_and_an_unset_strategy_do_not_restart(policy: Restart) -> None:
    assert Life(policy).crash(up=1000, serve=True) == GiveUp(
        "it crashed while serving, and its restart strategy is never"
    )


def test_first_starts_have_a_separate_budget() -> None:
    life = Life(MORPHIR)
    delays = []
    for _ in range(2):
        life.run(up=None)
        delays.append(life.decide(start_retries=2))
    assert delays == [Again(1), Again(2)]
    assert [life.crash() for _ in range(3)] == [Again(1), Again(2), Again(4)]
    assert isinstance(life.crash(), GiveUp)


def test_giving_up_on_first_starts_reports_their_number() -> None:
    life = Life(MORPHIR)
    for _ in range(3):
        life.run(up=None)
        decision = life.decide(start_retries=2)
    assert decision == GiveUp("it was not ready after any of 3 starts")


def test_a_start_without_a_decision_before_it_costs_no_retry() -> None:
    life = Life(NEXO)
    for _ in range(50):
        life.run(up=1)  # started by the circuit breaker, which does not ask the policy
    assert life.crash() == Again(1)


def test_a_process_ended_by_the_host_is_not_a_crash_but_its_uptime_forgives() -> None:
    # `used` counts the restarts against the limit, `fruitless` those since the last served call.
    history = replace(RestartHistory(), used=2, fruitless=2).started(0).ready(0)
    after_10_seconds = history.ended(MORPHIR, 10, by_host=True)
    assert after_10_seconds.crashes == 0
    assert after_10_seconds.used == after_10_seconds.fruitless == 2
    after_60_seconds = history.ended(MORPHIR, 60, by_host=True)
    assert after_60_seconds.crashes == 0
    assert after_60_seconds.used == after_60_seconds.fruitless == 0


def test_crashes_count_only_processes_that_were_ready() -> None:
    life = Life(MORPHIR)
    life.crash()
    life.fail_to_start()
    assert life.history.crashes == 1


def test_a_requested_restart_resets_the_restarts_of_a_failed_extension() -> None:
    life = Life(MORPHIR)
    while not isinstance(life.crash(), GiveUp):
        pass
    life.history = life.history.restart_requested()
    assert [life.crash() for _ in range(3)] == [Again(1), Again(2), Again(4)]


def test_limited_immediate_restarts_have_no_delay_and_are_counted() -> None:
    life = Life(replace(MORPHIR, strategy="immediate", max_retries=6))
    assert [life.crash() for _ in range(6)] == [Again(0)] * 6
    assert isinstance(life.crash(), GiveUp)


def test_unlimited_immediate_restarts_slow_down_while_no_call_is_served() -> None:
    life = Life(UNLIMITED)
    delays = [life.crash() for _ in range(14)]
    # Three at once, then 0.1 s, doubled up to 30 s.
    assert delays[:6] == [Again(0)] * 3 + [Again(0.1), Again(0.2), Again(0.4)]
    assert delays[-2:] == [Again(30), Again(30)]


def test_a_process_that_dies_after_each_handshake_is_restarted_slowly() -> None:
    life = Life(UNLIMITED)
    while life.now < 24 * 3600:
        assert isinstance(life.crash(), Again)
    # At most one restart in 30 s, and at most 15 at the beginning, when delays are shorter.
    assert len(life.spawns) < 24 * 3600 / 30 + 15


@pytest.mark.parametrize("policy", [UNLIMITED, replace(UNLIMITED, max_delay=0)])
def test_immediate_restarts_have_no_delay_after_a_served_call(policy: Restart) -> None:
    life = Life(policy)
    for _ in range(4):
        slowed_decision = life.crash()
    assert slowed_decision == Again(0.1)
    assert life.crash(serve=True) == Again(0)


def test_an_exponential_policy_without_limit_or_delay_gets_a_delay() -> None:
    life = Life(Restart(strategy="exponential", initial_delay=0, max_delay=0))
    assert [life.crash() for _ in range(6)] == [Again(0)] * 3 + [Again(0.1)] * 3


def test_unknown_words_in_the_settings_are_reported() -> None:
    with pytest.raises(ValueError, match="unknown restart strategy 'sometimes'"):
        Life(Restart(strategy="sometimes")).crash()
    with pytest.raises(ValueError, match="unknown forgiven_by 'luck'"):
        Life(replace(MORPHIR, forgiven_by="luck")).crash()


@pytest.mark.parametrize(
    ("decision", "event"),
    [(Again(1), Event.WILL_RETRY), (OnDemand(), Event.REST), (GiveUp("x"), Event.GAVE_UP)],
)
def test_each_decision_is_one_event_of_the_life_cycle(decision: Decision, event: Event) -> None:
    assert lifecycle_event_for(decision) is event


# -- properties of all policies ----------------------------------------------------------------

seconds = st.floats(0, 400, allow_nan=False)
fractions = st.floats(0, 1, exclude_max=True)
delays = st.floats(0.001, 100)


@given(first=delays, longest=delays, used=st.integers(0, 2_000_000), jitter=fractions)
def test_jitter_makes_a_delay_shorter_by_at_most_a_fifth(
    first: float, longest: float, used: int, jitter: float
) -> None:
    policy = Restart(
        strategy="exponential", initial_delay=first, max_delay=longest, max_retries=3_000_000
    )
    history = replace(RestartHistory().started(0).ready(0).ended(policy, 0), used=used)
    decision, _ = decide(policy, history, now=0, jitter=jitter)
    assert isinstance(decision, Again)
    nominal = min(first * 2.0 ** min(used, 200), longest)  # 2.0 ** 2000 would overflow
    assert 0.8 * nominal <= decision.delay <= nominal


@given(first=delays, longest=delays, jitter=fractions)
def test_delays_grow_up_to_the_maximum_and_stay_there(
    first: float, longest: float, jitter: float
) -> None:
    life = Life(
        Restart(strategy="exponential", initial_delay=first, max_delay=longest, max_retries=40)
    )
    delays_so_far = []
    for _ in range(40):
        life.run(up=0)
        decision = life.decide(jitter=jitter)
        assert isinstance(decision, Again)
        delays_so_far.append(decision.delay)
    assert delays_so_far == sorted(delays_so_far)
    assert delays_so_far[-1] == longest * (1 - 0.2 * jitter)


@given(jitter=fractions, other_jitter=fractions)
def test_a_larger_jitter_gives_a_shorter_delay(jitter: float, other_jitter: float) -> None:
    life = Life(NEXO)
    life.run(up=0)
    first, _ = decide(NEXO, life.history, now=0, jitter=jitter)
    second, _ = decide(NEXO, life.history, now=0, jitter=other_jitter)
    assert isinstance(first, Again) and isinstance(second, Again)
    if abs(jitter - other_jitter) >= 1e-9:  # closer numbers can give the same delay
        assert (first.delay > second.delay) == (jitter < other_jitter)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "policy", [UNLIMITED, replace(UNLIMITED, window=1e9), replace(NEXO, max_retries=100)]
)
def test_the_length_of_a_history_is_limited(policy: Restart) -> None:
    life = Life(policy)
    for _ in range(20_000):
        life.crash()
        if life.history.give_up_reason:  # an extension that was given up would not crash again
            life.history = replace(life.history, give_up_reason="")
    # A policy without max_retries keeps 64 attempts and the current one.
    limit = 65 if policy.max_retries is None else policy.max_retries + 1
    assert len(life.history.attempts) <= limit


def test_a_million_crashes_do_not_overflow_the_delay() -> None:
    policy = Restart(strategy="exponential", initial_delay=1, max_delay=16)
    history = replace(RestartHistory(), used=1_000_000, fruitless=1_000_000, has_been_ready=True)
    decision, _ = decide(policy, history, now=0, jitter=0)
    assert decision == Again(16)


class RestartModel(RuleBasedStateMachine):
    """Starts, crashes and served calls in any order. A simple count of restarts in a list predicts
    whether the policy starts again or gives up."""

    @initialize(
        strategy=st.sampled_from(["immediate", "exponential", "on-demand"]),
        initial=st.floats(0, 5),
        longest=st.floats(0, 20),
        retries=st.none() | st.integers(0, 5),
        window=st.none() | st.floats(1, 300),
        forgiven_by=st.sampled_from([None, "uptime", "call"]),
    )
    def begin(
        self,
        strategy: str,
        initial: float,
        longest: float,
        retries: int | None,
        window: float | None,
        forgiven_by: str | None,
    ) -> None:
        self.policy = Restart(
            strategy=strategy,
            initial_delay=initial,
            max_delay=longest,
            max_retries=retries,
            window=window,
            forgiven_by=forgiven_by,
        )
        self.history = RestartHistory()
        self.now = 0.0
        self.spawns: list[float] = []  # retries since the last crashes were forgiven
        self.up_since: float | None = None
        self.served = False
        self.running = False
        self.may_start = True
        self.is_retry = False
        self.given_up: GiveUp | None = None
        self.was_ready = False

    @rule(passed=seconds)
    def time_passes(self, passed: float) -> None:
        self.now += passed

    @precondition(lambda self: not self.running and self.may_start)
    @rule()
    def start(self) -> None:
        self.history = self.history.started(self.now)
        if self.is_retry:
            self.spawns.append(self.now)
        self.running, self.up_since, self.served = True, None, False

    @precondition(lambda self: self.running and self.up_since is None)
    @rule()
    def become_ready(self) -> None:
        before = (self.history.used, self.history.attempts, self.history.fruitless)
        self.history = self.history.ready(self.now)
        self.up_since, self.was_ready = self.now, True
        assert before == (self.history.used, self.history.attempts, self.history.fruitless)

    @precondition(lambda self: self.running and self.up_since is not None)
    @rule()
    def serve(self) -> None:
        self.history = self.history.served()
        self.served = True

    @precondition(lambda self: self.running)
    @rule(jitter=fractions, permanent=st.sampled_from([False, False, False, True]))
    def end(self, jitter: float, permanent: bool) -> None:
        self.history = self.history.ended(self.policy, self.now)
        if self._is_forgiven():
            self.spawns.clear()
            assert self.history.used == 0
            assert self.history.attempts == ()
        decision, self.history = decide(
            self.policy, self.history, now=self.now, jitter=jitter, is_permanent=permanent
        )
        self.running = False
        on_demand = self.policy.strategy == "on-demand"
        failed_at_first_start = not self.was_ready
        may_restart = on_demand or not (permanent or failed_at_first_start)
        if may_restart and not self._is_budget_used():
            assert isinstance(decision, OnDemand if on_demand else Again)
        else:
            assert isinstance(decision, GiveUp)
            self.given_up = decision
        self.may_start = not isinstance(decision, GiveUp)
        self.is_retry = self.may_start
        if isinstance(decision, Again):
            assert decision.delay >= 0
            self.now += decision.delay

    @precondition(lambda self: not self.running)
    @rule()
    def ask_again(self) -> None:
        self.history = self.history.restart_requested()
        self.spawns.clear()
        self.may_start, self.is_retry, self.given_up = True, False, None
        self.was_ready = False
        assert self.history == RestartHistory(restarts=self.history.restarts)

    @precondition(lambda self: self.given_up is not None)
    @rule(jitter=fractions, permanent=st.booleans())
    def giving_up_is_final(self, jitter: float, permanent: bool) -> None:
        decision, history = decide(
            self.policy, self.history, now=self.now, jitter=jitter, is_permanent=permanent
        )
        assert decision == self.given_up
        assert history == self.history

    @invariant()
    def no_window_has_more_spawns_than_allowed(self) -> None:
        max_retries = self.policy.max_retries
        if max_retries is None:
            return
        if self.policy.window is None:
            assert len(self.spawns) <= max_retries
            return
        for first, spawn in enumerate(self.spawns):
            spawns_in_window = [
                time for time in self.spawns[first:] if time < spawn + self.policy.window
            ]
            assert len(spawns_in_window) <= max_retries

    @invariant()
    def the_history_is_bounded(self) -> None:
        max_retries = self.policy.max_retries
        assert len(self.history.attempts) <= (64 if max_retries is None else max_retries) + 1

    def _is_forgiven(self) -> bool:
        forgiven_by = self.policy.forgiven_by
        if forgiven_by == "call":
            return self.served
        if forgiven_by is None and self.policy.window is not None:
            return False
        return self.up_since is not None and self.now - self.up_since >= 60

    def _is_budget_used(self) -> bool:
        if self.policy.max_retries is None:
            return False
        window = self.policy.window
        counted = [time for time in self.spawns if window is None or time > self.now - window]
        return len(counted) >= self.policy.max_retries


TestRestartModel = RestartModel.TestCase
