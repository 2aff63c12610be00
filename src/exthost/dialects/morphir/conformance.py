"""How `exthost check` checks morphir extensions.

Names the requirement that each check tests, and requests without an effect.
"""

from types import MappingProxyType

from exthost.dialects.conformance import Conformance
from exthost.messages import Request

CONFORMANCE = Conformance(
    rules=MappingProxyType(
        {
            "start": "morphir-load-01",
            "handshake": "morphir-load-03",
            "stdout-noise": "morphir-wire-10",
            "json": "morphir-wire-01",
            "message-form": "morphir-wire-01",
            "one-line": "morphir-wire-01",
            "utf8": "morphir-wire-01",
            "number": "morphir-wire-01",
            "reply-id": "morphir-wire-03",
            "reply-id-type": "morphir-wire-03",
            "reply-once": "morphir-wire-15",
            "reply-form": "morphir-wire-13",
            "error-form": "morphir-wire-04",
            "message-size": "morphir-wire-16",
            "unknown-method": "morphir-call-06",
            "unknown-tool": "morphir-call-07",
            "end-of-input": "morphir-stop-01",
            "early-end": "morphir-stop-01",
            "signal": "morphir-stop-02",
            "restart": "morphir-restart-04",
            "tools": "morphir-load-09",
        }
    ),
    pings=(Request("capabilities", None), Request("health_check", None)),
    has_version=False,
    error_form="text",
    # Some extensions omit a result that is null, and the host accepts such a reply.
    warnings=frozenset({"reply-form"}),
)
