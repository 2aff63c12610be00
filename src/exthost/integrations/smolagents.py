"""The tools of a host for smolagents, which is a blocking framework: use `SyncHost`.

    agent = CodeAgent(tools=tools(host), model=model)

A tool returns its structured value if it has one, otherwise its text; an image is one of Pillow. A
failed tool returns a text that begins with "Error: "; it does not raise.
"""

import io
import re
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
    return [_HostTool(host_tools, tool) for tool in host_tools.listed()]


class _HostTool(Tool):
    skip_forward_signature_validation = True
    output_type = "any"

    def __init__(self, host_tools: HostTools, tool: HostTool) -> None:
        # The framework accepts only names that a Python function can have.
        self.name = re.sub(r"\W", "_", tool.name)
        self.description = tool.description
        properties, required = tool.schema["properties"], tool.schema.get("required", ())
        self.inputs = {name: _input(properties[name], name in required) for name in properties}
        # A tool that does not name its arguments takes them as one, because names must be known.
        self._is_open = "properties" not in (tool.registered.input_schema or ())
        if self._is_open:
            self.inputs = {"arguments": _input({"type": "object"}, is_required=False)}
        self._tools, self._registered_name = host_tools, tool.name
        super().__init__()

    def forward(self, *values: Any, **arguments: Any) -> Any:
        given = dict(zip(self.inputs, values, strict=False)) | arguments
        if self._is_open:
            given = given.get("arguments") or {}
        outcome = self._tools.call_blocking(self._registered_name, given)
        if not outcome.has_media or outcome.is_error:
            return outcome.value
        shown = [_value(part) for part in outcome.parts if part != ""]
        return shown[0] if len(shown) == 1 else shown


def _input(property: Any, is_required: bool) -> dict[str, Any]:
    """Return an argument as the framework describes it. It knows few types."""
    schema = property if isinstance(property, dict) else {}
    type = schema.get("type")
    types = type if isinstance(type, list) else [type]
    known = type if types and all(name in AUTHORIZED_TYPES for name in types) else "any"
    described = {"type": known, "description": str(schema.get("description", ""))}
    return described if is_required else {**described, "nullable": True}


def _value(part: str | Media) -> Any:
    if isinstance(part, Media) and part.kind == "image":
        return Image.open(io.BytesIO(part.content))
    return part.content if isinstance(part, Media) else part
