"""The operations of an MCP server after the handshake: tools, and requests with input from the
host.

The operations are generators of exchanges; the tables in `dialect` name them. A list is read to its
last page, up to a limit. A server may reply with requests of its own (`input_required`): the host's
handlers answer them, and the original request is sent again with the answers. The structured
content of a tool's result must match the tool's outputSchema.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.calls import ToolCall
from exthost.dialects.mcp.facets import pages
from exthost.dialects.mcp.relayed import RelayedParams, relayed_members
from exthost.dialects.steps import (
    AskHost,
    Exchanges,
    GetOffer,
    OneRequestOrMore,
    Received,
    Subscribe,
    result_of,
)
from exthost.errors import CallFailed, Evidence, ExthostError, ProtocolViolation, UsageError
from exthost.messages import Failure, Reply, Request
from exthost.offer import Offer, Tool
from exthost.schema import Checker
from exthost.wire import jsontext

# The methods whose reply may request input. They may take long.
ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})

# Seconds before a subscription that the server ended is requested again, try by try.
LISTEN_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)

# The protocol's limit of replies that request input, for one call.
INPUT_ROUNDS = 8


def table(value: Any) -> dict[str, Any]:
    """Return this object, or an empty one if the value is not an object."""
    return value if type(value) is dict else {}


def text(value: Any) -> str:
    """Return this text, or "" if the value is not text."""
    return value if type(value) is str else ""


def shown(value: Any) -> Evidence:
    """Return a value that a server sent as evidence for an error, shortened."""
    try:
        return Evidence(bytes=jsontext.encode(value).decode("utf-8", "replace")[:500])
    except UsageError:  # nested too deep to be encoded again
        return Evidence(bytes="(a value nested too deeply to be shown)")


# -- tools -----------------------------------------------------------------------------------


def tools(warnings: list[str]) -> Any:
    """Request all tools. Problems with single tools are added to `warnings`."""
    listed = yield from pages("tools/list", "tools", warnings)
    known: dict[str, Tool] = {}
    for position, item in enumerate(listed):
        name = item.get("name") if type(item) is dict else None
        if type(name) is not str or not name:
            warnings.append(f"tool {position} has no name and is left out")
        elif name in known:
            warnings.append(f"it offers {name!r} twice; the first is used")
        else:
            known[name] = _tool(name, item)
    return tuple(known.values())


_OWN = ("name", "description", "inputSchema", "outputSchema")


def _tool(name: str, item: dict[str, Any]) -> Tool:
    return Tool(
        name,
        text(item.get("description")),
        item.get("inputSchema"),
        item.get("outputSchema"),
        MappingProxyType({key: value for key, value in item.items() if key not in _OWN}),
    )


def list_tools(_: Any) -> Exchanges:
    """The operation `list_tools`."""
    return (yield from tools([]))


def ask_tool(call: ToolCall) -> tuple[str, Any]:
    """Return the request that calls a tool."""
    request = {"name": call.name, "arguments": _arguments(call)}
    context = call.context
    if not context:
        return "tools/call", request
    members = relayed_members(context)
    if members is None and (traced := _trace_context(context)):
        members = {"_meta": traced}
    return "tools/call", request if members is None else {**request, **members}


def _trace_context(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of a caller's context that are W3C Trace Context."""
    return {name: value for name in _TRACE_CONTEXT if isinstance(value := context.get(name), str)}


_TRACE_CONTEXT = ("traceparent", "tracestate", "baggage")


def read_tool_result(call: ToolCall, result: Any) -> Any:
    """Return the result of a tool; if the server requests input, the exchanges that lead to a
    result. A call that is relayed returns the request for input."""
    if type(result) is dict and result.get("resultType") == "input_required":
        is_relayed = relayed_members(call.context) is not None
        return result if is_relayed else _with_input(call, result)
    if type(result) is not dict or type(result.get("content", ())) not in (list, tuple):
        raise ProtocolViolation(
            "X0660",
            f"its reply to the tool {call.name} must be an object with `content`",
            help='answer with {"content": [{"type": "text", "text": "…"}]}',
            evidence=shown(result),
        )
    tool = call.tool
    if tool is not None and tool.output_schema is not None:
        _check_output(tool, result)
    return result


def _with_input(call: ToolCall, result: Any) -> Exchanges:
    method, request = ask_tool(call)
    final = yield from _final_result(method, request, Reply(None, result))
    return read_tool_result(call, final)


def _arguments(call: ToolCall) -> Any:
    spec, arguments = call.spec, call.arguments
    if spec is None or not spec.options or type(arguments) is not dict:
        return arguments
    return _with_context(arguments, call, spec.options)


