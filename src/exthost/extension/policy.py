"""The effective restart policy, pool size and circuit breaker settings of one extension.

Each setting comes from the config of the extension. If it is not set there, it comes from the
dialect (the protocol that the extension speaks), and otherwise from the defaults of exthost. Pure:
reads a `Spec` (the configured settings) and a `Dialect`, and returns values.
"""

from dataclasses import replace
from typing import NamedTuple

from exthost.dialects.base import Dialect
from exthost.extension.breaker import DEFAULTS
from exthost.model.spec import UNLIMITED, Breaker, Restart, Spec


def effective_restart_policy(spec: Spec, dialect: Dialect) -> Restart:
    """Return the effective restart policy. In it, `max_retries` None means no limit.

    With the strategy "on-demand", calls cause the starts. The dialect's `max_retries` is meant for
    automatic restarts, so it is ignored then. A `max_retries` in the config applies.
    """
    policy = spec.restart.over(dialect.traits.restart)
    ignores_dialect_limit = policy.strategy == "on-demand" and spec.restart.max_retries is None
    if ignores_dialect_limit or policy.max_retries == UNLIMITED:
        return replace(policy, max_retries=None)
    return policy


class PoolSize(NamedTuple):
    """The number of processes of one extension.

    at_start  how many are started together, at least 1
    max       the maximum number
    when_idle how many an idle extension keeps, 0 or more
    """

    at_start: int
    max: int
    when_idle: int


# Shared, because a host may have hundreds of extensions without a pool.
_ONE_PROCESS = PoolSize(at_start=1, max=1, when_idle=0)


def effective_pool_size(spec: Spec) -> PoolSize:
    """Return the effective pool size: one process, unless more are configured."""
    # A configured minimum of 0 only allows that no process runs while the extension is idle.
    if spec.pool.min is None and spec.pool.max is None:
        return _ONE_PROCESS
    at_start = max(1, spec.pool.min or 1)
    return PoolSize(at_start, max(at_start, spec.pool.max or 1), spec.pool.min or 0)


def effective_breaker(spec: Spec, dialect: Dialect) -> Breaker | None:
    """Return the effective breaker settings; None if neither config nor dialect sets any."""
    dialect_breaker = dialect.traits.breaker
    if dialect_breaker is None:
        return None if spec.breaker == Breaker() else spec.breaker.over(DEFAULTS)
    return spec.breaker.over(dialect_breaker.over(DEFAULTS))
