"""What each page says of restart, breaker, retry and stop, held against what is in force."""

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

PAGES_BREAKER = Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False)


class Page(NamedTuple):
    """One page, in figures. `crash` is what follows the first crash of one that has served, and
    `stop` how long the shutdown steps wait together."""

    restart: Restart
    crash: Event
    breaker: Breaker | None
    retry: str
    shutdown_steps: tuple[Any, ...]
    stop: float


PAGES = {
    "morphir": Page(
        Restart(
            strategy="never", initial_delay=1, max_delay=30, max_retries=3, forgiven_by="uptime"
        ),
        Event.GAVE_UP,
        None,
        "never",
        (CloseStdin(wait=3), Terminate(wait=2)),
        5,
    ),
    "nexo": Page(
        Restart(strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300),
        Event.WILL_RETRY,
        PAGES_BREAKER,
        "never",
        (Write(b"\n"), CloseStdin(wait=3)),
        3,
    ),
    "cigen": Page(
        Restart(strategy="on-demand"), Event.REST, None, "never", (CloseStdin(wait=5),), 5
    ),
    "mcp": Page(
        Restart(strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300),
        Event.WILL_RETRY,
        PAGES_BREAKER,
        "never",
        (CloseStdin(wait=2), Terminate(wait=2)),
        4,
    ),
    "synaps": Page(
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
    "roder": Page(
        Restart(strategy="on-demand", forgiven_by="call"),
        Event.REST,
        PAGES_BREAKER,
        "never",
        (Say(Request("extension/shutdown", {}), wait=2), CloseStdin(wait=0.25)),
        2.25,
    ),
}


def crashed() -> RestartHistory:
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
@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_figures_in_force_are_those_of_the_page(name: str) -> None:
    page, dialect = PAGES[name], find.find_dialect(name)
    spec = Spec(id="x", argv=("x",), dialect=name)
    policy = effective_restart_policy(spec, dialect)
    assert policy == page.restart
    assert effective_breaker(spec, dialect) == page.breaker
    assert dialect.traits.retry == page.retry
    assert dialect.traits.shutdown_steps == page.shutdown_steps
    assert resolve_limits(spec, dialect).stop == page.stop
    assert effective_pool_size(spec) == (1, 1, 0)
    decision, _ = decide(policy, crashed().ended(policy, 2.0), now=2.0, jitter=0.0)
    assert lifecycle_event_for(decision) is page.crash
    assert isinstance(decision, Again | OnDemand | GiveUp)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_operators_settings_go_before_the_page(name: str) -> None:
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
    assert breaker == replace(PAGES_BREAKER, failures=2)
