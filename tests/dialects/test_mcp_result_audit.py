"""The audit of results of MCP servers by `exthost check`.

The host accepts some results that the protocol does not allow, and official clients refuse. The
audit reports them, as `RULE: MESSAGE` with a fix. It depends on the era of the protocol: in the
earlier one, a session begins with `initialize`; the later one is stateless.
"""

from typing import Any

import pytest

from exthost.dialects.mcp.result_audit import audit_result

# The methods of the requests before the audited one.
HANDSHAKE = frozenset({"initialize"})
TEXT = {"type": "text", "text": "hi"}
INFO = {"name": "x", "version": "1"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
OBJECT = {"type": "object"}


def audit(method: str, result: Any, earlier: frozenset[str] = HANDSHAKE) -> list[str]:
    problems = list(audit_result(method, result, earlier))
    assert all(problem.fix for problem in problems)
    return [f"{problem.rule}: {problem.message}" for problem in problems]


def resource(**members: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///a", **members}}


@pytest.mark.parametrize(
    ("method", "result", "message"),
    [
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}},
            "handshake: in its reply to initialize: serverInfo is missing",
        ),
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x"}},
            "the version of serverInfo is missing",
        ),
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "serverInfo": INFO},
            "handshake: in its reply to initialize: capabilities",
        ),
        (
            "initialize",
            {"capabilities": {}, "serverInfo": INFO},
            "handshake: in its reply to initialize: protocolVersion is missing",
        ),
        (
            "server/discover",
            {"supportedVersions": [], "capabilities": ["tools"]},
            "capabilities is ['tools'] and must be an object",
        ),
        ("tools/list", {"tools": [{"name": "a"}]}, "inputSchema of 'a' is missing"),
        (
            "tools/list",
            {"tools": [{"name": "a", "inputSchema": None}]},
            "input-schema: inputSchema of 'a' is null",
        ),
        ("tools/list", {"tools": [{"name": "a", "inputSchema": {}}]}, "inputSchema of 'a' is {}"),
        (
            "tools/list",
            {"tools": [{"name": "a", "inputSchema": OBJECT, "outputSchema": {"type": "array"}}]},
            "output-schema: outputSchema of 'a' must have \"type\": \"object\", and it is 'array'",
        ),
        (
            "tools/call",
            {"structuredContent": {}},
            "result: in the result of a tool: content is miss",
        ),
        ("tools/call", {"content": [], "isError": "false"}, "isError is 'false'"),
        ("tools/call", {"content": [], "structuredContent": [1]}, "structuredContent is [1]"),
        ("tools/call", {"content": ["hi"]}, "in block 0 of the content: it is 'hi'"),
        ("tools/call", {"content": [TEXT, {"type": "txt"}]}, "in block 1 of the content: type is"),
        ("tools/call", {"content": [{"type": "text"}]}, "(text) text is missing"),
        ("tools/call", {"content": [{**IMAGE, "mimeType": None}]}, "(image) mimeType is null"),
        ("tools/call", {"content": [{**IMAGE, "data": "a+%"}]}, "data is not base64: 'a+%'"),
        ("tools/call", {"content": [{"type": "resource_link", "uri": "a"}]}, "name is missing"),
        ("tools/call", {"content": [{"type": "resource"}]}, "resource is not an object: null"),
        ("tools/call", {"content": [resource()]}, "neither text nor blob"),
        ("tools/call", {"content": [resource(blob="é")]}, "blob is not base64"),
    ],
)
def test_a_result_that_official_clients_refuse_is_one_problem(
    method: str, result: Any, message: str
) -> None:
    [problem] = audit(method, result)
    assert message in problem


@pytest.mark.parametrize(
    ("method", "result"),
    [
        (
            "initialize",
            {"protocolVersion": "2025-11-25", "serverInfo": INFO, "capabilities": {}},
        ),
        ("server/discover", {}),  # an older server that answers everything
        ("tools/list", {"tools": [{"name": "a", "inputSchema": OBJECT, "outputSchema": OBJECT}]}),
        # Reported for every dialect, from the offer.
        ("tools/list", {"tools": [{"inputSchema": {"type": "x"}, "outputSchema": {"type": "x"}}]}),
        ("tools/list", {"tools": None}),
        ("tools/call", {"content": [], "isError": True}),
        ("tools/call", {"content": [TEXT, IMAGE, resource(text=""), resource(blob="aG\r\nk=")]}),
        ("tools/call", {"content": [{"type": "resource_link", "uri": "a", "name": "b"}]}),
        ("tools/call", {"resultType": "input_required", "inputRequests": {}}),
        ("tools/call", None),
        ("server/discover", {}),
        ("exthost/other", {"content": 1}),
    ],
)
def test_results_that_the_protocol_allows_are_not_problems(method: str, result: Any) -> None:
    assert audit(method, result) == []


def test_the_stateless_era_allows_any_schema_and_any_data_of_a_result() -> None:
    tool = {"name": "a", "inputSchema": OBJECT, "outputSchema": {"type": "array"}}
    assert audit("tools/list", {"tools": [tool]}, frozenset()) == []
    result = {"content": [], "structuredContent": [1]}
    assert audit("tools/call", result, frozenset()) == []
