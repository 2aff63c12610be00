"""Converts results and events of a dialect, such as dataclasses, to JSON data.

`exthost call` prints the data, and the host sends it over the control socket. A dialect is the
protocol that an extension speaks.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

# Types whose values are JSON data already. Types are compared exactly (`type(value)`), because that
# is faster than `isinstance` for large results.
_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})
_KEY_TYPES = frozenset({str})


def as_data(value: Any) -> Any:
    """Return a value as JSON data. A dataclass becomes a dict of its fields, to which the items of
    its field `extra` are added. A value that already is JSON data may be returned unchanged."""
    cls = type(value)
    if cls in _PLAIN_TYPES:
        return value
    try:
        if cls is dict:
            # Most dicts contain only plain values; they are returned without a copy.
            if _PLAIN_TYPES.issuperset(map(type, value.values())) and _KEY_TYPES.issuperset(
                map(type, value)
            ):
                return value
            return {str(key): as_data(item) for key, item in value.items()}
        if cls is list:
            return [as_data(item) for item in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            extra = fields.pop("extra", {})
            return {name: as_data(item) for name, item in {**fields, **extra}.items()}
        if isinstance(value, Mapping):
            return {str(key): as_data(item) for key, item in value.items()}
        return [as_data(item) for item in value] if isinstance(value, list | tuple) else value
    except RecursionError:
        # The rest is nested too deeply for this function. It is most likely a part of a JSON
        # message, which needs no conversion.
        return value


def event_as_data(event: Any) -> Any:
    """Return an event of a stream as JSON data. A named tuple becomes a dict, not a list."""
    if isinstance(event, tuple) and hasattr(event, "_asdict"):
        return as_data(event._asdict())
    return as_data(event)
