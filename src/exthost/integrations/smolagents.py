"""Offers the tools of a host to agents of smolagents, which is a blocking framework: use
`SyncHost`.

    agent = CodeAgent(tools=tools(host), model=model)

A tool returns its structured value if it has one, otherwise its text; an image is one of Pillow. A
failed tool returns a text that begins with "Error: "; it does not raise.
"""

import io
import re
from keyword import iskeyword
from typing import Any, Unpack

from exthost.integrations.host_tools import (
    CallSettings,
    HostTool,
    HostTools,
    Media,
    Source,
    framework,
)

with framework("smolagents"):
    from PIL import Image
    from smolagents import Tool
    from smolagents.tools import AUTHORIZED_TYPES

__all__ = ["tools"]


def tools(host: Source, **settings: Unpack[CallSettings]) -> list[Tool]:
    """Return the tools that can be called now, of a blocking host or of a selection of its tools.
    The settings are explained at `host_tools.CallSettings`. Raises UsageError for another host."""
    host_tools = HostTools(host, **settings)
    if not host_tools.is_blocking:
        raise host_tools.needs_blocking_error()
    names: set[str] = set()

    def convert(listed: HostTool) -> Tool:
        tool = _HostTool(host_tools, listed)
        if tool.name in names:  # `ext_a-b_c` and `ext_a_b_c`: the framework would refuse all tools
            raise ValueError(f"another tool is called {tool.name} there")
        names.add(tool.name)
        return tool

    return host_tools.converted(convert)


class _HostTool(Tool):
    """One tool of a host in the form of smolagents."""

    skip_forward_signature_validation = True
    output_type = "any"

    def __init__(self, host_tools: HostTools, tool: HostTool) -> None:
        # The framework accepts only names that a Python function can have.
        name = re.sub(r"\W", "_", tool.name)
        self.name = name if name.isidentifier() and not iskeyword(name) else f"tool_{name}"
        self.description = tool.description
        properties, required = tool.schema["properties"], tool.schema.get("required", ())
        self.inputs = {name: _input(properties[name], name in required) for name in properties}
        # The framework must know the names of all arguments. A tool whose schema names none
        # therefore gets one argument, the object with all of its arguments.
        self._takes_any_arguments = "properties" not in (tool.registered.input_schema or ())
        if self._takes_any_arguments:
            self.inputs = {"arguments": _input({"type": "object"}, is_required=False)}
        self._tools, self._registered_name = host_tools, tool.name
        super().__init__()

    def forward(self, *positional: Any, **arguments: Any) -> Any:
        by_name = dict(zip(self.inputs, positional, strict=False)) | arguments
        if self._takes_any_arguments:
            by_name = by_name.get("arguments") or {}
        outcome = self._tools.call_blocking(self._registered_name, by_name)
        if not outcome.has_media or outcome.is_error:
            return outcome.value
        values = [_convert_part(part) for part in outcome.parts if part != ""]
        return values[0] if len(values) == 1 else values


def _input(property: Any, is_required: bool) -> dict[str, Any]:
    """Return the description of an argument in the form of the framework, which knows only a few
    types. Any other type becomes "any"."""
    schema = property if isinstance(property, dict) else {}
    type = schema.get("type")
    types = type if isinstance(type, list) else [type]
    known = type if types and all(name in AUTHORIZED_TYPES for name in types) else "any"
    described = {"type": known, "description": str(schema.get("description", ""))}
    return described if is_required else {**described, "nullable": True}


def _convert_part(part: str | Media) -> Any:
    """Return a part of a result as an image of Pillow, as bytes, or as text."""
    if isinstance(part, Media) and part.kind == "image":
        return Image.open(io.BytesIO(part.content))
    return part.content if isinstance(part, Media) else part
