"""The limit for output of an extension that no call waits for, such as notifications.

`FloodBudget` is a leaky bucket: each message raises the level by its units, the level falls at a
constant rate, and above `burst_units` the output is a flood, which the host reads only slowly.
Tests pass the time as an argument.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exthost.process.flood_budget import PIPE_RATE, FloodBudget, Rate, message_units

# Messages: the seconds since the last one, and the units of this one.
CHARGES = st.lists(st.tuples(st.floats(0, 2), st.integers(1, 5000)), max_size=50)


@pytest.mark.parametrize(("notifications", "times_a_second"), [(1, 1000), (10, 100), (100, 10)])
def test_a_thousand_notifications_a_second_are_not_a_flood(
    notifications: int, times_a_second: int
) -> None:
    budget = FloodBudget(PIPE_RATE)
    for turn in range(10 * times_a_second):
        assert not budget.charge(notifications, turn / times_a_second)


@given(CHARGES)
def test_the_level_is_the_charge_that_has_not_leaked(charges: list[tuple[float, int]]) -> None:
    rate = Rate(units_per_second=100, burst_units=50)
    budget = FloodBudget(rate)
    now = level = 0.0
    for pause, units in charges:
        now += pause
        # The level has a maximum, so that every flood is over ten seconds after its end.
        maximum = 10.0 * rate.units_per_second
        level = min(max(0.0, level - pause * rate.units_per_second) + units, maximum)
        assert budget.charge(units, now) == (budget.level(now) > rate.burst_units)
        assert budget.level(now) == pytest.approx(level)


@given(CHARGES)
def test_every_flood_is_over_after_ten_seconds(charges: list[tuple[float, int]]) -> None:
    budget = FloodBudget(PIPE_RATE)
    now = 0.0
    for pause, units in charges:
        now += pause
        budget.charge(units, now)
    assert budget.has_recovered(now + 10)


@given(st.floats(0.025, 50_000))
def test_output_at_twice_the_rate_is_a_flood_whatever_the_size_of_its_parts(units: float) -> None:
    """From a fraction of a unit, for a few bytes, to one part that is far above the burst."""
    budget = FloodBudget(PIPE_RATE)
    seconds_between_parts = units / (2 * PIPE_RATE.units_per_second)
    parts_in_a_second = int(1 / seconds_between_parts) + 1
    assert any(
        budget.charge(units, part * seconds_between_parts) for part in range(parts_in_a_second)
    )


def test_a_large_message_costs_more_than_a_small_one() -> None:
    assert (message_units(0), message_units(1023), message_units(2**20)) == (1, 1, 1025)
