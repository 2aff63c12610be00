"""The limits in force for one extension: its config, then its dialect, then our defaults.

Pure: reads a Spec and a Dialect, and returns values.
"""

from collections.abc import Mapping
from dataclasses import replace

from exthost.dialects.base import Dialect
from exthost.empty_mapping import EMPTY_MAPPING
from exthost.spec import Limits, Spec

# For limits that neither the operator nor the dialect sets.
_LIMITS = Limits(
    start=60,
    handshake=30,
    call=30,
    write=30,
    stop=10,
    max_message=64 * 2**20,
    max_in_flight=1024,
    store=64 * 2**20,
)


def limits_of(spec: Spec, dialect: Dialect) -> Limits:
    """Return the limits in force. `max_execution_time` limits every call, and what the dialect
    allows limits every message."""
    limits = spec.limits.over(dialect.traits.limits.over(_LIMITS))
    most = spec.permissions.max_execution_time if spec.permissions is not None else None
    if most is not None and limits.call is not None:
        limits = replace(limits, call=min(limits.call, most))
    largest = dialect.traits.largest_message
    if largest is not None and limits.max_message is not None:
        limits = replace(limits, max_message=min(limits.max_message, largest))
    return replace(limits, max_in_flight=1) if dialect.traits.positional else limits


def method_limits_of(spec: Spec, dialect: Dialect) -> Mapping[str, float]:
    """Return the time limits of single methods and operations. If the operator sets `limits.call`,
    there are none. `max_execution_time` limits each of them."""
    if spec.limits.call is not None:
        return EMPTY_MAPPING
    most = spec.permissions.max_execution_time if spec.permissions is not None else None
    own = dialect.traits.method_limits
    return own if most is None else {name: min(limit, most) for name, limit in own.items()}
