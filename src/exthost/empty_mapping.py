"""The empty mapping that values share as a default. It is read-only."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})


def empty_mapping() -> Mapping[str, Any]:
    """Return the empty mapping: a default that a dataclass accepts."""
    return EMPTY_MAPPING
