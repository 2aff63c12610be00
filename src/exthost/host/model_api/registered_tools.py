"""The tools of a host by their registered names (`host.tools`), and as lists for model APIs.

Each list can be passed to the API of a model unchanged: names, descriptions and schemas have the
form that the API accepts. A tool without a description gets its own name as the description. Parts
of a schema that an API does not support are left out and logged (see `model_tools`).
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from exthost.host.model_api.model_tools import Form, ModelTool, model_tool
from exthost.host.model_api.tool_search import ToolSearch
from exthost.model.offer import RegisteredTool
from exthost.model.patterns import compile_pattern

_log = logging.getLogger("exthost.tools")


class RegisteredTools(Mapping[str, RegisteredTool]):
    """A read-only mapping from registered names to tools."""

    __slots__ = ("_logged_warnings", "_search", "_tools")

    def __init__(
        self,
        tools: Mapping[str, RegisteredTool],
        logged_warnings: set[str] | None = None,
        search: ToolSearch | None = None,
    ) -> None:
        """`logged_warnings` are the warnings that are not logged again. Further warnings are added
        when they are logged. `search` keeps the index of these tools; None makes one."""
        self._tools = tools
        self._search = ToolSearch() if search is None else search
        self._logged_warnings: set[str] = set() if logged_warnings is None else logged_warnings

    def __getitem__(self, name: str) -> RegisteredTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"RegisteredTools({', '.join(self._tools)})"

    def search(self, text: str, limit: int = 8) -> "RegisteredTools":
        """Return the tools that fit these words best, at most `limit`, the best first."""
        return RegisteredTools(self._search.find(self._tools, text, limit), self._logged_warnings)

    def select(self, *patterns: str) -> "RegisteredTools":
        """Return the tools whose registered names, or `extension:tool`, fit one of the patterns
        (`*` is any text, `?` one character), in the order of the patterns."""
        selected = {
            name: tool
            for pattern in map(compile_pattern, patterns)
            for name, tool in self._tools.items()
            if pattern(name) or pattern(f"{tool.extension}:{tool.tool}")
        }
        return RegisteredTools(selected, self._logged_warnings)

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
        """Return a sentence for each part of a tool that the form ("openai", "anthropic" or "mcp")
        does not support. The methods above leave these parts out, and log each sentence once."""
        return [change for tool in self._convert(form) for change in tool.changes]

    def _in_form(self, form: Form) -> list[dict[str, Any]]:
        converted = self._convert(form)
        for change in (change for tool in converted for change in tool.changes):
            if change not in self._logged_warnings:
                self._logged_warnings.add(change)
                _log.warning("%s", change)
        return [tool.data for tool in converted]

    def _convert(self, form: Form) -> list[ModelTool]:
        return [
            model_tool(form, tool.name, tool.description or tool.tool, tool.input_schema)
            for tool in self._tools.values()
        ]
