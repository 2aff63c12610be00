"""The life cycle of an extension: a table of transitions, and a page of documentation about it.

An extension is always in one state, such as STARTING or READY. A row of TABLE says to which state
an event leads: (READY, STOP) leads to DRAINING. FACTS has the properties of each state, for example
whether calls wait in it. `docs/lifecycle.md` shows both.
"""

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from exthost.extension import lifecycle
from exthost.extension.lifecycle import (
    FACTS,
    INITIAL_STATE,
    TABLE,
    Event,
    Health,
    IllegalMove,
    State,
    health_in,
    step,
)

PAGE = (Path(__file__).parents[2] / "docs" / "lifecycle.md").read_text(encoding="utf-8")


def states_after(*events: Event, start: State = INITIAL_STATE) -> list[str]:
    """Return the states after each of these events."""
    states = [start]
    for event in events:
        states.append(step(states[-1], event))
    return [state.value for state in states[1:]]


UNTIL_READY = (Event.ADMIT, Event.START, Event.HANDSHAKE_DONE)


def test_an_eager_extension_starts_serves_and_stops() -> None:
    assert states_after(*UNTIL_READY, Event.STOP, Event.ENDED) == [
        "admitted",
        "starting",
        "ready",
        "draining",
        "stopped",
    ]


def test_a_crash_leads_through_backoff_to_a_new_start() -> None:
    crash = (Event.WILL_RETRY, Event.RETRY_DUE, Event.HANDSHAKE_DONE)
    assert states_after(*UNTIL_READY, *crash)[3:] == ["backoff", "starting", "ready"]


def test_failed_restarts_lead_to_backoff_and_finally_to_failed() -> None:
    failed_restart = (Event.WILL_RETRY, Event.RETRY_DUE)
    assert states_after(*UNTIL_READY, *failed_restart, *failed_restart, Event.GAVE_UP)[3:] == [
        "backoff",
        "starting",
        "backoff",
        "starting",
        "failed",
    ]


@pytest.mark.parametrize("state", [State.STARTING, State.READY])
def test_on_demand_a_crash_or_failed_start_leads_to_admitted(state: State) -> None:
    """With the restart strategy "on-demand", the extension rests until the next call starts it."""
    assert states_after(Event.REST, Event.START, start=state) == ["admitted", "starting"]


def test_a_probe_starts_a_new_process_and_a_failed_probe_opens_again() -> None:
    """The circuit breaker opens after several failures, and then lets one call try, as a probe."""
    failed_start = (Event.BREAKER_OPENED, Event.PROBE, Event.BREAKER_OPENED)
    assert states_after(*failed_start, start=State.READY) == ["open", "starting", "open"]
    failed_call = (Event.PROBE, Event.HANDSHAKE_DONE, Event.BREAKER_OPENED)
    assert states_after(*failed_call, start=State.OPEN) == ["starting", "ready", "open"]


def test_a_refused_extension_that_is_asked_for_again_is_checked_again() -> None:
    assert states_after(Event.REFUSE, Event.ASKED_AGAIN, Event.ADMIT) == [
        "refused",
        "discovered",
        "admitted",
    ]


def test_a_stop_during_backoff_leads_to_stopped() -> None:
    assert step(State.BACKOFF, Event.STOP) is State.STOPPED


@pytest.mark.parametrize("state", [State.FAILED, State.STOPPED])
def test_only_asking_again_leads_out_of_failed_and_stopped(state: State) -> None:
    assert {row.event for row in TABLE if row.state is state} == {Event.ASKED_AGAIN}


def test_every_pair_that_is_not_in_the_table_is_an_illegal_move() -> None:
    rows = {(row.state, row.event): row.next for row in TABLE}
    illegal = 0
    for state, event in product(State, Event):
        if (state, event) in rows:
            assert step(state, event) is rows[state, event]
        else:
            with pytest.raises(IllegalMove):
                step(state, event)
            illegal += 1
    assert illegal == len(State) * len(Event) - len(TABLE)


def test_an_illegal_move_is_a_failed_lookup_that_names_the_legal_moves() -> None:
    with pytest.raises(LookupError) as caught:
        step(State.DRAINING, Event.PROBE)
    assert str(caught.value) == (
        "internal error: 'probe' is not a transition from 'draining', which knows 'ended'"
    )


