"""The extension side of the toy dialect `stepper`, as a third-party package adds it to the SDK."""

from collections.abc import Mapping
from typing import Any

from exthost_sdk.endpoints.endpoint import Identity
from exthost_sdk.endpoints.jsonrpc import JsonRpcEndpoint
from exthost_sdk.endpoints.sdk_dialect import SdkDialect
from exthost_sdk.serving.server import Server

GREETING = b"STEPPER\n"


class StepperEndpoint(JsonRpcEndpoint):
    """Answers `hello` with the names of the tools."""

    name = "stepper"
    supported_kinds = frozenset({"tools"})

    def __init__(self, identity: Identity, server: Server) -> None:
        super().__init__(identity, server)
        names = list(self.registry.callables)
        self.methods = {"hello": lambda id, params: self.result(id, {"tools": names})}


def _recognises(first: bytes, message: Mapping[str, Any] | None) -> bool | None:
    if len(first) < len(GREETING) and GREETING.startswith(first):
        return None
    return first.startswith(GREETING)


DIALECT = SdkDialect(StepperEndpoint, _recognises, templates=("tool",))
