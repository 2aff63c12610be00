"""The operations of an MCP server after the handshake, such as calling a tool or subscribing.

Most are generators: they yield a request and are resumed with its response. The tables of `DIALECT`
in `dialect` list them. A server may reply to a request with requests of its own (`input_required`).
The host's handlers answer these, and the original request is sent again with the answers. The
structured content of a tool's result must match the tool's outputSchema.

The protocol has two eras. In the handshake era, `initialize` opens a session; in the stateless era,
since revision 2026-07-28, there is no handshake.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects import steps
from exthost.dialects.calls import ToolCall
from exthost.dialects.mcp.facets import request_all_pages
from exthost.dialects.mcp.relayed import RelayedParams, relayed_members
from exthost.dialects.mcp.tasks import answer_of, wait_for_task
from exthost.errors import Evidence, ExthostError, ProtocolViolation, UsageError
from exthost.model.messages import Reply, Request
from exthost.model.offer import Offer, OfferWarnings, Tool
from exthost.model.schema import Checker
from exthost.wire import jsontext

# The methods whose reply may request input from the host. Such calls may take long, so each is sent
# with a progress token.
INPUT_METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})

# The types of a result besides "complete". Only results of the stateless era have a type.
RESULT_TYPES = ("input_required", "task")

# If the server ends a subscription, the host requests it again. These are the pauses before the
# first attempt, the second, and so on, in seconds.
LISTEN_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)

# The protocol's limit for one call: the number of replies that may request input.
INPUT_ROUNDS = 8


def object_or_empty(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty object."""
    return value if type(value) is dict else {}


def text_or_empty(value: Any) -> str:
    """Return the value if it is a string, else ""."""
    return value if type(value) is str else ""


def make_evidence(value: Any) -> Evidence:
    """Return the evidence of an error: the beginning of a value that the server sent, as JSON."""
    try:
        return Evidence(bytes=jsontext.encode(value).decode("utf-8", "replace")[:500])
    except UsageError:  # nested too deep to be encoded again
        return Evidence(bytes="(a value nested too deeply to be shown)")


# -- tools -----------------------------------------------------------------------------------


def request_tools(warnings: list[str]) -> Any:
    """Request all tools. Problems with single tools are added to `warnings`."""
    listed = yield from request_all_pages("tools/list", "tools", warnings)
    tools: dict[str, Tool] = {}
    for position, item in enumerate(listed):
        name = item.get("name") if type(item) is dict else None
        if type(name) is not str or not name:
            warnings.append(f"tool {position} has no name and is ignored")
        elif name in tools:
            warnings.append(f"it offers {name!r} twice; the first is used")
        else:
            tools[name] = _make_tool(name, item)
    return tuple(tools.values())


# The JSON fields of a tool that `Tool` has as attributes; all others are in its `extra`.
_TOOL_FIELDS = ("name", "description", "inputSchema", "outputSchema")


def _make_tool(name: str, item: dict[str, Any]) -> Tool:
    return Tool(
        name,
        text_or_empty(item.get("description")),
        item.get("inputSchema"),
        item.get("outputSchema"),
        MappingProxyType({key: value for key, value in item.items() if key not in _TOOL_FIELDS}),
    )


def list_tools(_: Any) -> steps.Exchanges:
    """Request all tools, and ignore warnings about single tools."""
    return (yield from request_tools(OfferWarnings()))


def make_tool_request(call: ToolCall) -> tuple[str, Any]:
    """Return the request that calls a tool."""
    request = {"name": call.name, "arguments": _make_arguments(call)}
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
    """Check and return the result of a tool.

    If the server requests input, or runs the call as a task, return a generator that returns the
    result in the end. In a call that is relayed for another client, return the reply as it is: the
    client answers, and follows the task.
    """
    if type(result) is dict and (kind := result.get("resultType", "complete")) != "complete":
        is_relayed = relayed_members(call.context) is not None
        if is_relayed and kind in RESULT_TYPES:
            return result
        return _continue_call(call, result)
    return _check_tool_result(call, result)


