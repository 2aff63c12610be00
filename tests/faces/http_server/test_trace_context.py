"""Tests of `trace_context`, which returns the W3C Trace Context of an HTTP request.

These are the headers `traceparent`, `tracestate` and `baggage`, by which a call can be traced
across services. They are used only if `traceparent` is valid.
"""

import pytest

from exthost.faces.http_server.trace_context import trace_context

# Version, trace id, id of the parent span, and flags, in lower-case hexadecimal digits.
PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def test_the_trace_context_has_only_its_three_headers() -> None:
    headers = {"traceparent": PARENT, "tracestate": "x=1", "baggage": "b=2", "cookie": "c"}
    assert trace_context(headers) == {"traceparent": PARENT, "tracestate": "x=1", "baggage": "b=2"}


@pytest.mark.parametrize(
    "parent",
    [
        *(None, 7, "", "00-1-2-03", PARENT.upper(), PARENT + "\n"),
        *(f"ff{PARENT[2:]}", PARENT + "-more"),
        *(PARENT.replace("a" * 32, "0" * 32), PARENT.replace("b" * 16, "0" * 16)),
    ],
)
def test_without_a_usable_parent_the_trace_context_is_empty(parent: object) -> None:
    assert trace_context({"traceparent": parent, "tracestate": "x=1"}) == {}


def test_a_later_version_may_have_further_fields() -> None:
    parent = f"01{PARENT[2:]}-more"
    assert trace_context({"traceparent": parent}) == {"traceparent": parent}
