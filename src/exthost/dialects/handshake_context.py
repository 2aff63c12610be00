"""The values that a dialect may use in its handshake."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.empty_mapping import empty_mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeContext:
    """What a handshake may send to the extension, or needs in order to check its reply."""

    extension: str
    config: Any = None
    options: Mapping[str, Any] = field(default_factory=empty_mapping)
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=empty_mapping)
    host_version: str = ""
    state_folder: str = ""
    manifest: Any = None
    wire_id: str = ""
    handles: frozenset[str] = frozenset()
