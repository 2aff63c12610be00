"""The policies in force for one extension: restart, pool size, breaker.

Each comes from the config of the extension, then from its dialect, then from our defaults. Pure:
reads a Spec and a Dialect, and returns values.
"""

from dataclasses import replace
from typing import NamedTuple

from exthost.dialects.base import Dialect
from exthost.extension.breaker import DEFAULTS
from exthost.spec import UNLIMITED, Breaker, Restart, Spec


def effective_restart_policy(spec: Spec, dialect: Dialect) -> Restart:
    """Return the restart policy in force. In it, `max_retries` None means no limit.

    With the strategy "on-demand" a caller causes every start. The limit of a dialect is meant for
    automatic restarts, so it does not apply then.
    """
    policy = spec.restart.over(dialect.traits.restart)
    on_demand = policy.strategy == "on-demand" and spec.restart.max_retries is None
    if on_demand or policy.max_retries == UNLIMITED:
        return replace(policy, max_retries=None)
    return policy


class PoolSize(NamedTuple):
    """The number of processes: at a start, at most, and how many are kept when idle."""

    least: int
    most: int
    kept: int


def effective_pool_size(spec: Spec) -> PoolSize:
    """Return the pool size in force: one process, unless more are configured."""
    least = max(1, spec.pool.min or 1)
    return PoolSize(least, max(least, spec.pool.max or 1), spec.pool.min or 0)


def effective_breaker(spec: Spec, dialect: Dialect) -> Breaker | None:
    """Return the breaker in force: that of the config or of the dialect, or None."""
    usual = dialect.traits.breaker
    if usual is None:
        return None if spec.breaker == Breaker() else spec.breaker.over(DEFAULTS)
    return spec.breaker.over(usual.over(DEFAULTS))
