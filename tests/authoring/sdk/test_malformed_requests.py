"""An extension of the SDK survives requests whose id or method is not of the required type.

Each dialect (protocol) has an endpoint, the part of the SDK that receives the host's messages as
bytes and returns the reply, or None if the reply is sent later or never.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from exthost_sdk.dialects import load_dialect
from exthost_sdk.endpoints.endpoint import Endpoint, Identity
from exthost_sdk.endpoints.mcp_exchange import parse_exchange
from exthost_sdk.serving.server import Server
from exthost_sdk.types.json_text import encode
from exthost_sdk.wire.writer import BlockingWriter

import exthost.sdk

INVALID_VALUES: tuple[object, ...] = ([], ["initialize"], {}, {"a": 1}, 7, True, None)
DIALECTS = ("morphir", "nexo", "synaps", "roder", "mcp")

# The method and the params that call the tool `slow` in each dialect.
TOOL_CALLS = {
    "morphir": ("slow", {}),
    "nexo": ("tools/call", {"name": "slow"}),
    "synaps": ("tool.call", {"name": "slow"}),
    "roder": ("tools/call", {"toolName": "slow"}),
    "mcp": ("tools/call", {"name": "slow"}),
}


@contextmanager
def running_endpoint(dialect: str) -> Iterator[Endpoint]:
    """Yield the endpoint of an extension with one tool, whose later replies go to /dev/null."""
    extension = exthost.sdk.Extension("odd", version="1.0.0")

    @extension.tool(thread=True)
    def slow() -> str:
        return "done"

    manifest = b"provides = []" if dialect == "roder" else None
    identity = Identity("odd", "1.0.0", "", extension.registry, manifest)
    fd = os.open(os.devnull, os.O_WRONLY)
    server = Server(BlockingWriter(fd))
    server.endpoint = endpoint = load_dialect(dialect).endpoint(identity, server)
    try:
        yield endpoint
        assert server.wait_until_idle(30)
    finally:
        server.close(30)
        os.close(fd)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_method_of_another_type_is_an_unknown_method(dialect: str) -> None:
    with running_endpoint(dialect) as endpoint:
        for method in INVALID_VALUES:
            reply = endpoint.receive(encode({"jsonrpc": "2.0", "id": 1, "method": method}))
            if method is None and dialect != "morphir":  # in JSON-RPC this is a response,
                assert reply is None  # and no request waits for it
            else:
                assert reply is not None and b"method not found" in reply, (method, reply)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_id_of_another_type_does_not_end_the_extension(dialect: str) -> None:
    method, params = TOOL_CALLS[dialect]
    with running_endpoint(dialect) as endpoint:
        for id in INVALID_VALUES:
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            assert isinstance(endpoint.receive(encode(message)), bytes | None)


# Numbers that JSON or Python's decoder accepts, and that a reply cannot contain.
UNREPEATABLE_NUMBERS = (
    "1e999",
    "-1e999",
    "1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "9" * 5000,
    "[1e999]",
)
REPEATABLE_NUMBERS = ("-0", "-0.0", "1.5", "9" * 4000, "1e308")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", UNREPEATABLE_NUMBERS, ids=lambda number: number[:9])
def test_a_request_with_an_id_that_no_reply_can_contain_is_reported_and_ignored(
    dialect: str, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    method, params = TOOL_CALLS[dialect]
    with running_endpoint(dialect) as endpoint:
        for name, arguments in ((method, params), ("initialize", {}), ("unknown", {})):
            # The encoder could not write such a number, so it takes the place of "@".
            message = {"jsonrpc": "2.0", "id": "@", "method": name, "params": arguments}
            text = encode(message).replace(b'"@"', number.encode())
            assert endpoint.receive(text) is None
            assert "exthost.sdk: the host sent" in capsys.readouterr().err
        assert endpoint.receive(encode({"jsonrpc": "2.0", "id": 1, "method": "unknown"}))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", REPEATABLE_NUMBERS, ids=lambda number: number[:9])
def test_the_reply_has_the_number_of_the_request_as_its_id(dialect: str, number: str) -> None:
    with running_endpoint(dialect) as endpoint:
        text = b'{"jsonrpc":"2.0","id":%b,"method":"unknown"}' % number.encode()
        reply = endpoint.receive(text)
        assert reply is not None
        payload = json.loads(reply[reply.index(b"{") :])  # after the header of some dialects
        assert payload["id"] == json.loads(number)


def test_a_progress_token_that_no_notification_can_contain_is_ignored() -> None:
    meta = json.loads('{"progressToken": 1e999}')
    assert parse_exchange({}, meta).progress_token is None


@pytest.mark.parametrize("dialect", ["nexo", "morphir"])
def test_a_program_continues_after_an_invalid_id(dialect: str) -> None:
    code = f"""
import exthost.sdk
ext = exthost.sdk.Extension("odd", version="1.0.0")
@ext.tool
def echo(text: str) -> str:
    return text
ext.run(dialect="{dialect}")
"""
    lines = b'{"jsonrpc":"2.0","id":1e999,"method":"x"}\n{"jsonrpc":"2.0","id":5,"method":"x"}\n'
    result = subprocess.run(
        [sys.executable, "-c", code], input=lines, capture_output=True, timeout=60, check=False
    )
    assert result.returncode == 0 and b"Traceback" not in result.stderr, result.stderr
    assert json.loads(result.stdout)["id"] == 5


def test_a_message_of_cigen_that_is_not_protobuf_is_reported_without_a_traceback() -> None:
    pytest.importorskip("google.protobuf")
    code = """
import exthost.sdk
ext = exthost.sdk.Extension("provider/odd")
ext.generate(lambda request: {})
ext.run(dialect="cigen")
"""
    hello, not_protobuf = b"\0\0\0\0", b"\0\0\0\x03\xff\xff\xff"
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=hello + not_protobuf,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"the input cannot be read: not a PlanRequest" in result.stderr
    assert b"Traceback" not in result.stderr
