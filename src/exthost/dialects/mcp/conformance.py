"""How `exthost check`, which tests whether an extension follows its dialect, checks MCP servers.

The fields are explained at `Conformance`. `rules` comes from `check_rules.toml` beside this file.
"""

from exthost.dialects.conformance import UNKNOWN_METHOD, Conformance, OfferWarning, read_rules
from exthost.dialects.mcp.facets import ENDLESS, SAME_PAGE, TOO_DEEP, TOO_LARGE
from exthost.dialects.mcp.handshake import NO_CAPABILITIES
from exthost.dialects.mcp.notification_audit import audit_notification
from exthost.dialects.mcp.result_audit import audit_result
from exthost.model.messages import Request

CONFORMANCE = Conformance(
    refused_calls=frozenset({"unknown-tool", "bad-arguments"}),
    rules=read_rules("exthost.dialects.mcp"),
    # Servers with a handshake have `ping`; stateless servers do not.
    pings=(Request("ping", None), Request("tools/list", {}), Request(UNKNOWN_METHOD, {})),
    # Official clients refuse a reply that has both.
    null_error=False,
    audit_result=audit_result,
    audit_notification=audit_notification,
    offer_warnings=(
        OfferWarning(NO_CAPABILITIES, ""),  # breaks no further rule: `audit_result` reports it
        OfferWarning(f" {SAME_PAGE} after ", "last-page"),
        OfferWarning(f" {ENDLESS} after ", "last-page"),
        OfferWarning(f" {TOO_LARGE} after ", "last-page"),
        OfferWarning(f" {TOO_DEEP} after ", "last-page"),
    ),
    empty_fix=(
        'list its features in `capabilities` of its first reply, such as {"tools": {}}: '
        "a host requests nothing that is not named there"
    ),
)
