"""The tools of a host by their registered names, and as model APIs want them.

The lists can be passed on as they are: names, descriptions and schemas are what those APIs accept.
A tool without a description is described by its own name. What such an API cannot express is left
out and logged.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from exthost.host.model_tools import Form, ModelTool, model_tool
from exthost.offer import RegisteredTool

__all__ = ["RegisteredTools"]

_log = logging.getLogger("exthost.tools")


class RegisteredTools(Mapping[str, RegisteredTool]):
    """Registered name → tool. Read-only."""

    __slots__ = ("_told", "_tools")

    def __init__(self, tools: Mapping[str, RegisteredTool], told: set[str] | None = None) -> None:
        self._tools = tools
        self._told: set[str] = set() if told is None else told  # warnings that were logged

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
        return self._in_form("openai")

    def as_anthropic(self) -> list[dict[str, Any]]:
        """Return the `tools` of a messages request."""
        return self._in_form("anthropic")

    def as_mcp(self) -> list[dict[str, Any]]:
        """Return the `tools` of a tools/list result."""
        return self._in_form("mcp")

    def changes(self, form: Form) -> list[str]:
        """Return a sentence for each thing that a form cannot express: "openai", "anthropic" or
        "mcp". The lists above leave it out; the first time, they log it as a warning."""
        return [change for tool in self._converted(form) for change in tool.changes]

    def _in_form(self, form: Form) -> list[dict[str, Any]]:
        converted = self._converted(form)
        for change in (change for tool in converted for change in tool.changes):
            if change not in self._told:
                self._told.add(change)
                _log.warning("%s", change)
        return [tool.data for tool in converted]

    def _converted(self, form: Form) -> list[ModelTool]:
        return [
            model_tool(form, tool.name, tool.description or tool.tool, tool.input_schema)
            for tool in self._tools.values()
        ]
