"""Requests whose id or method is not of the type that the dialect defines."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import exthost.sdk
from exthost.sdk.dialects import load_endpoint_class
from exthost.sdk.dialects.endpoint import Endpoint, Identity
from exthost.sdk.serving.server import Server
from exthost.sdk.types.json_text import encode
from exthost.sdk.wire.writer import BlockingWriter

UNUSUAL: tuple[object, ...] = ([], ["initialize"], {}, {"a": 1}, 7, True, None)
DIALECTS = ("morphir", "nexo", "synaps", "roder", "mcp")

TOOL_CALLS = {
    "morphir": ("slow", {}),
    "nexo": ("tools/call", {"name": "slow"}),
    "synaps": ("tool.call", {"name": "slow"}),
    "roder": ("tools/call", {"toolName": "slow"}),
    "mcp": ("tools/call", {"name": "slow"}),
}


@contextmanager
def running_endpoint(dialect: str) -> Iterator[Endpoint]:
    extension = exthost.sdk.Extension("odd", version="1.0.0")

    @extension.tool(thread=True)
    def slow() -> str:
        return "done"

    manifest = b"provides = []" if dialect == "roder" else None
    identity = Identity("odd", "1.0.0", "", extension.registry, manifest)
    fd = os.open(os.devnull, os.O_WRONLY)
    server = Server(BlockingWriter(fd))
    server.endpoint = endpoint = load_endpoint_class(dialect)(identity, server)
    try:
        yield endpoint
        assert server.wait_until_idle(30)
    finally:
        server.close(30)
        os.close(fd)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_method_of_another_type_is_an_unknown_method(dialect: str) -> None:
    with running_endpoint(dialect) as endpoint:
        for method in UNUSUAL:
            reply = endpoint.receive(encode({"jsonrpc": "2.0", "id": 1, "method": method}))
            if method is None and dialect != "morphir":  # JSON-RPC: a message without a method
                assert reply is None  # is a response, and no request waits for it
            else:
                assert reply is not None and b"method not found" in reply, (method, reply)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_id_of_another_type_does_not_end_the_extension(dialect: str) -> None:
    method, params = TOOL_CALLS[dialect]
    with running_endpoint(dialect) as endpoint:
        for id in UNUSUAL:
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            assert isinstance(endpoint.receive(encode(message)), bytes | None)