def test_no_state_and_event_have_two_rows() -> None:
    assert len({(row.state, row.event) for row in TABLE}) == len(TABLE)


def test_every_event_is_used_and_every_state_can_be_reached_and_left() -> None:
    assert {row.event for row in TABLE} == set(Event)
    reached = {INITIAL_STATE}
    while newly_reached := {row.next for row in TABLE if row.state in reached} - reached:
        reached |= newly_reached
    assert reached == set(State)
    assert {row.state for row in TABLE} == set(State)


def test_every_state_with_a_possible_process_can_be_stopped() -> None:
    for state in set(State) - {State.DRAINING}:
        if lifecycle.is_at_rest(state) or state is State.DISCOVERED:
            continue
        assert step(state, Event.STOP) in (State.DRAINING, State.STOPPED)


def test_an_extension_at_rest_is_refused_stopped_or_failed() -> None:
    assert {state for state in State if lifecycle.is_at_rest(state)} == {
        State.REFUSED,
        State.STOPPED,
        State.FAILED,
    }


def test_tools_are_listed_in_states_in_which_a_call_can_be_served() -> None:
    assert {state for state in State if lifecycle.lists_tools(state)} == {
        State.ADMITTED,
        State.STARTING,
        State.READY,
        State.BACKOFF,
        State.OPEN,
    }


def test_calls_wait_only_in_states_that_lead_to_ready() -> None:
    waiting_states = {state for state in State if lifecycle.lets_calls_wait(state)}
    assert waiting_states == {State.ADMITTED, State.STARTING, State.BACKOFF}
    for state in waiting_states:
        assert lifecycle.lists_tools(state)


@pytest.mark.parametrize(
    ("state", "has_crashed", "health"),
    [
        (State.READY, False, "running"),
        (State.READY, True, "degraded"),
        (State.STARTING, False, "starting"),
        (State.STARTING, True, "restarting"),
        (State.BACKOFF, True, "restarting"),
        (State.BACKOFF, False, "restarting"),
        (State.FAILED, True, "failed"),
        (State.STOPPED, True, "stopped"),
        (State.OPEN, True, "suspended"),
        (State.ADMITTED, True, "idle"),
    ],
)
def test_health_is_one_word(state: State, has_crashed: bool, health: str) -> None:
    assert lifecycle.health_in(state, has_crashed=has_crashed) == health


def test_the_page_shows_the_diagram_of_the_table() -> None:
    diagram_on_page = PAGE.split("```mermaid\n")[1].split("\n```")[0]
    assert diagram_on_page == lifecycle.diagram(), "run: python -m exthost.extension.lifecycle"


def test_the_module_prints_the_diagram() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "exthost.extension.lifecycle"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert result.stdout == lifecycle.diagram() + "\n"


def test_the_diagram_has_a_line_for_every_row() -> None:
    lines = lifecycle.diagram().splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> discovered"]
    assert "    open --> starting: probe" in lines
    assert len(lines) == 2 + len(TABLE)


def test_the_page_shows_the_facts_of_every_state() -> None:
    # Only the table of the states has five columns: state, meaning, tools, calls, health.
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| `")]
    cells_by_state = {
        row[0].strip(" `"): [cell.strip() for cell in row[2:]] for row in rows if len(row) == 5
    }
    for state, facts in FACTS.items():
        if facts.lets_calls_wait:
            call = "waits"
        elif state is State.READY:
            call = "goes through"
        else:
            call = "fails"
        health_words = dict.fromkeys((facts.health, facts.health_after_crash))
        assert cells_by_state.pop(state.value) == [
            "yes" if facts.lists_tools else "no",
            call,
            " / ".join(health_words),
        ]
    assert not cells_by_state


def test_the_page_explains_every_event() -> None:
    # The table of the events has two columns, so the split at | gives four parts.
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| `")]
    assert [row[1].strip(" `") for row in rows if len(row) == 4] == [event.value for event in Event]


def test_states_and_health_are_equal_to_their_words() -> None:
    """Users can write `extension.state == "ready"`."""
    ready: State = State("ready")
    assert ready == "ready" and f"{ready}" == "ready" and ready is State.READY
    assert {state.value for state in State} == set(State)
    for facts in FACTS.values():
        assert facts.health in set(Health) and facts.health_after_crash in set(Health)
    assert health_in(State.READY, has_crashed=False) == "running"
