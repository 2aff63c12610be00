"""The policies in force for one extension: restart, pool size, breaker.

Each comes from the config of the extension, then from its dialect, then from our defaults. Pure:
reads a Spec and a Dialect, and returns values.
"""

from dataclasses import replace
from typing import NamedTuple

from exthost.dialects.base import Dialect
from exthost.extension.breaker import DEFAULTS
from exthost.model import UNLIMITED, Breaker, Restart, Spec


def restart_of(spec: Spec, dialect: Dialect) -> Restart:
    """The restart policy in force; in it, `max_retries` None is no limit.

    On demand every start has somebody who asks for it, so a dialect's budget, which is meant for
    restarts that come by themselves, does not bind it.
    """
    policy = spec.restart.over(dialect.traits.restart)
    on_demand = policy.strategy == "on-demand" and spec.restart.max_retries is None
    if on_demand or policy.max_retries == UNLIMITED:
        return replace(policy, max_retries=None)
    return policy


class PoolSize(NamedTuple):
    """How many processes: at a start, at most, and how many are kept when they are idle."""

    least: int
    most: int
    kept: int


def pool_of(spec: Spec) -> PoolSize:
    """One process, unless more are wanted."""
    least = max(1, spec.pool.min or 1)
    return PoolSize(least, max(least, spec.pool.max or 1), spec.pool.min or 0)


def breaker_of(spec: Spec, dialect: Dialect) -> Breaker | None:
    """The breaker in force: the dialect's, or one because the operator wants one; else none."""
    usual = dialect.traits.breaker
    if usual is None:
        return None if spec.breaker == Breaker() else spec.breaker.over(DEFAULTS)
    return spec.breaker.over(usual.over(DEFAULTS))
