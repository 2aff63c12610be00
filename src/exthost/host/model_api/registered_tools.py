"""The tools of a host by their registered names (`host.tools`), and as lists for model APIs.

A registered name is unique in the host: the tool `forecast` of the extension `weather` is
`ext_weather_forecast`.

    response = client.messages.create(tools=host.tools.as_anthropic(), …)

Each list can be passed to the API of a model unchanged: names, descriptions and schemas have the
form that the API accepts. A tool without a description gets its own name as the description. Parts
of a schema that an API does not support are left out and logged (see `model_tools`).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from exthost.extension.misuse import wrong_type_error
from exthost.host.model_api.model_tools import FORMS, Form, ModelTool, model_tool, request_tools
from exthost.host.model_api.tool_search import ToolSearch
from exthost.host.registry import log_once
from exthost.model.names import prefixed_description
from exthost.model.offer import RegisteredTool
from exthost.model.patterns import compile_pattern, fits_any

_log = logging.getLogger("exthost.tools")


def own_description(tool: RegisteredTool) -> str:
    """Return the description of a tool without the prefix `[ext:…]`, the id of its extension."""
    return tool.description.removeprefix(prefixed_description(tool.extension, ""))


def read_patterns(patterns: str | Iterable[str]) -> tuple[str, ...]:
    """Return patterns of names, such as `ext_weather_*`, as a tuple. A single text is one
    pattern. Raises UsageError for other values than texts."""
    if isinstance(patterns, str):
        return (patterns,)
    read = tuple(patterns) if isinstance(patterns, Iterable) else (patterns,)
    for pattern in read:
        if not isinstance(pattern, str):
            raise wrong_type_error("a pattern of tools", "a text, such as ext_mail_*", pattern)
    return read


def is_selected(patterns: tuple[str, ...], name: str, tool: RegisteredTool | None) -> bool:
    """Return whether a pattern fits the name by which a tool is called, its registered name, or
    `extension:tool`. `tool` is None if no listed tool has the name."""
    names = [name] if tool is None else [name, tool.name, f"{tool.extension}:{tool.tool}"]
    return any(fits_any(each, patterns) for each in names)


class RegisteredTools(Mapping[str, RegisteredTool]):
    """A read-only mapping from registered names to tools."""

    __slots__ = ("_logged_warnings", "_search", "_tools", "host")

    def __init__(
        self,
        tools: Mapping[str, RegisteredTool],
        logged_warnings: set[str] | None = None,
        search: ToolSearch | None = None,
        *,
        host: Any = None,
    ) -> None:
        """`logged_warnings` are the warnings that are not logged again. Further warnings are added
        when they are logged. `search` keeps the index of these tools; None makes one. `host` is the
        host whose tools they are, or some of them."""
        self._tools = tools
        self._search = ToolSearch() if search is None else search
        self._logged_warnings: set[str] = set() if logged_warnings is None else logged_warnings
        self.host = host

    def __getitem__(self, name: str) -> RegisteredTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"RegisteredTools({', '.join(self._tools)})"

    def of_host(self, host: Any) -> "RegisteredTools":
        """Return the same tools, to be called by another form of their host."""
        # For example by a `SyncHost`, the blocking form of a `Host`.
        return RegisteredTools(self._tools, self._logged_warnings, self._search, host=host)

    def search(self, text: str, limit: int = 8) -> "RegisteredTools":
        """Return the tools that fit these words best, at most `limit`, the best first."""
        found = self._search.find(self._tools, text, limit)
        return RegisteredTools(found, self._logged_warnings, host=self.host)

    def select(self, *patterns: str) -> "RegisteredTools":
        """Return the tools whose registered names, or `extension:tool`, fit one of the patterns
        (`*` is any text, `?` one character), in the order of the patterns."""
        selected = {
            name: tool
            for pattern in map(compile_pattern, read_patterns(patterns))
            for name, tool in self._tools.items()
            if pattern(name) or pattern(f"{tool.extension}:{tool.tool}")
        }
        return RegisteredTools(selected, self._logged_warnings, host=self.host)

    # The lists are typed `list[Any]`, because each API's package has types of its own, which
    # change between its versions.

    def as_openai(
        self, form: Literal["chat", "responses"] = "chat", *, prefix: bool = True
    ) -> list[Any]:
        """Return the `tools` of a chat-completions request, or of a request to the Responses API.
        Without `prefix`, descriptions do not begin with `[ext:…]`, the id of the extension."""
        if form not in ("chat", "responses"):
            raise wrong_type_error("form", '"chat" or "responses"', form)
        return self._in_form("responses" if form == "responses" else "openai", prefix)

    def as_anthropic(self, *, prefix: bool = True) -> list[Any]:
        """Return the `tools` of a messages request; see `as_openai` for `prefix`."""
        return self._in_form("anthropic", prefix)

    def as_gemini(self, *, prefix: bool = True) -> list[Any]:
        """Return the `tools` of a generateContent request; see `as_openai` for `prefix`."""
        return self._in_form("gemini", prefix)

    def as_mcp(self, *, prefix: bool = True) -> list[Any]:
        """Return the `tools` of a tools/list result; see `as_openai` for `prefix`."""
        return self._in_form("mcp", prefix)

    def changes(self, form: Form) -> list[str]:
        """Return a sentence for each part of a tool that the form ("openai", "responses",
        "anthropic", "gemini" or "mcp") does not support. The methods above leave these parts out,
        and log each sentence once."""
        if form not in FORMS:
            raise wrong_type_error("form", f"one of {', '.join(FORMS)}", form)
        return [change for tool in self._convert(form, True) for change in tool.changes]

    def _in_form(self, form: Form, prefix: bool) -> list[Any]:
        converted = self._convert(form, prefix)
        for change in (change for tool in converted for change in tool.changes):
            log_once(_log, self._logged_warnings, change)
        return request_tools(form, converted)

    def _convert(self, form: Form, prefix: bool) -> list[ModelTool]:
        return [
            model_tool(
                form,
                tool.name,
                (tool.description if prefix else own_description(tool)) or tool.tool,
                tool.input_schema,
            )
            for tool in self._tools.values()
        ]
