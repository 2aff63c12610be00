"""The handlers that the author of an extension has registered, as data.

The decorators of `Extension` fill in a `HandlerRegistry`: `@ext.tool` adds to `tools`, and so on.
Each endpoint, the extension's side of one dialect (protocol), translates the handlers into the
messages of its dialect.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from exthost_sdk.errors import UnsupportedType
from exthost_sdk.types.function import Function

# A name of a tool that every host accepts. `exthost check` reports other names as a fault.
_MAX_NAME_CHARACTERS = 128
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-")


class Model(NamedTuple):
    """A model of a provider. `context_window` is a number of tokens, None if it is unknown."""

    id: str
    name: str = ""
    context_window: int | None = None


class Provider(NamedTuple):
    """A function that continues a conversation with a language model, and the models it has."""

    id: str
    name: str
    description: str
    models: tuple[Model, ...]
    function: Function


class Resource(NamedTuple):
    """A resource of MCP: content that is read by its URI. If the URI is a template, such as
    `notes://{name}`, the resource stands for all URIs that match it."""

    uri: str
    name: str
    description: str
    mime_type: str
    function: Function

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def check(self) -> None:
        """Raise UnsupportedType if the resource could never be read: if its URI is not one, or does
        not have the parameters of the function."""
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", self.uri):
            raise UnsupportedType(f"{self.uri!r} is not a URI: write a scheme, as in notes://today")
        names_in_uri = re.findall(r"\{(\w+)\}", self.uri)
        for name in names_in_uri:
            if names_in_uri.count(name) > 1 or not name.isidentifier():
                reason = "is there twice" if name.isidentifier() else "is not a name"
                raise UnsupportedType(f"the URI {self.uri}: the parameter {name} {reason}")
        in_uri = set(names_in_uri)
        schema = self.function.input_schema
        parameters = schema.get("properties", {})
        missing = set(schema.get("required", ())) - in_uri
        takes_any = schema.get("additionalProperties", True) is not False
        unknown = set() if takes_any else in_uri - set(parameters)
        if missing or unknown:
            names = ", ".join(sorted(missing | unknown))
            raise UnsupportedType(
                f"{self.function.name}: the URI {self.uri} and the function must have the same "
                f"parameters: {names}"
            )

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the template's parameters for a URI; None if it does not match."""
        # `split` returns literal texts and the names of parameters alternately.
        segments = re.split(r"\{(\w+)\}", self.uri)
        pattern = "".join(
            f"(?P<{segment}>[^/]+)" if position % 2 else re.escape(segment)
            for position, segment in enumerate(segments)
        )
        match = re.fullmatch(pattern, uri)
        return match.groupdict() if match else None


class Subagent(NamedTuple):
    """An agent of roder, to which a host dispatches requests. `definition` has the further fields
    of its definition."""

    agent_type: str
    definition: Mapping[str, Any]
    function: Function


class Sink(NamedTuple):
    """A handler of roder's events whose kinds begin with one of `kinds`."""

    kinds: tuple[str, ...]
    function: Function


class HandlerRegistry:
    """Everything that the decorators have registered, by name."""

    def __init__(self) -> None:
        self.tools: dict[str, Function] = {}
        self.streams: dict[str, Function] = {}
        self.commands: dict[str, Function] = {}
        self.hooks: dict[str, Function] = {}
        self.providers: dict[str, Provider] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Function] = {}
        self.subagents: dict[str, Subagent] = {}
        self.sinks: dict[str, Sink] = {}
        self.editors: dict[str, Function] = {}  # of settings: "category.field" → handler
        self.sidecar: Function | None = None
        self.plan: Function | None = None
        self.generate: Function | None = None
        self.replaces_output = False  # whether a hook may replace the output of a tool

    @property
    def callables(self) -> Mapping[str, Function]:
        """The tools, streams and commands. In most dialects all of them are called as tools."""
        return {**self.tools, **self.streams, **self.commands}

    @property
    def functions(self) -> Sequence[Function]:
        """Every registered handler."""
        providers = [provider.function for provider in self.providers.values()]
        resources = [resource.function for resource in self.resources.values()]
        subagents = [subagent.function for subagent in self.subagents.values()]
        sinks = [sink.function for sink in self.sinks.values()]
        steps = [step for step in (self.plan, self.generate, self.sidecar) if step is not None]
        return [
            *self.callables.values(), *self.hooks.values(), *self.prompts.values(),
            *self.editors.values(), *providers, *resources, *subagents, *sinks, *steps,
        ]  # fmt: skip

    def names_by_kind(self) -> dict[str, list[str]]:
        """Return the names of what is registered: kind → names. An endpoint lists the kinds that
        its dialect supports."""
        steps = {"plan": self.plan, "generate": self.generate}
        return {
            "tools": list(self.callables),
            "hooks": list(self.hooks),
            "providers": list(self.providers),
            "resources": list(self.resources),
            "prompts": list(self.prompts),
            "subagents": list(self.subagents),
            "event sinks": list(self.sinks),
            "editors of settings": list(self.editors),
            "sidecar": ["sidecar"] if self.sidecar is not None else [],
            "generators": [name for name, step in steps.items() if step is not None],
        }

    def add(self, table: dict[str, Any], name: str, value: Any) -> None:
        """Register a value in `table`, one of the dicts of this registry. Raises ValueError if the
        name is taken, or if it is not one for a tool. Tools, streams and commands share one set of
        names."""
        callable_tables = (self.tools, self.streams, self.commands)
        # Compared by identity: two empty dicts are equal.
        shares_names = any(table is callable_table for callable_table in callable_tables)
        if name in (self.callables if shares_names else table):
            raise ValueError(f"{name!r} is registered twice")
        if shares_names and not _is_tool_name(name):
            raise ValueError(
                f"{name!r} is not a name for a tool: write `name=` with at most "
                f"{_MAX_NAME_CHARACTERS} of the characters A-Z a-z 0-9 _ . : / -"
            )
        table[name] = value


def _is_tool_name(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME_CHARACTERS and _NAME_CHARACTERS.issuperset(name)
