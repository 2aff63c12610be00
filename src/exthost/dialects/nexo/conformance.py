"""How `exthost check`, which tests whether an extension follows its dialect, checks nexo
extensions, in each of the two contracts.

The fields are explained at `Conformance`. `rules` comes from `check_rules.toml` beside this file.
"""

from exthost.dialects.conformance import (
    UNKNOWN_METHOD,
    Conformance,
    OfferWarning,
    audit_by_readers,
    read_rules,
)
from exthost.dialects.nexo.dialect import DIALECT
from exthost.dialects.nexo.hooks import HOOKS
from exthost.model.messages import Request

CONFORMANCE = Conformance(
    # Extensions of this dialect do not check arguments, because the host does so before a call.
    refused_calls=frozenset({"unknown-tool"}),
    rules=read_rules("exthost.dialects.nexo"),
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
    refused_calls=CONFORMANCE.refused_calls,
    rules={**CONFORMANCE.rules, **read_rules("exthost.dialects.nexo", "second_contract")},
    pings=(Request(UNKNOWN_METHOD, {}),),
    # The first warning breaks no rule of its own (""), because the comparison of the manifest with
    # the handshake reports the same tool.
    offer_warnings=(OfferWarning("its manifest lists the tool", ""), _UNKNOWN_HOOK),
)
