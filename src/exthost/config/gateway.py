"""Reads the section `[gateway]`: how the gateway serves its clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exthost.model.documents.keys import DURATION, Key, one_of
from exthost.model.documents.problems import Place
from exthost.model.documents.readers import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """The settings of `[gateway]`.

    first_list  how many seconds after the start of the gateway the first list of tools is answered
                at the latest
    mode        "list" if clients see every tool, "search" if they search for tools
    """

    first_list: float = 8.0
    mode: str = "list"


DEFAULT_GATEWAY_SETTINGS = GatewaySettings()

GATEWAY_KEYS: Mapping[str, Key] = {
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
