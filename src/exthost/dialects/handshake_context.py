"""The values that a dialect may use in its handshake."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exthost.model.empty_mapping import empty_mapping
from exthost.model.offer import NO_OFFER, Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeContext:
    """The values that a handshake can send to the extension, or needs to check its reply.

    extension     the id of the extension in this host
    config        the value of `config` in its entry of the host's config, for the extension
    options       the value of `options` in the same entry, for the dialect
    cwd, env      the working folder and the environment variables of the process
    host_version  the host's version, as the handshake may send it; a config can change it
    state_folder  the folder in which the extension may keep its state; "" if it has none
    manifest      the manifest as the dialect parsed it; None without a manifest
    wire_id       the id that the extension uses for itself in its messages
    handles       the methods for which the host has handlers
    last_offer    the offer of the extension's last start; empty at the first one
    is_remote     whether the process connects to an extension on another machine
    """

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
    last_offer: Offer = NO_OFFER
    is_remote: bool = False