def _check_tool_result(call: ToolCall, result: Any) -> Any:
    """Return the result of a tool. Raises ProtocolViolation if it breaks the protocol or does not
    match the outputSchema."""
    if type(result) is not dict or type(result.get("content", ())) not in (list, tuple):
        raise ProtocolViolation(
            "X0660",
            f"its reply to the tool {call.name} must be an object with `content`",
            help='answer with {"content": [{"type": "text", "text": "…"}]}',
            evidence=make_evidence(result),
        )
    tool = call.tool
    if tool is not None and tool.output_schema is not None:
        _check_output(tool, result)
    return result


def _continue_call(call: ToolCall, result: dict[str, Any]) -> steps.Exchanges:
    """Return the final result of a call whose first result is not of the type "complete"."""
    method, request = make_tool_request(call)
    if not (yield from _has_result_type(method, result)):
        return _check_tool_result(call, result)
    return _check_tool_result(call, (yield from _follow_result(method, request, result)))


def _follow_result(method: str, request: dict[str, Any], result: dict[str, Any]) -> Any:
    """Return the final result of a request whose first result requests input or is a task."""
    result = yield from _request_final_result(method, request, Reply(None, result))
    if type(result) is not dict or result.get("resultType", "complete") == "complete":
        return result
    is_task = yield from _has_result_type(method, result)
    return (yield from wait_for_task(method, result)) if is_task else result


def _has_result_type(method: str, result: dict[str, Any]) -> Any:
    """Return whether the type of a result is input_required or task. Raises ProtocolViolation for
    an unknown type. In the handshake era results have no type, so that a server can use the field
    for something else."""
    kind = result["resultType"]
    if kind in RESULT_TYPES:
        return True
    if not (yield from _is_stateless()):
        return False
    raise ProtocolViolation(
        "X0664",
        f"{method} was answered with a result of the unknown type {kind!r}",
        help=f"the types of a result are complete, {' and '.join(RESULT_TYPES)}",
        evidence=make_evidence(result),
    )


def _make_arguments(call: ToolCall) -> Any:
    spec, arguments = call.spec, call.arguments
    if spec is None or not spec.options or type(arguments) is not dict:
        return arguments
    return _with_context(arguments, call, spec.options)


