"""What an extension offers, as data. Each dialect translates it into its own messages."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from exthost.sdk.types.function import Function


class Model(NamedTuple):
    """A model of a provider."""

    id: str
    name: str = ""
    context_window: int | None = None


class Provider(NamedTuple):
    """A function that continues a conversation, and its models."""

    id: str
    name: str
    description: str
    models: tuple[Model, ...]
    function: Function


class Resource(NamedTuple):
    """Something that can be read by its URI, or by a URI of its template."""

    uri: str
    name: str
    description: str
    mime_type: str
    function: Function

    @property
    def is_template(self) -> bool:
        return "{" in self.uri

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the template for a URI, or None if it does not fit."""
        parts = re.split(r"\{(\w+)\}", self.uri)
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if position % 2 else re.escape(part)
            for position, part in enumerate(parts)
        )
        found = re.fullmatch(pattern, uri)
        return found.groupdict() if found else None


class Registry:
    """Everything that the decorators have registered, by name."""

    def __init__(self) -> None:
        self.tools: dict[str, Function] = {}
        self.streams: dict[str, Function] = {}
        self.commands: dict[str, Function] = {}
        self.hooks: dict[str, Function] = {}
        self.providers: dict[str, Provider] = {}
        self.resources: dict[str, Resource] = {}
        self.plan: Function | None = None
        self.generate: Function | None = None

    @property
    def callables(self) -> Mapping[str, Function]:
        """What can be called by name with arguments: in most dialects all of them are tools."""
        return {**self.tools, **self.streams, **self.commands}

    @property
    def functions(self) -> Sequence[Function]:
        """Every handler."""
        providers = [provider.function for provider in self.providers.values()]
        resources = [resource.function for resource in self.resources.values()]
        steps = [step for step in (self.plan, self.generate) if step is not None]
        return [*self.callables.values(), *self.hooks.values(), *providers, *resources, *steps]

    def names(self) -> dict[str, list[str]]:
        """Return what is registered, by kind."""
        steps = {"plan": self.plan, "generate": self.generate}
        return {
            "tools": list(self.callables),
            "hooks": list(self.hooks),
            "providers": list(self.providers),
            "resources": list(self.resources),
            "generators": [name for name, step in steps.items() if step is not None],
        }

    def add(self, kind: dict[str, Any], name: str, value: Any) -> None:
        """Register a value under a name that is still free."""
        own = (self.tools, self.streams, self.commands)
        shares_names = any(
            kind is own_kind for own_kind in own
        )  # they are equal when they are empty
        if name in (self.callables if shares_names else kind):
            raise ValueError(f"{name!r} is registered twice")
        kind[name] = value
