"""Decides which limits apply to one extension.

Each limit comes from the first of these that sets it: the extension's config, its dialect, the
defaults of the host. The dialect's `stop` is the time that its shutdown steps wait. Afterwards some
limits are lowered to what the permissions or the dialect (the protocol that the extension speaks)
allow.
"""

from collections.abc import Mapping
from dataclasses import replace

from exthost.dialects.base import Dialect
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.shutdown_steps import total_seconds
from exthost.model.spec import Limits, Spec

# The host's defaults, for limits that neither the config nor the dialect sets. A limit that is not
# in this list stays None, which means no limit.
_DEFAULT_LIMITS = Limits(
    # Seconds.
    start=60,
    handshake=30,
    call=30,
    write=30,
    stop=10,
    # Bytes of one message.
    max_message=64 * 2**20,
    # The number of calls that wait for their reply.
    max_in_flight=1024,
    # Bytes that the extension may keep in the host's key-value store.
    store=64 * 2**20,
)


def resolve_limits(spec: Spec, dialect: Dialect) -> Limits:
    """Return the limits of an extension.

    `permissions.max_execution_time` lowers the time limit of a call. The dialect's largest message
    lowers `max_message`. In positional dialects (replies carry no id and match requests by order)
    `max_in_flight` is 1, so that a reply always belongs to the only call that waits for one.
    """
    stop_seconds = total_seconds(dialect.traits.shutdown_steps) or None
    # In `a.over(b)` the values that are set in `a` win.
    dialect_limits = Limits(stop=stop_seconds).over(dialect.traits.limits)
    limits = spec.limits.over(dialect_limits.over(_DEFAULT_LIMITS))
    max_call_seconds = _max_call_seconds(spec)
    if max_call_seconds is not None and limits.call is not None:
        limits = replace(limits, call=min(limits.call, max_call_seconds))
    max_message_bytes = dialect.traits.largest_message
    if max_message_bytes is not None and limits.max_message is not None:
        limits = replace(limits, max_message=min(limits.max_message, max_message_bytes))
    return replace(limits, max_in_flight=1) if dialect.traits.positional else limits


def resolve_method_limits(spec: Spec, dialect: Dialect) -> Mapping[str, float]:
    """Return the dialect's time limits of single methods and operations, in seconds, by name.

    `permissions.max_execution_time` lowers each of them. If the operator sets `limits.call`, the
    result is empty: that limit is explicit and applies to every call, while these are only defaults
    of the dialect.
    """
    if spec.limits.call is not None:
        return EMPTY_MAPPING
    max_call_seconds = _max_call_seconds(spec)
    method_limits = dialect.traits.method_limits
    if max_call_seconds is None:
        return method_limits
    return {name: min(seconds, max_call_seconds) for name, seconds in method_limits.items()}


def _max_call_seconds(spec: Spec) -> float | None:
    return spec.permissions.max_execution_time if spec.permissions is not None else None
