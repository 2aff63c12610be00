"""Private extensions: copies of an extension of a host, each for one client of a gateway.

A gateway serves the tools of a host to several clients. If an extension keeps state, the clients
must not share its processes. So each client gets a private extension. It has the spec (the
configuration) and the id of the listed extension, which other callers use, and separate processes.
It is not in the registry, and publishes its events on a bus of its own. When the host closes, it
ends the private extensions, too.
"""

from collections.abc import Mapping
from dataclasses import replace

from exthost.errors import ExthostError
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.host.host import Host
from exthost.model.spec import KnownOffer
from exthost.session.inbound import Handler


class PrivateExtensions:
    """Creates and ends the private extensions of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def add(self, listed: Extension, bus: Bus, handlers: Mapping[str, Handler]) -> Extension:
        """Create an extension beside a listed one. It starts at its first call."""
        known = KnownOffer(listed.offer, defers_start=True)
        spec = replace(listed.spec, known_offer=known)
        host = self._host
        return host._extensions.add_private(spec, host._factory, bus, handlers)

    async def remove(self, extension: Extension) -> None:
        """End a private extension."""
        await self._host._extensions.remove_private(extension)

    async def renew(self, listed: Extension) -> None:
        """Replace a listed extension by one whose process starts at its first call, and which has
        the same offer until then. The processes of the old one end."""
        known = KnownOffer(listed.offer, defers_start=True)
        spec = replace(listed.spec, known_offer=known)
        extensions = self._host._extensions
        try:
            await extensions.replace(spec, "", self._host._factory)
        except ExthostError:
            if not extensions.is_closing:  # a host that is closing ends the processes itself
                raise

    def record_request(self, listed: Extension) -> None:
        """Remember that an extension has sent a request to its client."""
        if self._host._known_offers is not None:
            self._host._known_offers.record_request(listed.spec, listed.offer)
