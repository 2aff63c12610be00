"""The tools of a host by their registered names, and as model APIs want them.

The lists can be passed on as they are: names, descriptions and schemas are what those APIs accept.
A tool without a description is described by its own name. A tool without a schema, or with one
that is not of an object, takes any object.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from exthost.offer import RegisteredTool

__all__ = ["RegisteredTools"]


class RegisteredTools(Mapping[str, RegisteredTool]):
    """Registered name → tool. Read-only."""

    __slots__ = ("_tools",)

    def __init__(self, tools: Mapping[str, RegisteredTool]) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> RegisteredTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"RegisteredTools({', '.join(self._tools)})"

    def as_openai(self) -> list[dict[str, Any]]:
        """Return the `tools` of a chat-completions request."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": _description(tool),
                    "parameters": _schema(tool),
                },
            }
            for tool in self._tools.values()
        ]

    def as_anthropic(self) -> list[dict[str, Any]]:
        """Return the `tools` of a messages request."""
        return [
            {"name": tool.name, "description": _description(tool), "input_schema": _schema(tool)}
            for tool in self._tools.values()
        ]

    def as_mcp(self) -> list[dict[str, Any]]:
        """Return the `tools` of a tools/list result."""
        return [
            {"name": tool.name, "description": _description(tool), "inputSchema": _schema(tool)}
            for tool in self._tools.values()
        ]


def _description(tool: RegisteredTool) -> str:
    return tool.description or tool.tool


def _schema(tool: RegisteredTool) -> dict[str, Any]:
    """Return the input schema as one of an object with properties, which every API requires."""
    schema = tool.input_schema
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return {"type": "object", "properties": {}}
    return {**schema, "type": "object", "properties": schema.get("properties") or {}}
