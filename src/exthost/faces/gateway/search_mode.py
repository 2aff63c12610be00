"""The two tools of `[gateway] mode = "search"`: one finds tools, the other calls one of them.

The gateway publishes the tools of all extensions. If they are many, their list fills the context of
a model. With this setting a client lists two tools instead of all, and finds the others by
searching. A call of `call_tool` becomes a call of the tool that its arguments name: `unwrap_call`
returns the params of that call, and the gateway handles them as those of any other call.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from exthost.extension.extension import Extension
from exthost.faces.gateway.mcp_values import is_json, replace_surrogates
from exthost.wire import jsontext

SEARCH: Final = "search_tools"
CALL: Final = "call_tool"

_DEFAULT_LIMIT: Final = 8
_MAX_LIMIT: Final = 50

# The length at which the description of an extension is cut in the instructions.
_MAX_ABOUT_CHARS: Final = 160

# How many names of tools replace the description of an extension that has none.
_MAX_NAMES: Final = 6

TOOLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": SEARCH,
        "description": "Find tools by words. Returns the names, descriptions and input schemas of "
        f"the tools that fit best. Call them with {CALL}.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in words."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": _MAX_LIMIT,
                    "default": _DEFAULT_LIMIT,
                    "description": "How many tools to return at most.",
                },
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": CALL,
        "description": f"Call a tool that {SEARCH} has found, with arguments that fit its input "
        "schema.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name of the tool."},
                "arguments": {"type": "object", "description": "The arguments of the tool."},
            },
            "required": ["name"],
        },
    },
)

_SCHEMAS: Final = {tool["name"]: tool["inputSchema"] for tool in TOOLS}


def find_schema(name: str) -> Mapping[str, Any] | None:
    """Return the input schema of one of the two tools; None for any other."""
    return _SCHEMAS.get(name)


def read_search(arguments: Any) -> tuple[str, int]:
    """Return the query and the limit of a search. Raises MCPError."""
    query = arguments.get("query") if isinstance(arguments, Mapping) else None
    limit = arguments.get("limit", _DEFAULT_LIMIT) if isinstance(arguments, Mapping) else None
    if type(limit) is float and limit.is_integer():
        limit = int(limit)
    if not isinstance(query, str) or type(limit) is not int or limit < 1:
        text = f"{SEARCH} has a query, a text, and may have a limit, at least 1"
        raise MCPError(types.INVALID_PARAMS, text)
    return query, min(limit, _MAX_LIMIT)


def unwrap_call(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of the call that `call_tool` is asked to make. Raises MCPError."""
    arguments = params.get("arguments")
    name = arguments.get("name") if isinstance(arguments, Mapping) else None
    inner = arguments.get("arguments") if isinstance(arguments, Mapping) else None
    if not isinstance(name, str) or not (inner is None or isinstance(inner, dict)):
        text = f"{CALL} has the name of a tool, and an object of its arguments"
        raise MCPError(types.INVALID_PARAMS, text)
    if name in (SEARCH, CALL):
        text = f"{CALL} does not call {name}; an extension's tool of that name has a prefix"
        raise MCPError(types.INVALID_PARAMS, text)
    return {**params, "name": name, "arguments": inner or {}}


def search_result(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a search, with the tools as they are in a list."""
    text = jsontext.encode(tools).decode() if tools else "no tool fits these words; try others"
    content = [{"type": "text", "text": replace_surrogates(text)}]
    result = {"content": content, "isError": False}
    structured = {**result, "structuredContent": {"tools": tools}}
    return structured if is_json(structured) else result


def instructions(extensions: Iterable[Extension]) -> str:
    """Return the gateway's instructions for a model: one line for each extension whose tools
    are listed."""
    lines = [
        f"Find tools with {SEARCH}, and call them with {CALL}. There are tools of:",
        *(_line(extension) for extension in extensions if extension.internals.serves),
    ]
    return "\n".join(lines)


def _line(extension: Extension) -> str:
    """Return the line about an extension, such as "- git (12 tools): Reads and changes …"."""
    names = list(extension.tools)
    about = extension.offer.extra.get("instructions")
    if not isinstance(about, str) or not about.strip():
        about = ", ".join(names[:_MAX_NAMES]) + (" …" if len(names) > _MAX_NAMES else "")
    about = " ".join(replace_surrogates(about).split())
    if len(about) > _MAX_ABOUT_CHARS:
        about = about[: _MAX_ABOUT_CHARS - 1] + "…"
    count = f"{len(names)} tools" if len(names) != 1 else "1 tool"
    return f"- {extension.id} ({count}): {about}"
