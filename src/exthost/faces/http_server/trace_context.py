"""Reads a W3C Trace Context, which connects the spans of caller, host and extension.

The HTTP services of a host pass it on to the extension that they call. Its main part is the header
`traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
"""

import re
from collections.abc import Mapping
from typing import Any

# Optional headers, which have a meaning only together with a valid `traceparent`.
_OPTIONAL_HEADERS = ("tracestate", "baggage")
# Ids of zeros and the version ff are not valid. Only versions after 00 may have further fields.
_IDS = r"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT = re.compile(rf"00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(-.*)?")


def trace_context(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a trace context among these headers. As the specification of W3C
    demands, return an empty dict if there is no valid `traceparent`."""
    parent = headers.get("traceparent")
    if not (isinstance(parent, str) and _TRACEPARENT.fullmatch(parent)):
        return {}
    optional_headers = {
        name: value for name in _OPTIONAL_HEADERS if isinstance(value := headers.get(name), str)
    }
    return {"traceparent": parent, **optional_headers}