def _with_context(
    arguments: dict[str, Any], call: ToolCall, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments with two ids of the caller's context in a member `_meta`, if the option
    `context_passthrough` is set. It replaces a `_meta` among the arguments. This is not the `_meta`
    of MCP, which is beside the arguments."""
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
        checker, content = _get_checker(tool.output_schema), result["structuredContent"]
        problems = checker.problems(content, "structuredContent") if checker is not None else []
    if problems:
        raise ProtocolViolation(
            "X0661",
            f"the result of {tool.name} does not fit its own outputSchema: {'; '.join(problems)}",
            help="return a value that matches the schema, or correct the schema",
            evidence=make_evidence(result),
        )


# A cache of (schema, checker) by the id() of the schema, since a dict cannot be a key. The entry
# keeps a reference to the schema, so that no other object gets the same id().
_checkers: dict[int, tuple[Any, Checker | None]] = {}
_MAX_CHECKERS = 4096


def _get_checker(schema: Any) -> Checker | None:
    """Return the checker of a schema; None if the schema accepts every value."""
    entry = _checkers.get(id(schema))
    if entry is None or entry[0] is not schema:
        if len(_checkers) >= _MAX_CHECKERS:
            _checkers.clear()
        entry = (schema, Checker.of(schema))
        _checkers[id(schema)] = entry
    return entry[1]


def error_result(error: ExthostError) -> Any:
    """Return an error in the form of a tool result, for `ext.tools.call`."""
    return {"content": [{"type": "text", "text": error.message}], "isError": True}


# -- other operations ------------------------------------------------------------------------


def _request_final_result(method: str, request: dict[str, Any], response: steps.Received) -> Any:
    """Return the final result of a request whose first response is `response`. While the server
    requests input, answer with the host's handlers and repeat the request."""
    for _ in range(INPUT_ROUNDS):
        result = steps.result_of(response, method)
        if type(result) is not dict or result.get("resultType") != "input_required":
            return result
        added_params: dict[str, Any] = {}
        questions = result.get("inputRequests")
        if type(questions) is dict and questions:
            answers = {}
            for key, question in questions.items():
                answers[key] = yield from _ask_host(method, question)
            added_params["inputResponses"] = answers
        if "requestState" in result:
            added_params["requestState"] = result["requestState"]
        if not added_params:
            break
        response = yield Request(method, {**request, **added_params})
    result = steps.result_of(response, method)
    if type(result) is dict and result.get("resultType") == "input_required":
        raise ProtocolViolation(
            "X0662",
            f"{method} was answered with requests for input {INPUT_ROUNDS} times, "
            "or with an empty request",
            help="the server must return a result, or name the input that it needs",
            evidence=make_evidence(result),
        )
    return result


def _ask_host(method: str, question: Any) -> Any:
    """Return the answer of the host's handlers to one request for input."""
    request = object_or_empty(question)
    if not text_or_empty(request.get("method")):
        raise ProtocolViolation(
            "X0662",
            f"{method} was answered with a request for input without a method",
            help='each of inputRequests is {"method": …, "params": …}',
            evidence=make_evidence(question),
        )
    response = yield steps.AskHost(request["method"], request.get("params"))
    return answer_of(response, method)


def make_input_operation(method: str) -> steps.OneRequestOrMore:
    """Return the operation of a method whose reply may request input."""

    def make_request(params: Any) -> tuple[str, Any]:
        return method, params.params if type(params) is RelayedParams else params

    def read_result(params: Any, result: Any) -> Any:
        if type(result) is not dict or result.get("resultType", "complete") == "complete":
            return result
        return continue_request(params, result)

    def continue_request(params: Any, result: dict[str, Any]) -> steps.Exchanges:
        has_type = yield from _has_result_type(method, result)
        if not has_type or type(params) is RelayedParams:
            return result
        if result["resultType"] == "task" and type(result.get("taskId")) is not str:
            return result  # of the handshake era, in which the field has no meaning
        return (yield from _follow_result(method, object_or_empty(params), result))

    return steps.OneRequestOrMore(make_request, read_result)


def check_health(_: Any) -> steps.Exchanges:
    """Send a ping, or `server/discover` to a stateless server, which has no ping."""
    method = "server/discover" if (yield from _is_stateless()) else "ping"
    return steps.result_of((yield Request(method, {} if method != "ping" else None)), method)


def _is_stateless() -> Any:
    """Return whether the session is of the stateless era. Call this with `yield from`."""
    offer = yield steps.GetOffer()
    return isinstance(offer, Offer) and offer.extra.get("era") == "stateless"


def set_level(params: Any) -> steps.Exchanges:
    """Send `logging/setLevel`, which only servers with a handshake have."""
    if (yield from _is_stateless()):
        raise UsageError(
            "X1360",
            "a stateless MCP server gets the log level with each request",
            help='set options = { log_level = "debug" } in the config',
        )
    return steps.result_of((yield Request("logging/setLevel", params)), "logging/setLevel")


def subscribe(params: Any) -> steps.Exchanges:
    """Send `resources/subscribe`, or `subscriptions/listen` to a stateless server."""
    if (yield from _is_stateless()):
        yield make_subscription({"resourceSubscriptions": [object_or_empty(params).get("uri")]})
        return {}
    return steps.result_of((yield Request("resources/subscribe", params)), "resources/subscribe")


def make_subscription(notifications: dict[str, Any]) -> steps.Subscribe:
    """Return the request for these notifications of a stateless server. The request stays open, and
    the server sends the notifications while it does."""
    request = Request("subscriptions/listen", {"notifications": notifications})
    return steps.Subscribe(
        request, LISTEN_PAUSES, refetch_offer="toolsListChanged" in notifications
    )
