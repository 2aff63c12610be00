"""How `exthost check` checks nexo extensions.

Names the requirement that each check tests, and requests without an effect.
"""

from types import MappingProxyType

from exthost.dialects.conformance import (
    UNKNOWN_METHOD,
    Conformance,
    OfferWarning,
    audit_by_readers,
)
from exthost.dialects.nexo.dialect import DIALECT
from exthost.dialects.nexo.hooks import HOOKS
from exthost.messages import Request

CONFORMANCE = Conformance(
    rules=MappingProxyType(
        {
            "manifest": "nexo-manifest-08",
            "handshake": "nexo-hand-09",
            "stdout-noise": "nexo-wire-04",
            "json": "nexo-wire-01",
            "message-form": "nexo-wire-01",
            "one-line": "nexo-wire-01",
            "reply-id": "nexo-wire-11",
            "reply-id-type": "nexo-wire-11",
            "reply-once": "nexo-wire-11",
            "reply-form": "nexo-wire-06",
            "version-member": "nexo-wire-05",
            "error-form": "nexo-wire-08",
            "message-size": "nexo-wire-03",
            "unknown-method": "nexo-call-02",
            "unknown-tool": "nexo-call-01",
            "end-of-input": "nexo-life-02",
            "early-end": "nexo-life-02",
            "restart": "nexo-life-04",
            "tools": "nexo-hand-03",
            "input-schema": "nexo-context-05",
        }
    ),
    pings=(Request("tools/list", {}), Request(UNKNOWN_METHOD, {})),
    audit_notification=audit_by_readers(DIALECT.notifications),
    offer_warnings=(
        OfferWarning("it offers an unknown hook", "offer", f"the hooks are {', '.join(HOOKS)}"),
    ),
)
