"""The settings of each dialect by its specification: restart policy, breaker, retry and shutdown.

A dialect is the protocol that an extension speaks. A breaker refuses calls for a while after many
failures. The config of the operator takes precedence over the dialect. `@shows` names the
requirements (`requirements.toml` of a dialect) that a test shows.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from exthost.dialects import find
from exthost.extension.lifecycle import Event
from exthost.extension.policy import (
    effective_breaker,
    effective_pool_size,
    effective_restart_policy,
)
from exthost.extension.restart import (
    Again,
    GiveUp,
    OnDemand,
    RestartHistory,
    decide,
    lifecycle_event_for,
)
from exthost.launch.limits import resolve_limits
from exthost.model.messages import Request
from exthost.model.shutdown_steps import CloseStdin, Say, Terminate, Write
from exthost.model.spec import Breaker, Restart, Spec
from tests.dialects.requirements import shows

BREAKER = Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False)


class Expected(NamedTuple):
    """The settings that the specification of a dialect requires. `after_crash` is the event after
    the first crash of a process that has served a call. `stop_seconds` is the sum of all waits of
    the shutdown steps."""

    restart: Restart
    after_crash: Event
    breaker: Breaker | None
    retry: str
    shutdown_steps: tuple[Any, ...]
    stop_seconds: float


EXPECTED = {
    "morphir": Expected(
        Restart(
            strategy="never", initial_delay=1, max_delay=30, max_retries=3, forgiven_by="uptime"
        ),
        Event.GAVE_UP,
        None,
        "never",
        (CloseStdin(wait=3), Terminate(wait=2)),
        5,
    ),
    "nexo": Expected(
        Restart(strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300),
        Event.WILL_RETRY,
        BREAKER,
        "never",
        (Write(b"\n"), CloseStdin(wait=3)),
        3,
    ),
    "cigen": Expected(
        Restart(strategy="on-demand"), Event.REST, None, "never", (CloseStdin(wait=5),), 5
    ),
    "mcp": Expected(
        Restart(strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300),
        Event.WILL_RETRY,
        BREAKER,
        "never",
        (CloseStdin(wait=2), Terminate(wait=2)),
        4,
    ),
    "synaps": Expected(
        Restart(
            strategy="exponential",
            initial_delay=0.25,
            max_delay=5,
            max_retries=3,
            forgiven_by="call",
        ),
        Event.WILL_RETRY,
        None,
        "once",
        (Say(Request("shutdown", None), wait=0.5), CloseStdin(wait=0.5)),
        1,
    ),
    "roder": Expected(
        Restart(strategy="on-demand", forgiven_by="call"),
        Event.REST,
        BREAKER,
        "never",
        (Say(Request("extension/shutdown", {}), wait=2), CloseStdin(wait=0.25)),
        2.25,
    ),
}


def history_with_a_served_call() -> RestartHistory:
    return RestartHistory().started(0.0).ready(1.0).served()


@shows(
    "morphir-restart-01",
    "morphir-stop-01",
    "nexo-life-01",
    "nexo-life-02",
    "nexo-life-03",
    "cigen-stop-01",
    "roder-life-07",
    "roder-life-08",
    "roder-life-09",
)
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_settings_are_those_of_the_specification(name: str) -> None:
    expected, dialect = EXPECTED[name], find.find_dialect(name)
    spec = Spec(id="x", argv=("x",), dialect=name)
    policy = effective_restart_policy(spec, dialect)
    assert policy == expected.restart
    assert effective_breaker(spec, dialect) == expected.breaker
    assert dialect.traits.retry == expected.retry
    assert dialect.traits.shutdown_steps == expected.shutdown_steps
    assert resolve_limits(spec, dialect).stop == expected.stop_seconds
    assert effective_pool_size(spec) == (1, 1, 0)
    history = history_with_a_served_call().ended(policy, 2.0)
    decision, _ = decide(policy, history, now=2.0, jitter=0.0)
    assert lifecycle_event_for(decision) is expected.after_crash
    assert isinstance(decision, Again | OnDemand | GiveUp)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_settings_of_the_operator_have_precedence(name: str) -> None:
    dialect = find.find_dialect(name)
    spec = Spec(
        id="x",
        argv=("x",),
        dialect=name,
        restart=Restart(strategy="immediate", max_retries=7),
        breaker=Breaker(failures=2),
    )
    policy, breaker = effective_restart_policy(spec, dialect), effective_breaker(spec, dialect)
    assert (policy.strategy, policy.max_retries) == ("immediate", 7)
    assert breaker == replace(BREAKER, failures=2)
