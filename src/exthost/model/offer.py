"""The offer of an extension: the tools, hooks and capabilities that it announced. Frozen values.

The dialect of the extension makes the offer from the handshake:

    Offer(tools=(Tool("forecast", "The weather of a city"),), name="weather", version="1.2.0")

A hook is the name of a function that the host calls at an event, such as `before_tool_call`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.model.empty_mapping import empty_mapping


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that can be called by name. `extra` has the other fields that the extension sent.
    `seconds` is the time limit that the extension sets for its calls; None if it sets none.
    `original_name` is the extension's name for a tool that the operator renamed, otherwise ""."""

    name: str
    description: str = ""
    input_schema: Any = None
    output_schema: Any = None
    extra: Mapping[str, Any] = field(default_factory=empty_mapping, compare=False)
    seconds: float | None = field(default=None, kw_only=True, repr=False)
    original_name: str = field(default="", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class RegisteredTool(Tool):
    """A tool as the host lists it.

    `name` is its name in the host, such as `ext_weather_forecast`, and `tool` its name in the
    extension, such as `forecast`. `extension` is the id of the extension, and `provider` the name
    that the extension has for itself. `capabilities` are labels by which a caller can choose it.
    """

    tool: str = ""
    extension: str = ""
    provider: str = ""
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """The offer of an extension in its handshake, or in its manifest if it has no handshake.

    `name` is the name that the extension has for itself. `capabilities` are labels such as
    `provider:github` by which a caller can choose the extension, in dialects that have them.
    `details` are values for the dialect's facets (attributes such as `ext.providers`). `extra` has
    further values, which `exthost inspect` prints.
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


# How many warnings about one offer are reported. An offer can have millions of mistakes.
MAX_WARNINGS = 100


class OfferWarnings(list[str]):
    """Collects warnings about an offer. Those after the first `MAX_WARNINGS` are only counted."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        super().__init__()
        self._left_out = 0
        self += texts

    def append(self, text: str) -> None:
        """Add a warning, or count it if there are too many."""
        if len(self) < MAX_WARNINGS:
            super().append(text)
        else:
            self._left_out += 1

    def __iadd__(self, texts: Iterable[str]) -> "OfferWarnings":  # type: ignore[override, misc]
        for text in texts:
            self.append(text)
        return self

    def report(self) -> tuple[str, ...]:
        """Return the warnings, and how many were left out."""
        if not self._left_out:
            return tuple(self)
        one = self._left_out == 1
        return (
            *self,
            "there is 1 more warning" if one else f"there are {self._left_out} more warnings",
        )
