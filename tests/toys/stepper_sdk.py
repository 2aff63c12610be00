"""The extension side of the toy dialect `stepper`, as a third-party package adds it to the SDK.

A dialect is the protocol that an extension speaks. With an SdkDialect, programs that are written
with the SDK can speak it: `program.py --dialect stepper`, or by itself if the first bytes from the
host are the greeting of the dialect.
"""

from collections.abc import Mapping
from typing import Any

from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.endpoints.jsonrpc import JsonRpcEndpoint
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.serving.server import Server

GREETING = b"STEPPER\n"


class StepperEndpoint(JsonRpcEndpoint):
    """Speaks the dialect, for an extension that has only tools. It answers `hello`, the handshake,
    with their names."""

    name = "stepper"
    supported_kinds = frozenset({"tools"})

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        names = list(self.registry.callables)
        self.methods = {"hello": lambda id, params: self.result(id, {"tools": names})}


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool | None:
    """Return whether the input of the program begins with the greeting; None if more bytes are
    needed to decide."""
    if len(first) < len(GREETING) and GREETING.startswith(first):
        return None
    return first.startswith(GREETING)


# `exthost new --dialect stepper` can write a project with a tool.
DIALECT = SdkDialect(StepperEndpoint, _recognises, templates=("tool",))
