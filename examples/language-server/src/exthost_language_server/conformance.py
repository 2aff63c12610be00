"""How `exthost check` checks language servers."""

from exthost.dialects.conformance import UNKNOWN_METHOD, Conformance
from exthost.model.messages import Request

CONFORMANCE = Conformance(
    # LSP answers an unknown method with the error -32601, so such a request has no effect.
    pings=(Request(UNKNOWN_METHOD, {}),),
    # A server that gets no `shutdown` before the end of its input exits with 1.
    warnings=frozenset({"exit-status"}),
)
