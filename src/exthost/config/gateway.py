"""Reads the section `[gateway]`: how the gateway serves its clients.

The gateway (`exthost gateway`) is an MCP server that offers the tools of all extensions of a host.

    [gateway]
    mode = "search"
    linger = "10m"
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exthost.model.documents.keys import DURATION, Key, ValueType, one_of
from exthost.model.documents.problems import Place
from exthost.model.documents.readers import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """The settings of `[gateway]`.

    linger      how many seconds a host that was started for its clients stays after the last one;
                infinite for "forever"
    first_list  how many seconds after the start of the gateway the first list of tools is answered
                at the latest
    mode        "list" if clients see every tool, "search" if they search for tools
    """

    linger: float = 60.0
    first_list: float = 8.0
    mode: str = "list"


def _read_linger(value: Any, place: Place) -> float | None:
    """Read a duration, or "forever"."""
    return math.inf if value == "forever" else DURATION.read(value, place)


DEFAULT_GATEWAY_SETTINGS = GatewaySettings()

GATEWAY_KEYS: Mapping[str, Key] = {
    "linger": Key(
        ValueType(
            _read_linger,
            'duration or "forever"',
            {"anyOf": [*DURATION.schema["anyOf"], {"const": "forever"}]},
        ),
        "How long a host that `exthost gateway` started in the background stays after its last "
        "client has gone.",
        '"10m"',
        '"60s"',
    ),
    "first_list": Key(
        DURATION,
        "How long the first list of tools waits for extensions that are starting, counted from the "
        "start of the gateway.",
        '"30s"',
        '"8s"',
    ),
    "mode": Key(
        one_of("list", "search"),
        "Whether clients see every tool, or only two: one that searches, one that calls.",
        '"search"',
        '"list"',
    ),
}


def read_gateway_settings(value: Any, place: Place) -> GatewaySettings:
    """Read the section."""
    values = read_table(value, place, GATEWAY_KEYS)
    # None means that a value is wrong; its problem is already reported.
    return GatewaySettings(**{name: item for name, item in values.items() if item is not None})
