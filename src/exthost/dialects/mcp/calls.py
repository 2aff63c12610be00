"""What is asked of an MCP server beyond the handshake: its tools, and whatever may ask back.

Generators of exchanges, for the table in `mcp`. A list is read to its last page, up to a cap. An
answer may be a question (`input_required`): the host's handlers answer it, and the request goes
out again with what they said. A tool's structured content is held to its own outputSchema.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from exthost.dialects.calls import ToolCall
from exthost.dialects.mcp.facets import pages
from exthost.dialects.steps import (
    AskHost,
    Exchanges,
    GetOffer,
    MaybeMore,
    Received,
    Subscribe,
    expect,
)
from exthost.errors import CallFailed, Evidence, ExthostError, ProtocolViolation, UsageError
from exthost.messages import Failure, Reply, Request
from exthost.offer import Offer, Tool
from exthost.schema import Checker
from exthost.wire import jsontext

# What may be answered with a question, and may take long.
ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})

# A server that ends a subscription is asked for it again, so many seconds later each time.
LISTEN_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)

# The page's: how often one request may be answered so.
INPUT_ROUNDS = 8


def table(value: Any) -> dict[str, Any]:
    """The object that should be here; an empty one in place of anything else."""
    return value if type(value) is dict else {}


def text(value: Any) -> str:
    """The text that should be here, likewise."""
    return value if type(value) is str else ""


def shown(value: Any) -> Evidence:
    """What a server said, as much of it as a person needs."""
    try:
        return Evidence(bytes=jsontext.encode(value).decode("utf-8", "replace")[:500])
    except UsageError:  # so deep that it could just be read
        return Evidence(bytes="(a value nested too deeply to be shown)")


# -- tools -----------------------------------------------------------------------------------


def tools(warnings: list[str]) -> Any:
    """Every tool that it lists; what is odd about them goes to `warnings`."""
    listed = yield from pages("tools/list", "tools")
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
    """The operation of that name."""
    return (yield from tools([]))


def ask_tool(call: ToolCall) -> tuple[str, Any]:
    """How a tool is called."""
    return "tools/call", {"name": call.name, "arguments": _arguments(call)}


def settle_tool(call: ToolCall, result: Any) -> Any:
    """The result as it came; or, if it is a question, the exchanges that lead to one."""
    if type(result) is not dict or type(result.get("content", ())) not in (list, tuple):
        raise ProtocolViolation(
            "X0660",
            f"its reply to the tool {call.name} must be an object with `content`",
            help='answer with {"content": [{"type": "text", "text": "…"}]}',
            evidence=shown(result),
        )
    if result.get("resultType") == "input_required":
        return _after_questions(call, result)
    if call.tool is not None and call.tool.output_schema is not None:
        _check_output(call.tool, result)
    return result


def _after_questions(call: ToolCall, result: Any) -> Exchanges:
    method, asked = ask_tool(call)
    final = yield from _answered(method, asked, Reply(None, result))
    return settle_tool(call, final)


def _arguments(call: ToolCall) -> Any:
    spec, arguments = call.spec, call.arguments
    if spec is None or not spec.options or type(arguments) is not dict:
        return arguments
    return _with_context(arguments, call, spec.options)


def _with_context(
    arguments: dict[str, Any], call: ToolCall, options: Mapping[str, Any]
) -> dict[str, Any]:
    """As in nexo, whose manifests may ask for it: whatever the caller put there is replaced."""
    if options.get("context_passthrough") is not True:
        return arguments
    of = call.context
    meta = {"agent_id": of.get("agent_id"), "session_id": of.get("session_id")}
    return {**arguments, "_meta": meta}


def _check_output(tool: Tool, result: dict[str, Any]) -> None:
    """Held to what its tool promised; an error result promises nothing."""
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


# Schema and checker by the schema's identity: it lives as long as it stands here.
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
    """A failure in the words of a result."""
    return {"content": [{"type": "text", "text": error.message}], "isError": True}


# -- what else can be asked ------------------------------------------------------------------


def _answered(method: str, asked: dict[str, Any], heard: Received) -> Any:
    """The final answer: as long as it is a question, that is answered and the request repeated."""
    for _ in range(INPUT_ROUNDS):
        result = expect(heard, method)
        if type(result) is not dict or result.get("resultType") != "input_required":
            return result
        more: dict[str, Any] = {}
        questions = result.get("inputRequests")
        if type(questions) is dict and questions:
            answers = more["inputResponses"] = {}
            for key, question in questions.items():
                answers[key] = yield from _inquired(method, question)
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        if not more:
            break
        heard = yield Request(method, {**asked, **more})
    result = expect(heard, method)
    if type(result) is dict and result.get("resultType") == "input_required":
        raise ProtocolViolation(
            "X0662",
            f"{method} was answered with a question {INPUT_ROUNDS} times, or with an empty one",
            help="the server must come to a result, or say what it needs",
            evidence=shown(result),
        )
    return result


def _inquired(method: str, question: Any) -> Any:
    told = table(question)
    if not text(told.get("method")):
        raise ProtocolViolation(
            "X0662",
            f"{method} was answered with something that is no question: it names no method",
            help='each of inputRequests is {"method": …, "params": …}',
            evidence=shown(question),
        )
    heard = yield AskHost(told["method"], told.get("params"))
    if isinstance(heard, Reply):
        return heard.result
    assert isinstance(heard, Failure), "an inquiry is answered with a Reply or a Failure"
    raise CallFailed(
        "X0760",
        f"{method} needs an answer from here that it did not get: {heard.message}",
        error_code=heard.code,
        error_message=heard.message,
        data=heard.data,
        help="register a handler for what it asks: roots, sampling or elicitation",
    )


def asking(method: str) -> MaybeMore:
    """The operation of a wire method that may be answered with a question."""

    def ask(params: Any) -> tuple[str, Any]:
        return method, params

    def settle(params: Any, result: Any) -> Any:
        if type(result) is dict and result.get("resultType") == "input_required":
            return _answered(method, table(params), Reply(None, result))
        return result

    return MaybeMore(ask, settle)


def health(_: Any) -> Exchanges:
    """A ping; where there is none, discovery is as cheap."""
    method = "server/discover" if (yield from _is_stateless()) else "ping"
    return expect((yield Request(method, {} if method != "ping" else None)), method)


def _is_stateless() -> Any:
    offer = yield GetOffer()
    return isinstance(offer, Offer) and offer.extra.get("era") == "stateless"


def set_level(params: Any) -> Exchanges:
    """logging/setLevel, which only the handshake era has."""
    if (yield from _is_stateless()):
        raise UsageError(
            "X1360",
            "a stateless MCP server is told the log level with each request",
            help='say options = { log_level = "debug" } in the config',
        )
    return expect((yield Request("logging/setLevel", params)), "logging/setLevel")


def subscribe(params: Any) -> Exchanges:
    """resources/subscribe, or what the stateless era has in its place."""
    if (yield from _is_stateless()):
        yield listening({"resourceSubscriptions": [table(params).get("uri")]})
        return {}
    return expect((yield Request("resources/subscribe", params)), "resources/subscribe")


def listening(wanted: dict[str, Any]) -> Subscribe:
    """One long request, in whose place the older era has notices for everybody."""
    asked = Request("subscriptions/listen", {"notifications": wanted})
    return Subscribe(asked, LISTEN_PAUSES, stale="toolsListChanged" in wanted)