def _with_context(
    arguments: dict[str, Any], call: ToolCall, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments with the caller's context as `_meta`, if the option says so. A `_meta`
    of the caller is replaced."""
    if options.get("context_passthrough") is not True:
        return arguments
    context = call.context
    meta = {"agent_id": context.get("agent_id"), "session_id": context.get("session_id")}
    return {**arguments, "_meta": meta}


def _check_output(tool: Tool, result: dict[str, Any]) -> None:
    """Raise ProtocolViolation if the result does not match the outputSchema. An error result may
    have any form."""
    if result.get("isError") is True:
        return
    if "structuredContent" not in result:
        problems = ["there is no structuredContent"]
    else:
        checker, content = _checker(tool.output_schema), result["structuredContent"]
        problems = checker.problems(content, "structuredContent") if checker is not None else []
    if problems:
        raise ProtocolViolation(
            "X0661",
            f"the result of {tool.name} does not fit its own outputSchema: {'; '.join(problems)}",
            help="the server is wrong about its tool; its text content is in the evidence",
            evidence=shown(result),
        )


# Schema and checker by the id() of the schema. The entry keeps the schema alive, so that its id
# is not used again.
_checkers: dict[int, tuple[Any, Checker | None]] = {}
_MOST_CHECKERS = 4096


def _checker(schema: Any) -> Checker | None:
    known = _checkers.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_checkers) >= _MOST_CHECKERS:
            _checkers.clear()
        known = _checkers[id(schema)] = (schema, Checker.of(schema))
    return known[1]


def error_result(error: ExthostError) -> Any:
    """Return an error as a tool result."""
    return {"content": [{"type": "text", "text": error.message}], "isError": True}


# -- other operations ------------------------------------------------------------------------


def _final_result(method: str, request: dict[str, Any], response: Received) -> Any:
    """Return the final result. While the server requests input, answer and repeat the request."""
    for _ in range(INPUT_ROUNDS):
        result = result_of(response, method)
        if type(result) is not dict or result.get("resultType") != "input_required":
            return result
        more: dict[str, Any] = {}
        questions = result.get("inputRequests")
        if type(questions) is dict and questions:
            answers = more["inputResponses"] = {}
            for key, question in questions.items():
                answers[key] = yield from _ask_host(method, question)
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        if not more:
            break
        response = yield Request(method, {**request, **more})
    result = result_of(response, method)
    if type(result) is dict and result.get("resultType") == "input_required":
        raise ProtocolViolation(
            "X0662",
            f"{method} was answered with a question {INPUT_ROUNDS} times, or with an empty one",
            help="the server must come to a result, or say what it needs",
            evidence=shown(result),
        )
    return result


def _ask_host(method: str, question: Any) -> Any:
    request = table(question)
    if not text(request.get("method")):
        raise ProtocolViolation(
            "X0662",
            f"{method} was answered with something that is no question: it names no method",
            help='each of inputRequests is {"method": …, "params": …}',
            evidence=shown(question),
        )
    response = yield AskHost(request["method"], request.get("params"))
    if isinstance(response, Reply):
        return response.result
    assert isinstance(response, Failure), "an inquiry is answered with a Reply or a Failure"
    raise CallFailed(
        "X0760",
        f"{method} needs an answer from here that it did not get: {response.message}",
        error_code=response.code,
        error_message=response.message,
        data=response.data,
        help="register a handler for what it asks: roots, sampling or elicitation",
    )


def asking(method: str) -> OneRequestOrMore:
    """Return the operation of a method whose reply may request input."""

    def ask(params: Any) -> tuple[str, Any]:
        return method, params.params if type(params) is RelayedParams else params

    def read(params: Any, result: Any) -> Any:
        if type(params) is RelayedParams:
            return result
        if type(result) is dict and result.get("resultType") == "input_required":
            return _final_result(method, table(params), Reply(None, result))
        return result

    return OneRequestOrMore(ask, read)


def health(_: Any) -> Exchanges:
    """Send a ping; a stateless server has no ping and gets `server/discover`."""
    method = "server/discover" if (yield from _is_stateless()) else "ping"
    return result_of((yield Request(method, {} if method != "ping" else None)), method)


def _is_stateless() -> Any:
    offer = yield GetOffer()
    return isinstance(offer, Offer) and offer.extra.get("era") == "stateless"


def set_level(params: Any) -> Exchanges:
    """Send `logging/setLevel`, which only servers with a handshake have."""
    if (yield from _is_stateless()):
        raise UsageError(
            "X1360",
            "a stateless MCP server is told the log level with each request",
            help='say options = { log_level = "debug" } in the config',
        )
    return result_of((yield Request("logging/setLevel", params)), "logging/setLevel")


def subscribe(params: Any) -> Exchanges:
    """Send `resources/subscribe`, or `subscriptions/listen` to a stateless server."""
    if (yield from _is_stateless()):
        yield listening({"resourceSubscriptions": [table(params).get("uri")]})
        return {}
    return result_of((yield Request("resources/subscribe", params)), "resources/subscribe")


def listening(wanted: dict[str, Any]) -> Subscribe:
    """Return the request that stays open and brings these notifications from a stateless server."""
    request = Request("subscriptions/listen", {"notifications": wanted})
    return Subscribe(request, LISTEN_PAUSES, refetch_offer="toolsListChanged" in wanted)
