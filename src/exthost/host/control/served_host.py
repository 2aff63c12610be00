"""The interface of the host that the control server needs.

The control server answers the requests that other processes send to a running host over a Unix
socket. `exthost.host.Host` implements the interface. The server does not import `Host`, because
`Host` imports the server to open its own socket.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from exthost.errors import ExthostError
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.host.ruled_calls import RuledCalls
from exthost.model.offer import RegisteredTool
from exthost.session.trace.traffic import Traffic


class ReloadOutcome(NamedTuple):
    """The ids that a reload added, changed and removed, and the errors of the extensions that did
    not get ready (`failed`)."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failed: tuple[ExthostError, ...] = ()


class ServedHost(Protocol):
    """A host that clients reach by the control socket."""

    @property
    def events(self) -> Bus: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def rules(self) -> RuledCalls: ...

    @property
    def extensions(self) -> tuple[Extension, ...]: ...

    @property
    def tools(self) -> Mapping[str, RegisteredTool]: ...

    def __getitem__(self, name: str, /) -> Extension: ...

    def __contains__(self, name: object, /) -> bool: ...

    async def find_tool(
        self, name: str, *, capability: str = "", ask_all: bool = False
    ) -> RegisteredTool: ...

    async def reload(self) -> ReloadOutcome: ...
