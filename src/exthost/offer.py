"""What an extension offers: its tools, hooks and capabilities. The values are frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.empty_mapping import empty_mapping


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that can be called by name. `extra` has the other members that its dialect gave it."""

    name: str
    description: str = ""
    input_schema: Any = None
    output_schema: Any = None
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, compare=False)


@dataclass(frozen=True, slots=True)
class RegisteredTool(Tool):
    """A tool as the host lists it: `name` is its registered name, `tool` its own. `extension` is
    the id of its extension, `provider` that extension's name for itself, and `capabilities` are
    what it can be chosen by."""

    tool: str = ""
    extension: str = ""
    provider: str = ""
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """What an extension offers, as its handshake says, or its manifest where there is no handshake.

    `name` is the extension's own name for itself. `capabilities` are labels such as
    `provider:github` by which it can be chosen, in dialects that have them. `details` are values of
    the dialect for its facets. `extra` is shown to a person who inspects the extension.
    """

    tools: tuple[Tool, ...] = ()
    version: str = ""
    name: str = ""
    hooks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, compare=False)
    capabilities: tuple[str, ...] = ()
    details: tuple[Any, ...] = field(default=(), compare=False)


# The offer of an extension whose handshake has not happened yet.
NO_OFFER = Offer()
