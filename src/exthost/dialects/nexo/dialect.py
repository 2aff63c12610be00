"""nexo: JSON-RPC 2.0, one object per line. Messages are read leniently.

There are two contracts, which are two versions of the protocol that have little in common. This
module is the first one, with a flat `plugin.toml`, and chooses
between the two (`contract_for`); `second_contract` is the other one, with `manifest_version = 2`.

The host sends `initialize` with id 0, then `tools/call`, `tools/list`, `hooks/<name>` and the
methods that callers name. Their ids count up from 1, and a restarted process continues the count.
The extension sends replies, notifications and requests; a request without a handler is refused.
Both ends use the same messages, so one codec works for both roles.

Existing extensions rely on these deviations from JSON-RPC: if a reply has a result and an error,
the error is ignored; a null result counts as no result; a reply with neither is a success with the
result null; an error may be any JSON value. If an extension does not know `tools/call`, the host
sends a second request, `tools/<name>`, with the arguments as params.

The handshake and the operations are generators: they yield a message and are resumed with its reply
(`dialects.steps`).
"""

from collections.abc import Mapping
from typing import Any

from exthost.dialects import steps
from exthost.dialects.base import Dialect, Traits
from exthost.dialects.calls import HookCall, ToolCall
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.nexo import second_contract
from exthost.dialects.nexo.codec import make_codec
from exthost.dialects.nexo.hooks import HOOKS, make_event, read_hook_answer
from exthost.dialects.nexo.manifest_v2 import ManifestV2
from exthost.dialects.nexo.progress import parse_progress
from exthost.dialects.options import FLAG
from exthost.errors import Evidence, HandshakeFailed, ProtocolViolation
from exthost.model.messages import Failure, Request
from exthost.model.offer import Offer, OfferWarnings, Tool
from exthost.model.shortened_text import shorten_to
from exthost.model.shutdown_steps import CloseStdin, Write
from exthost.model.spec import Breaker, Limits, Restart, Spec
from exthost.wire import jsontext
from exthost.wire.lines import Lines

_METHOD_NOT_FOUND = -32601


# -- the handshake ---------------------------------------------------------------------------


def _handshake(context: HandshakeContext) -> steps.Handshake:
    """Send `initialize`, and return the offer in the reply."""
    params = {"agent_version": context.host_version, "extension_id": context.extension}
    result = steps.handshake_result((yield Request("initialize", params, id=0)))
    if result is None:  # every field is optional, so null is the same as {}
        result = {}
    if type(result) is not dict:
        raise _handshake_error("it is not an object", result)
    if second_contract.is_reply(result):
        raise second_contract.other_contract_error()
    if "protocolVersion" in result and "serverInfo" in result:
        raise HandshakeFailed(
            "X0506",
            "it answers `initialize` as a server of MCP does, and you chose nexo",
            help='choose --dialect mcp, or dialect = "mcp" in the config',
            permanent=True,
        )
    warnings = OfferWarnings()
    tools = _parse_tools(result.get("tools"), warnings)
    hooks = _parse_hooks(result.get("hooks"), warnings)
    version = result.get("server_version")
    return Offer(
        tools=tools,
        version=version if type(version) is str else "",
        hooks=hooks,
        warnings=warnings.report(),
    )


def _parse_tools(items: Any, warnings: list[str]) -> tuple[Tool, ...]:
    """Return the tools in a list of objects or names. Mistakes that do not prevent their use are
    appended to `warnings`."""
    if items is None:
        return ()
    if type(items) is not list:
        raise _handshake_error("`tools` is not a list", items)
    tools: dict[str, Tool] = {}
    for position, item in enumerate(items):
        tool = _parse_tool(item, position)
        if tool.name in tools:
            warnings.append(f"it offers {tool.name!r} twice; the first is used")
        tools.setdefault(tool.name, tool)
    return tuple(tools.values())


def _parse_tool(item: Any, position: int) -> Tool:
    if type(item) is str:
        item = {"name": item}
    if type(item) is not dict:
        raise _handshake_error(f"tool {position} is neither an object nor a name", item)
    name, description = item.get("name"), item.get("description")
    if type(name) is not str or not name:
        raise _handshake_error(f"tool {position} has no name", item)
    if description is not None and type(description) is not str:
        raise _handshake_error(f"the description of tool {position} ({name}) is not text", item)
    schema = item.get("input_schema")
    return Tool(name, description or "", {} if schema is None else schema)


def _parse_hooks(items: Any, warnings: list[str]) -> tuple[str, ...]:
    """Return the known hooks in a list of names. Each unknown one is a warning."""
    if items is None:
        return ()
    if type(items) is not list:
        raise _handshake_error("`hooks` is not a list", items)
    hooks: dict[str, None] = {}  # an ordered set
    for item in items:
        if type(item) is str and item in HOOKS:
            hooks[item] = None
        else:
            text = item if type(item) is str else jsontext.display_text(item)
            shown = shorten_to(80, text)
            warnings.append(f"it offers an unknown hook, which is never called: {shown}")
    return tuple(hooks)


