"""Values of a dialect as data: what `exthost call` prints, and what crosses the socket. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any

# What is data already: most of what a dialect decodes.
_PLAIN = frozenset({str, int, float, bool, type(None)})
_NAMES = frozenset({str})


def as_data(value: Any) -> Any:
    """Return a value as JSON has it: one that the dialect has a type for, with all its members."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        if _PLAIN.issuperset(map(type, value.values())) and _NAMES.issuperset(map(type, value)):
            return value
        return {str(key): as_data(item) for key, item in value.items()}
    if kind is list:
        return [as_data(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        more = members.pop("extra", {})
        return {name: as_data(item) for name, item in {**members, **more}.items()}
    if isinstance(value, Mapping):
        return {str(key): as_data(item) for key, item in value.items()}
    return [as_data(item) for item in value] if isinstance(value, list | tuple) else value


def event_as_data(event: Any) -> Any:
    """Return an event of a stream as data; members of a named tuple keep their names."""
    if isinstance(event, tuple) and hasattr(event, "_asdict"):
        return as_data(event._asdict())
    return as_data(event)
