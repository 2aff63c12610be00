"""The interface of the host behind the socket: what the verbs use of it.

`exthost.host.Host` implements it. This package lies below the host, because a host opens its own
socket.
"""

from collections.abc import Mapping
from typing import Protocol

from exthost.errors import ExthostError
from exthost.events import Bus
from exthost.extension.extension import Extension
from exthost.offer import RegisteredTool
from exthost.trace.traffic import Traffic

__all__ = ["ReloadResult", "ServedHost"]


class ReloadResult(Protocol):
    """What a reload did, by ids; `failed` are the errors of extensions that did not get ready."""

    @property
    def added(self) -> tuple[str, ...]: ...
    @property
    def changed(self) -> tuple[str, ...]: ...
    @property
    def removed(self) -> tuple[str, ...]: ...
    @property
    def failed(self) -> tuple[ExthostError, ...]: ...


class ServedHost(Protocol):
    """A host that a socket serves."""

    @property
    def events(self) -> Bus: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def extensions(self) -> tuple[Extension, ...]: ...

    @property
    def tools(self) -> Mapping[str, RegisteredTool]: ...

    def __getitem__(self, name: str, /) -> Extension: ...

    def __contains__(self, name: object, /) -> bool: ...

    async def find_tool(
        self, name: str, *, capability: str = "", ask_all: bool = False
    ) -> RegisteredTool: ...

    async def reload(self) -> ReloadResult: ...
