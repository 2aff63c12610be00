"""A read-only empty mapping, which values share as the default of their fields."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})


def empty_mapping() -> Mapping[str, Any]:
    """Return the empty mapping. Dataclasses use this as a `default_factory`, because they refuse a
    mapping as a default."""
    return EMPTY_MAPPING
