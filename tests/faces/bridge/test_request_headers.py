"""Tests of `RequestHeaders`, which the bridge to a remote MCP server uses for its HTTP requests.

MCP requires that headers repeat parts of a message, so that proxies need not read the body. A tool
can mark an argument for a header (`x-mcp-header`). To know these marks, `RequestHeaders` reads the
replies to `tools/list`.
"""

from typing import Any

import pytest
from mcp.shared.inbound import decode_header_value
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
)

from exthost.faces.bridge.request_headers import RequestHeaders

# A tool whose schema marks an argument for a header under a name that is not valid.
BAD_TOOL = {
    "name": "bad",
    "inputSchema": {
        "type": "object",
        "properties": {"city": {"type": "string", "x-mcp-header": "not a header"}},
    },
}


def list_request(id: int) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id, method="tools/list")


def reply_with_bad_tool(id: int) -> JSONRPCResponse:
    result: dict[str, Any] = {"tools": [BAD_TOOL]}
    return JSONRPCResponse(jsonrpc="2.0", id=id, result=result)


def test_a_tool_with_an_invalid_header_name_is_removed_from_the_list() -> None:
    headers = RequestHeaders()
    headers.for_request(list_request(1))
    reply = reply_with_bad_tool(1)
    [reason] = headers.process_reply(reply)
    assert "'bad' cannot be called" in reason
    assert reply.result["tools"] == []


@pytest.mark.parametrize("method", ["a\nb", "métier", "名", " a", "x\r\nHost: evil"])
def test_a_method_and_a_version_that_do_not_fit_into_a_header_are_encoded(method: str) -> None:
    headers = RequestHeaders()
    initialize = JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize")
    headers.for_request(initialize)
    reply = JSONRPCResponse(jsonrpc="2.0", id=1, result={"protocolVersion": method})
    headers.process_reply(reply)
    meta = {"_meta": {PROTOCOL_VERSION_META_KEY: method}}
    for params in (None, meta):
        request = JSONRPCRequest(jsonrpc="2.0", id=2, method=method, params=params)
        sent = headers.for_request(request)
        assert len(sent) == 2
        for value in sent.values():
            assert value.isascii() and value.isprintable()
            assert decode_header_value(value) == method


def test_a_request_that_failed_is_forgotten() -> None:
    headers = RequestHeaders()
    headers.for_request(list_request(1))
    error = ErrorData(code=-32603, message="busy")
    assert headers.process_reply(JSONRPCError(jsonrpc="2.0", id=1, error=error)) == []
    # The same id again, but not of a list of tools: the reply is not changed.
    reply_to_other_request = reply_with_bad_tool(1)
    assert headers.process_reply(reply_to_other_request) == []
    assert reply_to_other_request.result["tools"] == [BAD_TOOL]
