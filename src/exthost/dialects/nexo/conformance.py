"""How `exthost check` checks nexo extensions, in each of the two contracts.

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
from exthost.model.messages import Request

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

_UNKNOWN_HOOK = OfferWarning(
    "its manifest lists an unknown hook", "offer", f"the hooks are {', '.join(HOOKS)}"
)

SECOND_CONTRACT = Conformance(
    rules=MappingProxyType(
        {
            **CONFORMANCE.rules,
            "manifest": "nexo-second-01",
            "handshake": "nexo-second-05",
            "unknown-method": "nexo-second-12",
            "unknown-tool": "nexo-second-08",
            "shutdown": "nexo-second-14",
            "end-of-input": "nexo-second-14",
            "early-end": "nexo-second-14",
            "restart": "nexo-second-14",
            "tools": "nexo-second-06",
            "input-schema": "nexo-second-05",
        }
    ),
    pings=(Request(UNKNOWN_METHOD, {}),),
    # The comparison of the manifest with the handshake reports the tool.
    offer_warnings=(OfferWarning("its manifest lists the tool", ""), _UNKNOWN_HOOK),
)
