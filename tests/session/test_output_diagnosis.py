"""Finding the fault in the first output of an extension whose handshake makes no progress.

An author of an extension makes typical mistakes in its first reply, such as a wrong id. The host
would wait for the reply until the time limit of the handshake. Instead, `diagnose_output` examines
the output after a quiet time, and the error names the mistake. It gets the ids of the requests that
the host has sent.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

import exthost
from exthost.dialects.find import find_dialect
from exthost.errors import HandshakeFailed
from exthost.session import handshake
from exthost.session.output_diagnosis import diagnose_output


@pytest.mark.parametrize(
    ("dialect", "output", "message"),
    [
        ("morphir", b'{"id":100,"result":1}\n', "the id 100, which no request had"),
        ("morphir", b'{"id":"0","result":1}\n', "the request has the id 0"),
        ("morphir", b"{'id': 0}\n", "Python's notation"),
        ("morphir", b'{"id":0,"result":1}', "no newline at the end"),
        ("morphir", '{"id":0}\n'.encode("utf-16"), "the output is UTF-16"),
        ("nexo", b'{\n  "id": 0\n}\n', "a part of a message"),
        ("synaps", b"Content-Length: 9\r\n\r\n{}", "its output stops after 2 of 9 bytes"),
        (
            "roder",
            b'{"jsonrpc":"2.0","id":77,"result":1}\n',
            "its output breaks the rule: A response has the id of the request",
        ),
        ("roder", b'{"jsonrpc"', "its output breaks the rule: A frame is complete and its length"),
        ("cigen", b"\0\0\0\x09abc", "stops"),
    ],
)
def test_a_fault_is_found_in_the_output(dialect: str, output: bytes, message: str) -> None:
    ids_of_requests = range(2)
    diagnosis = diagnose_output(find_dialect(dialect), output, ids_of_requests)
    assert diagnosis is not None and message in diagnosis.message and diagnosis.help


def test_the_help_is_about_the_mistake_not_the_rule() -> None:
    output = b'{"id":0,"method":"initialize","result":{}}\n'
    diagnosis = diagnose_output(find_dialect("morphir"), output, range(2))
    assert diagnosis is not None and "omit `method` and `params`" in diagnosis.help


@pytest.mark.parametrize(
    "output",
    [
        b'{"id":0,"result":"' + b"x" * 1006,
        b"",
        b"starting\n",
        b'{"level":"info"}\n',
        b'{"id":0,"result":{}}\n',
        b'{"method":"log"}\n',
    ],
)
def test_usual_output_during_a_start_is_not_a_fault(output: bytes) -> None:
    assert diagnose_output(find_dialect("morphir"), output, range(2)) is None


@pytest.mark.parametrize(
    "output",
    [
        b'[{"jsonrpc":"2.0","id":1,"result":{}}]\n',
        b'{"jsonrpc":"2.0","id":1.0,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":"1","result":{}}\n',
        b'{"jsonrpc":"2.0","id":null,"method":"notifications/message","result":null}\n',
    ],
)
def test_output_that_the_host_accepts_is_not_a_fault(output: bytes) -> None:
    """The handshake may be waiting for the reply to the next request."""
    assert diagnose_output(find_dialect("mcp"), output, range(3)) is None


def test_a_reply_with_a_method_is_a_fault() -> None:
    output = b'{"jsonrpc":"2.0","id":1,"method":"initialize","result":{}}\n'
    diagnosis = diagnose_output(find_dialect("mcp"), output, range(3))
    assert diagnosis is not None and "a response has a method as well" in diagnosis.message


# An extension that prints stray lines, and answers its first request when the test opens the FIFO.
SLOW_PROGRAM = """
import json, sys
print("loading {")
print(json.dumps({"level": "info", "msg": "starting"}))
print("{", flush=True)
for number, line in enumerate(sys.stdin):
    if number == 0:
        open("gate").read()  # until the test has opened and closed it
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "result": []}), flush=True)
"""


async def test_a_slow_program_with_stray_output_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "_QUIET_SECONDS", 0.02)
    (tmp_path / "slow.py").write_text(SLOW_PROGRAM)
    command = [sys.executable, "-S", "slow.py"]

    os.mkfifo(tmp_path / "gate")

    def open_gate() -> None:
        with (tmp_path / "gate").open("w"):
            time.sleep(0.2)  # ten times _QUIET_SECONDS, after which a fault ends the handshake

    task = asyncio.ensure_future(asyncio.to_thread(open_gate))
    async with exthost.connect(command, dialect="morphir", cwd=str(tmp_path)) as ext:
        assert not ext.tools
    await task


async def test_a_handshake_with_a_fault_in_the_output_ends_before_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "_QUIET_SECONDS", 0.02)
    (tmp_path / "wrong.py").write_text(
        'import sys\nfor line in sys.stdin: print(\'{"id": 7, "result": []}\', flush=True)\n'
    )
    command = [sys.executable, "-S", "wrong.py"]
    with pytest.raises(HandshakeFailed) as caught:
        async with exthost.connect(
            command, dialect="morphir", cwd=str(tmp_path), limits={"handshake": "150s"}
        ):
            pass
    # X0508: the output is not a reply
    assert caught.value.code == "X0508" and "the id 7" in caught.value.message