def _handshake_error(reason: str, value: Any) -> HandshakeFailed:
    return HandshakeFailed(
        "X0530",
        f"its answer to `initialize` cannot be used: {reason}",
        help="answer with {server_version?, tools?: [{name, …}], hooks?: [name]}",
        evidence=Evidence(bytes=jsontext.display_text(value)[:500]),
    )


# -- operations ------------------------------------------------------------------------------


def _make_tool_request(call: ToolCall) -> tuple[str, Any]:
    return "tools/call", {"name": call.name, "arguments": _make_arguments(call)}


def _make_arguments(call: ToolCall) -> Any:
    if type(call.arguments) is not dict or not _passes_context(call):
        return call.arguments
    # This replaces a `_meta` of the caller, so that the extension can trust its contents.
    return {
        **call.arguments,
        "_meta": {"agent_id": None, "session_id": None, **call.context},
    }


def _try_tool_as_method(call: ToolCall, failure: Failure) -> steps.Exchanges | None:
    """Return the steps of a second attempt if the extension has no method `tools/call`, because it
    may have a method for each tool. Otherwise return None: the failure is the result."""
    return _call_tool_as_method(call, failure) if failure.code == _METHOD_NOT_FOUND else None


def _call_tool_as_method(call: ToolCall, first_failure: Failure) -> steps.Exchanges:
    received = yield Request(f"tools/{call.name}", _make_arguments(call))
    if isinstance(received, Failure) and received.code == _METHOD_NOT_FOUND:
        received = first_failure  # it is more useful than the second
    return steps.result_of(received, call.name)


def _passes_context(call: ToolCall) -> bool:
    """Return whether the arguments of a call get the context that the caller passed with it."""
    spec = call.spec
    if spec is None:
        return False
    # The option takes precedence over the manifest.
    option = spec.options.get("context_passthrough", getattr(spec.manifest, "passthrough", False))
    return option is True


def _list_tools(_: Any) -> steps.Exchanges:
    """Request the tools again. The reply is an object with `tools`, or a list."""
    result = steps.result_of((yield Request("tools/list", {})), "tools/list")
    try:
        return _parse_tools(result.get("tools") if type(result) is dict else result, [])
    except HandshakeFailed as error:  # `_parse_tools` raises it for both methods
        raise ProtocolViolation(
            "X0630",
            error.message.replace("`initialize`", "`tools/list`"),
            help='answer with {"tools": […]} or a list',
            evidence=error.evidence,
        ) from None


def _make_hook_request(call: HookCall) -> tuple[str, Any]:
    return f"hooks/{call.name}", make_event(call)


_OPERATIONS: Mapping[str, steps.Operation] = {
    "call_tool": steps.OneRequestOrMore(_make_tool_request, None, _try_tool_as_method),
    "list_tools": _list_tools,
    "hook": steps.OneRequestOrMore(_make_hook_request, read_hook_answer),
}


class NexoDialect(Dialect):
    """nexo, which has two contracts."""

    def contract_for(self, spec: Spec) -> Dialect:
        """Return the contract of one extension. The manifest decides, or else the option."""
        is_second = isinstance(spec.manifest, ManifestV2) or (
            spec.manifest is None and spec.options.get("contract") == 2
        )
        return second_contract.DIALECT if is_second else self


DIALECT = NexoDialect(
    name="nexo",
    contracts=(second_contract.DIALECT,),
    framing=Lines,
    codec=make_codec,
    handshake=_handshake,
    operations=_OPERATIONS,
    notifications={"tools/progress": parse_progress},
    options={
        "context_passthrough": FLAG.described("Whether a call's context is sent in `_meta`."),
        "contract": second_contract.CONTRACT_OPTION,
    },
    traits=Traits(
        first_id=1,
        ids_continue=True,
        limits=Limits(handshake=10, call=30, max_message=64 * 2**20),
        restart=Restart(
            strategy="exponential", initial_delay=1, max_delay=16, max_retries=5, window=300
        ),
        breaker=Breaker(failures=5, open=10, max_open=120, successes=2, count_error_replies=False),
        breaker_name="the breaker ext:stdio:{id}",
        env_vars={
            "AGENT_VERSION": "host_version",
            "AGENT_EXTENSION_ID": "extension",
            "AGENT_STATE_DIR": "state_folder",
            "NEXO_EXTENSION_STATE_ROOT": "state_folder",
        },
        # An empty line announces the shutdown; then stdin is closed.
        shutdown_steps=(Write(b"\n"), CloseStdin(wait=3)),
    ),
)
