"""The second contract of nexo, for extensions with `manifest_version = 2` (as of November 2026).

Its messages have the form of the first contract, and other methods. The host sends `initialize`,
which the extension answers with its own manifest and its tools. Then it sends `plugin.configure`
with the extension's config, calls `tool.invoke`, `outbound_tool.invoke` and `hook.on_hook`, and
ends the extension with `shutdown`. The extension may send `memory.recall` and `llm.complete`, which
the program that embeds the host handles. The handshake is a generator: it yields a message and is
resumed with its reply (`dialects.steps`).

The announced offer is compared with the manifest: the id must be the same, and a tool that
the manifest does not list fails the handshake. The names of tools begin with the id and are
registered unchanged.

Channels, model providers, memory backends, credentials and the broker are not offered here; the
manifest that declares them is accepted with a warning (`manifest_v2`).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from exthost.dialects import steps
from exthost.dialects.base import Dialect, Traits
from exthost.dialects.calls import HookCall, ToolCall
from exthost.dialects.handshake_context import HandshakeContext
from exthost.dialects.meanings import Meaning, Unusable
from exthost.dialects.nexo.codec import make_codec
from exthost.dialects.nexo.hooks import HOOKS, make_event, read_hook_answer
from exthost.dialects.nexo.manifest_v2 import ManifestV2, OutboundTool
from exthost.dialects.nexo.progress import parse_progress
from exthost.dialects.options import Option
from exthost.dialects.value_result import value_text
from exthost.errors import Evidence, HandshakeFailed
from exthost.model.empty_mapping import EMPTY_MAPPING
from exthost.model.messages import Failure, Request
from exthost.model.names import registered_name
from exthost.model.offer import Offer, OfferWarnings, Tool
from exthost.model.shortened_text import shorten_to
from exthost.model.shutdown_steps import CloseStdin, Say
from exthost.model.spec import Limits, Restart, Spec
from exthost.tool_result import Block, ResultReader, TextBlock, UnknownBlock
from exthost.wire import jsontext
from exthost.wire.lines import Lines

CONTRACT_OPTION = Option(
    lambda value: type(value) is int and value in (1, 2),
    "1 or 2",
    {"enum": [1, 2]},
    "Which contract an extension without a manifest speaks: 2 has `tool.invoke`.",
)

_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")

_CONTRACT = "nexo's second contract (manifest_version 2)"

# The variables of the host that set time limits, in milliseconds.
_HANDSHAKE_VARIABLE = "NEXO_PLUGIN_INIT_TIMEOUT_MS"
_TOOL_VARIABLE = "NEXO_PLUGIN_TOOL_TIMEOUT_MS"


# -- the handshake ---------------------------------------------------------------------------


def is_reply(result: Mapping[str, Any]) -> bool:
    """Return whether this result of `initialize` belongs to the second contract: it contains the
    extension's manifest."""
    manifest = result.get("manifest")
    return type(manifest) is dict and type(manifest.get("plugin")) is dict


def other_contract_error() -> HandshakeFailed:
    """Return the error for an extension that was started in the first contract and speaks the
    second one."""
    error = HandshakeFailed(
        "X0531",
        f"it speaks {_CONTRACT}, and was started in the first one",
        permanent=True,
        help="name its folder, which has its manifest, or write options = { contract = 2 } in its "
        "entry",
    )
    error.other_options = {"contract": 2}
    return error


def _handshake(context: HandshakeContext) -> steps.Handshake:
    """Send `initialize`, compare the reply with the manifest, and send the config."""
    params = {"nexo_version": context.host_version}
    result = steps.handshake_result((yield Request("initialize", params)))
    if type(result) is not dict or not is_reply(result):
        raise _handshake_error("it has no `manifest` with a table `plugin`", result)
    announced: Mapping[str, Any] = result["manifest"]["plugin"]
    manifest = context.manifest
    has_manifest = isinstance(manifest, ManifestV2)
    if not has_manifest:  # a command without a manifest: the one in its reply is used, unchecked
        manifest = _read_announced_manifest(announced)
    if announced.get("id") != manifest.id:
        raise _handshake_error(
            f"it calls itself {_display(announced.get('id'))}, and its manifest {manifest.id!r}",
            result,
        )
    warnings = OfferWarnings()
    tools = _check_tools(_parse_tools(result), manifest, warnings)
    if not has_manifest:  # calls have to name the extension by the id in its own manifest
        own_id = MappingProxyType({"plugin_id": manifest.id})
        tools = tuple(replace(tool, extra=own_id) for tool in tools)
    if context.config or manifest.has_config:
        yield from _configure(context.config, manifest, warnings)
    version = result.get("server_version")
    return Offer(
        tools=(*tools, *(_make_outbound_tool(tool) for tool in manifest.outbound)),
        version=version if type(version) is str else "",
        hooks=tuple(hook for hook in manifest.hooks if hook in HOOKS),
        warnings=warnings.report(),
        extra=MappingProxyType({"contract": 2}),
    )


