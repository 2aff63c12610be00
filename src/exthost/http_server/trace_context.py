"""W3C Trace Context: what joins the spans of a caller, a host and an extension. Pure."""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["trace_context"]

_MEMBERS = ("tracestate", "baggage")
_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def trace_context(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of a trace context among these headers; none without a `traceparent` that
    can be used, as its specification has it."""
    parent = headers.get("traceparent")
    if not (isinstance(parent, str) and _PARENT.fullmatch(parent)):
        return {}
    more = {name: value for name in _MEMBERS if isinstance(value := headers.get(name), str)}
    return {"traceparent": parent, **more}
