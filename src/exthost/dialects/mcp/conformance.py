"""How `exthost check` checks mcp extensions.

Names the requirement that each check tests, requests without an effect, and the check of results.
"""

from types import MappingProxyType

from exthost.dialects.conformance import UNKNOWN_METHOD, Conformance, OfferWarning
from exthost.dialects.mcp.facets import ENDLESS, SAME_PAGE
from exthost.dialects.mcp.handshake import NO_CAPABILITIES
from exthost.dialects.mcp.notification_audit import audit_notification
from exthost.dialects.mcp.result_audit import audit_result
from exthost.model.messages import Request

CONFORMANCE = Conformance(
    rules=MappingProxyType(
        {
            "handshake": "mcp-hand-03",
            "stdout-noise": "mcp-wire-02",
            "json": "mcp-wire-01",
            "message-form": "mcp-wire-01",
            "one-line": "mcp-wire-01",
            "utf8": "mcp-wire-01",
            "number": "mcp-wire-01",
            "version-member": "mcp-wire-01",
            "error-form": "mcp-wire-01",
            "reply-id": "mcp-wire-03",
            "reply-id-type": "mcp-wire-03",
            "notification-reply": "mcp-wire-01",
            "message-size": "mcp-wire-04",
            "unknown-method": "mcp-ask-01",
            "cancel": "mcp-cancel-01",
            "end-of-input": "mcp-end-01",
            "early-end": "mcp-end-01",
            "signal": "mcp-end-01",
            "restart": "mcp-tools-06",
            "tools": "mcp-tools-01",
            "last-page": "mcp-tools-02",
            "result": "mcp-tools-04",
        }
    ),
    # Servers with a handshake have `ping`; stateless servers do not.
    pings=(Request("ping", None), Request("tools/list", {}), Request(UNKNOWN_METHOD, {})),
    # Official clients refuse a reply that has both.
    null_error=False,
    audit_result=audit_result,
    audit_notification=audit_notification,
    offer_warnings=(
        OfferWarning(NO_CAPABILITIES, ""),  # `audit_result` reports it
        OfferWarning(f" {SAME_PAGE} after ", "last-page"),
        OfferWarning(f" {ENDLESS} after ", "last-page"),
        OfferWarning(" has no name and is ignored", "tools", "give each tool a name, as text"),
    ),
    empty_fix=(
        'list its features in `capabilities` of its first reply, such as {"tools": {}}: '
        "a host requests nothing that is not named there"
    ),
)