def _read_announced_manifest(announced: Mapping[str, Any]) -> ManifestV2:
    """Return the part of a manifest that the handshake needs, from the reply of an extension that
    has no manifest on disk."""
    id, extends = announced.get("id"), announced.get("extends")
    if type(id) is not str or not id:
        raise _handshake_error("its `manifest.plugin.id` is not text", announced)
    return ManifestV2(id=id, tools=_get_names(extends, "tools"), hooks=_get_names(extends, "hooks"))


def _get_names(table: Any, key: str) -> tuple[str, ...]:
    value = table.get(key) if type(table) is dict else None
    return tuple(name for name in value if type(name) is str) if type(value) is list else ()


def _parse_tools(result: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Return the tools in the reply to `initialize`. Raises HandshakeFailed."""
    items = result.get("tools")
    if items is None:
        return ()
    if type(items) is not list:
        raise _handshake_error("`tools` is not a list", items)
    tools: dict[str, Tool] = {}
    for position, item in enumerate(items):
        fields = item if type(item) is dict else {}
        name, description = fields.get("name"), fields.get("description")
        schema = fields.get("input_schema")
        if type(name) is not str or not name or type(description) is not str:
            raise _handshake_error(f"tool {position} has no name or no description", item)
        if type(schema) not in (dict, bool):
            raise _handshake_error(f"tool {position} ({name}) has no input_schema", item)
        if name in tools:
            raise _handshake_error(f"it offers {name!r} twice", items)
        tools[name] = Tool(name, description, schema)
    return tuple(tools.values())


def _check_tools(
    tools: tuple[Tool, ...], manifest: ManifestV2, warnings: list[str]
) -> tuple[Tool, ...]:
    """Return the tools. Raises HandshakeFailed for one that the manifest does not list, or whose
    name does not begin with the id."""
    listed = frozenset(manifest.tools)
    for tool in tools:
        if tool.name not in listed:
            raise _tool_error(
                f"it offers the tool {tool.name!r}, which its manifest does not list",
                "add it to [plugin.extends] tools",
            )
        if not tool.name.startswith((f"{manifest.id}_", f"ext_{manifest.id}_")):
            raise _tool_error(
                f"the name of its tool {tool.name!r} does not begin with its id",
                f"begin it with {manifest.id}_ or ext_{manifest.id}_",
            )
    offered = {tool.name for tool in tools}
    warnings += [
        f"its manifest lists the tool {name!r}, which it does not offer"
        for name in manifest.tools
        if name not in offered
    ]
    warnings += [
        f"its manifest lists an unknown hook, which is never called: {hook}"
        for hook in manifest.hooks
        if hook not in HOOKS
    ]
    return tools


def _configure(config: Any, manifest: ManifestV2, warnings: list[str]) -> steps.Handshake:
    """Send the config of the extension. An extension without a handler for it is accepted; any
    other error fails the handshake."""
    value = config or ([] if manifest.config_is_list else {})
    received = yield Request("plugin.configure", {"value": value})
    if isinstance(received, Failure) and received.code == steps.METHOD_NOT_FOUND:
        if config:
            warnings.append("it does not know plugin.configure, so its config has no effect")
    elif isinstance(received, Failure):
        raise HandshakeFailed(
            "X0533",
            f"it refused its config: {received.message or 'it gives no reason'}",
            help="the text after the colon is its own answer: correct `config` in its entry",
        )
    return Offer()  # the type `Handshake` requires an Offer; the caller ignores it


def _make_outbound_tool(tool: OutboundTool) -> Tool:
    extra = MappingProxyType({"rpc_method": tool.rpc_method})
    return Tool(tool.name, tool.description, tool.input_schema, extra=extra, seconds=tool.seconds)


def _display(value: Any) -> str:
    return shorten_to(80, repr(value) if type(value) is str else jsontext.display_text(value))


def _handshake_error(reason: str, value: Any) -> HandshakeFailed:
    return HandshakeFailed(
        "X0532",
        f"its answer to `initialize` cannot be used: {reason}",
        help=f"{_CONTRACT}: answer with {{manifest, server_version, tools?: [{{name, description, "
        "input_schema}]}",
        evidence=Evidence(bytes=jsontext.display_text(value)[:500]),
    )


def _tool_error(message: str, fix: str) -> HandshakeFailed:
    return HandshakeFailed("X0534", message, help=f"{fix}; that is a rule of {_CONTRACT}")


# -- calls -----------------------------------------------------------------------------------


def _make_tool_request(call: ToolCall) -> tuple[str, Any]:
    """Return the method and the params that call a tool."""
    extra = call.tool.extra if call.tool is not None else EMPTY_MAPPING
    rpc_method = extra.get("rpc_method")
    if rpc_method is not None:
        return rpc_method, {"tool_name": call.name, "args": call.arguments}
    return "tool.invoke", {
        "plugin_id": extra.get("plugin_id") or _plugin_id(call.spec),
        "tool_name": call.name,
        "args": call.arguments,
        "agent_id": call.context.get("agent_id"),
    }


def _make_hook_request(call: HookCall) -> tuple[str, Any]:
    params = {
        "plugin_id": _plugin_id(call.spec),
        "hook_name": call.name,
        "event": make_event(call),
    }
    return "hook.on_hook", params


def _plugin_id(spec: Spec | None) -> str | None:
    """Return the id that the extension has in its manifest, which may differ from its id in this
    host."""
    if spec is None:
        return None
    return spec.manifest.id if isinstance(spec.manifest, ManifestV2) else spec.id


def _drop_publication(params: Any) -> Meaning:
    """Drop a message for the broker, which this host does not have."""
    topic = params.get("topic") if type(params) is dict else None
    destination = f" to {shorten_to(80, topic)!r}" if type(topic) is str else ""
    return Unusable(f"broker.publish{destination}: this host has no broker")


# -- results ---------------------------------------------------------------------------------


def _content_list(result: Any) -> list[Any] | None:
    """Return the content blocks of a result; None for a result of another form, which is legal."""
    content = result.get("content") if type(result) is dict else None
    if type(content) is list and all(type(block) is dict for block in content):
        return content
    return None


def _is_error(result: Any) -> bool:
    return type(result) is dict and result.get("is_error") is True


def _read_text(result: Any) -> str:
    content = _content_list(result)
    if content is None:
        return value_text(result)
    return "\n".join(block["text"] for block in content if _is_text_block(block))


def _is_text_block(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and type(block.get("text")) is str


def _read_content(result: Any) -> tuple[Block, ...]:
    content = _content_list(result)
    if content is None:
        return (TextBlock(value_text(result)),)
    return tuple(
        TextBlock(block["text"]) if _is_text_block(block) else UnknownBlock(block)
        for block in content
    )


def _read_data(result: Any) -> Any:
    """Return a result without content blocks: it is data. Content blocks have no data."""
    return None if _content_list(result) is not None else result


# -- settings --------------------------------------------------------------------------------


def _read_milliseconds(text: str | None) -> float | None:
    """Return a variable's value in seconds; None if it is not a positive whole number."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 12):
        return None
    milliseconds = int(text)
    return milliseconds / 1000 if milliseconds > 0 else None


# Time limits in seconds, by method or by the name of an operation.
_METHOD_SECONDS = {
    "call_tool": 60,
    "tool.invoke": 60,
    "outbound_tool.invoke": 60,
    "hook": 5,
    "hook.on_hook": 5,
    "plugin.configure": 5,
}


class SecondContract(Dialect):
    """The second contract of nexo."""

    def with_environ(self, spec: Spec, environ: Mapping[str, str]) -> Spec:
        """Apply the time limits in the host's variables, where the config sets none."""
        limits = spec.limits
        handshake = _read_milliseconds(environ.get(_HANDSHAKE_VARIABLE))
        call = _read_milliseconds(environ.get(_TOOL_VARIABLE))
        limits = replace(
            limits,
            handshake=handshake if limits.handshake is None else limits.handshake,
            call=call if limits.call is None else limits.call,
        )
        return spec if limits == spec.limits else replace(spec, limits=limits)

    def registered_name(self, extension: str, tool: str) -> str:
        """Return the name of a tool unchanged if it begins with the id of its extension, as the
        contract requires. An extension that has another id in this host gets the usual name, so
        that it cannot take a name that belongs to another extension."""
        is_own = tool.startswith((f"{extension}_", f"ext_{extension}_"))
        return tool if is_own and _TOOL_NAME.fullmatch(tool) else registered_name(extension, tool)


DIALECT = SecondContract(
    name="nexo",
    contract="2",
    framing=Lines,
    codec=make_codec,
    handshake=_handshake,
    operations={
        "call_tool": steps.OneRequestOrMore(_make_tool_request, None),
        "hook": steps.OneRequestOrMore(_make_hook_request, read_hook_answer),
    },
    notifications={"tools/progress": parse_progress, "broker.publish": _drop_publication},
    result_reader=ResultReader(_is_error, _read_text, _read_data, _read_content),
    options={"contract": CONTRACT_OPTION},
    conformance="exthost.dialects.nexo.conformance:SECOND_CONTRACT",
    traits=Traits(
        first_id=1,
        limits=Limits(handshake=5, call=60, max_message=64 * 2**20),
        method_limits=_METHOD_SECONDS,
        unique="tools",
        is_exit_0_crash=False,
        restart=Restart(strategy="never", initial_delay=1, max_delay=60, max_retries=3),
        env_vars={
            "AGENT_VERSION": "host_version",
            "AGENT_EXTENSION_ID": "extension",
            "AGENT_STATE_DIR": "state_folder",
            "NEXO_EXTENSION_STATE_ROOT": "state_folder",
        },
        shutdown_steps=(
            Say(Request("shutdown", {"reason": "the host ends the extension"}), wait=5),
            CloseStdin(wait=1),
        ),
    ),
)
