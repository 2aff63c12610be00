"""Both ends of the control socket: requests, replies, and errors when the connection fails.

A running host listens on a Unix socket, through which commands such as `exthost status` reach it. A
request and its reply are lines of JSON:

    {"verb": "restart", "name": "weather"}
    {"ok": {...}}   or   {"error": {"code": "X1376", ...}}

The extension `h` is the hostile extension of the tests: `echo` returns its argument, and `keep` is
answered only after `release`.
"""

import asyncio
import errno
import json
import os
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exthost import errors
from exthost.config import Config
from exthost.errors import CallFailed, Evidence, ExthostError, Refused, SpawnFailed
from exthost.host.control import protocol
from exthost.host.control.address import lock_folder, make_private_folder, socket_paths
from exthost.host.control.client import ask
from exthost.host.control.host_lock import HostLock, lock_holder
from exthost.host.control.protocol import ControlRequest
from exthost.host.control.server import ControlServer
from exthost.host.control.socket_path import config_key
from exthost.host.control.status_report import StatusReport
from exthost.host.host import Host
from exthost.session.trace.buffer import TraceBuffer
from exthost.session.trace.record import TraceRecord
from exthost.wire.framing import Skipped
from tests.extensions.harness import HOSTILE, wait_until
from tests.host.test_host import config, entry
from tests.toys import stepper

NOT_A_REQUEST = "X1376"
NO_SOCKET_FOLDER = "X0375"
CONNECTION_LOST = "X1075"
NOT_A_REPLY = "X0675"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that other users can read, unlike the temporary folder of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="exthost-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def config_path(home: Path) -> str:
    """Return a path that no other test run uses: the name of the socket depends on it."""
    return str(home / "x.toml")


@asynccontextmanager
async def open_host(home: Path, *entries: Any) -> AsyncIterator[ControlServer]:
    host = Host.from_config(config(*entries))
    control = ControlServer(
        host, StatusReport(host), config_path(home), {"EXTHOST_HOME": str(home)}
    )
    await control.serve()
    try:
        async with host:
            yield control
    finally:
        await control.close()


async def ask_host(home: Path, verb: str, name: str = "") -> Any:
    """Send a request to the host of `home`, and return its reply."""
    environ = {"EXTHOST_HOME": str(home)}
    return await asyncio.to_thread(
        ask, config_path(home), ControlRequest(verb, name), timeout=40, environ=environ
    )


async def test_a_connection_can_send_several_requests(home: Path) -> None:
    async with open_host(home, entry("a")) as control:
        reader, writer = await asyncio.open_unix_connection(control.path, limit=2**24)
        writer.write(b'{"verb": "status", "name": "a"}\n\n{"verb": "sta')
        first = json.loads(await reader.readline())["ok"]
        writer.write(b'tus"}\n{"verb": "restart", "name": "a"}\nnonsense\n')
        again, restarted, invalid = [json.loads(await reader.readline()) for _ in range(3)]
        writer.close()
        await writer.wait_closed()
    for status in (first, again["ok"]):
        assert [extension["id"] for extension in status["extensions"]] == ["a"]
    assert restarted["ok"]["pids"] != first["extensions"][0]["pids"]
    assert invalid["error"]["code"] == NOT_A_REQUEST


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as another user")
async def test_another_user_is_refused_even_with_access_to_the_socket(home: Path) -> None:
    async with open_host(home) as control:
        control.path.parent.chmod(0o755)
        control.path.chmod(0o666)
        connection = socket.socket(socket.AF_UNIX)
        os.seteuid(65534)
        try:
            connection.connect(str(control.path))
        finally:
            os.seteuid(0)
        with connection:
            reader, writer = await asyncio.open_unix_connection(sock=connection)
            report = json.loads(await reader.readline())
            assert await reader.read() == b""
            writer.close()
    assert report["error"]["code"] == "X0376"  # the client is another user


async def test_a_client_that_sends_no_complete_request_is_disconnected(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.host.control.server_connection.IDLE_SECONDS", 0.1)
    async with open_host(home) as control:
        reader, writer = await asyncio.open_unix_connection(control.path, limit=2**24)
        writer.write(b'{"verb": ')
        assert await reader.read() == b""
        writer.close()


async def test_closing_disconnects_clients_and_removes_the_socket(home: Path) -> None:
    async with open_host(home) as control:
        reader, writer = await asyncio.open_unix_connection(control.path, limit=2**24)
        writer.write(b'{"verb": "status"}\n')
        assert b"ok" in await reader.readline()
    assert await reader.read() == b""
    writer.close()
    assert not await asyncio.to_thread(lambda: list(control.path.parent.iterdir()))


async def test_the_first_usable_folder_is_used(home: Path) -> None:
    (home / "run").write_text("a file, not a folder")
    async with open_host(home) as control:
        assert control.path.parent == Path(f"/tmp/exthost-{os.geteuid()}")
        assert (await ask_host(home, "status"))["extensions"] == []


async def test_without_a_usable_folder_the_server_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "run").write_text("a file, not a folder")
    path = home / "run" / "x.sock"
    monkeypatch.setattr("exthost.host.control.host_lock.socket_paths", lambda *_: (path,))
    host = Host()
    with pytest.raises(Refused) as caught:
        ControlServer(host, StatusReport(host), "x.toml", {})
    assert caught.value.code == NO_SOCKET_FOLDER and str(path.parent) in caught.value.message


async def test_a_full_disk_is_an_error_only_if_the_socket_cannot_be_created(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.pwrite", fail)  # the pid in the lock file, which can be missing
    async with open_host(home):
        assert (await ask_host(home, "hello"))["pid"] == os.getpid()
    monkeypatch.setattr("exthost.host.control.server._bind", fail)
    host = Host()
    with pytest.raises(Refused) as caught:
        ControlServer(host, StatusReport(host), config_path(home), {"EXTHOST_HOME": str(home)})
    assert caught.value.code == NO_SOCKET_FOLDER and "No space left" in caught.value.message


# -- the client -------------------------------------------------------------------------------


@contextmanager
def fake_host(home: Path, answer: bytes) -> Iterator[None]:
    """Listen on the socket of a host, send this answer to the first client and disconnect it."""
    path = socket_paths(config_path(home), {"EXTHOST_HOME": str(home)})[0]
    make_private_folder(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(40)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join(40)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", CONNECTION_LOST),
        (b'{"ok": ', CONNECTION_LOST),
        (b"220 smtp.example\r\n", NOT_A_REPLY),
        (b"[]\n", NOT_A_REPLY),
        (b'{"error": 7}\n', NOT_A_REPLY),
        (b'{"error": {}}\n', ""),
        (b'{"error": {"code": "X9", "kind": "Evidence", "evidence": [1]}}\n', "X9"),
    ],
)
def test_invalid_answers_of_another_program_are_exthost_errors(
    home: Path, answer: bytes, code: str
) -> None:
    with fake_host(home, answer), pytest.raises(ExthostError) as caught:
        ask(
            config_path(home),
            ControlRequest("status"),
            timeout=40,
            environ={"EXTHOST_HOME": str(home)},
        )
    assert caught.value.code == code


def test_an_error_is_transferred_completely() -> None:
    evidence = Evidence(argv=("a", "b"), exit="exited with 3", stderr=("x", "y"), line=7)
    error = SpawnFailed("X0401", "no", extension="e", help="do", evidence=evidence)
    with pytest.raises(SpawnFailed) as caught:
        protocol.read_outcome(protocol.encode_failure(error))
    assert caught.value.as_dict() == error.as_dict()


@pytest.mark.parametrize("kind", [name for name in errors.__all__ if name != "Evidence"])
def test_every_kind_of_error_can_be_transferred(kind: str) -> None:
    error = getattr(errors, kind)("X0001", "m")
    with pytest.raises(getattr(errors, kind)) as caught:
        protocol.read_outcome(protocol.encode_failure(error))
    assert type(caught.value) is getattr(errors, kind)


@pytest.mark.parametrize(
    "message",
    [
        b"[]",
        b"{}",
        b"\xff",
        b'{"verb": []}',
        b'{"verb": "fly"}',
        b'{"verb": "status", "id": "1"}',
        b'{"verb": "status", "params": []}',
        b'{"verb": "cancel"}',
        b'{"verb": "inspect"}',
        b'{"verb": "stop"}',
        b'{"verb": "stop", "name": ""}',
        b'{"verb": "status", "name": 1}',
        Skipped("too long", b"x", 1),
    ],
)
def test_a_message_that_is_not_a_request_is_reported(message: Any) -> None:
    with pytest.raises(errors.UsageError) as caught:
        protocol.read_request(message)
    assert caught.value.code == NOT_A_REQUEST


# -- calls over the socket -------------------------------------------------------------------


async def connect_and_send(control: ControlServer, *lines: dict[str, Any]) -> "RawClient":
    """Connect to the host, and send these requests."""
    reader, writer = await asyncio.open_unix_connection(control.path, limit=2**24)
    for message in lines:
        writer.write(json.dumps(message).encode() + b"\n")
    return RawClient(reader, writer)


class RawClient(NamedTuple):
    """A connection to the host, on which a test writes the lines itself."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def next(self) -> Any:
        async with asyncio.timeout(40):
            return json.loads(await self.reader.readline())


def call_request(id: int, name: str, method: str, arguments: Any = None) -> dict[str, Any]:
    params = {"method": method, "arguments": arguments}
    return {"verb": "call", "name": name, "id": id, "params": params}


async def test_requests_with_an_id_are_answered_in_any_order_and_can_be_cancelled(
    home: Path,
) -> None:
    hostile = entry("h", str(HOSTILE))
    async with open_host(home, hostile) as control:
        client = await connect_and_send(
            control, call_request(1, "h", "keep", 1), call_request(2, "h", "keep", 2)
        )
        client.writer.write(json.dumps(call_request(3, "h", "echo", 3)).encode() + b"\n")
        third = await client.next()
        assert (third["id"], third["ok"]["raw"]) == (3, 3)
        client.writer.write(b'{"verb": "cancel", "id": 1}\n')
        client.writer.write(json.dumps(call_request(4, "h", "release")).encode() + b"\n")
        other_replies = [await client.next(), await client.next()]
        assert sorted(reply["id"] for reply in other_replies) == [2, 4]
        client.writer.close()


async def test_progress_is_sent_before_the_reply(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(stepper.installed(tmp_path))
    host = Host(Config(specs=(stepper.spec("climber"),)))
    control = ControlServer(
        host, StatusReport(host), config_path(home), {"EXTHOST_HOME": str(home)}
    )
    await control.serve()
    params = {"tool": "climb", "arguments": {"steps": 2}, "progress": True}
    try:
        async with host:
            client = await connect_and_send(
                control, {"verb": "call", "name": "climber", "id": 1, "params": params}
            )
            reports = [await client.next() for _ in range(3)]
            client.writer.close()
    finally:
        await control.close()
    assert [report["event"]["message"] for report in reports[:2]] == ["step 1", "step 2"]
    assert reports[2]["ok"]["raw"] == {"climbed": 2}


async def test_a_client_that_does_not_read_loses_only_its_own_calls(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.host.control.server_connection.UNREAD_SECONDS", 0.2)
    async with open_host(home, entry("h", str(HOSTILE))) as control:
        not_reading = await connect_and_send(control, call_request(1, "h", "keep", 1))
        not_reading.writer.transport.pause_reading()  # type: ignore[attr-defined]
        # The replies to its calls, 8 MiB in all, do not fit into the buffers of the socket.
        other = await connect_and_send(control, call_request(1, "h", "keep", "other"))
        for number in range(2, 10):
            message = json.dumps(call_request(number, "h", "echo", "x" * 2**20)).encode() + b"\n"
            not_reading.writer.write(message)
        await wait_until(lambda: len(control._clients) == 1)
        other.writer.write(json.dumps(call_request(2, "h", "release")).encode() + b"\n")
        replies = [await other.next() for _ in range(2)]
        assert {reply["id"]: reply["ok"]["raw"] for reply in replies}[1] == "other"
        not_reading.writer.close()
        other.writer.close()


async def test_a_tracer_that_does_not_read_gets_the_number_of_dropped_records(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exthost.host.control.server_connection.UNREAD_SECONDS", 0.01)
    monkeypatch.setattr("exthost.host.control.requests.TraceBuffer", lambda: TraceBuffer(100))
    async with open_host(home, entry("h", str(HOSTILE))) as control:
        host, traced_records = control.requests._host, list[TraceRecord]()
        tracer = await connect_and_send(control, {"verb": "trace", "id": 1})
        assert (await tracer.next())["event"]["records"] == []
        host.traffic.subscribe(traced_records.append)
        tracer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(10):  # much more than the socket and the buffer can contain
            calls = [host["h"].call("echo", "x" * 4096) for _ in range(50)]
            assert len(await asyncio.gather(*calls)) == 50  # no call waits for the tracer
        tracer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        records = dropped = 0
        while records + dropped < len(traced_records):
            event = (await tracer.next())["event"]
            records, dropped = records + len(event["records"]), dropped + event["dropped"]
        assert records + dropped == len(traced_records) and dropped > 0 and records >= 100
        tracer.writer.close()


@pytest.mark.parametrize(
    "params", [{}, {"tool": "a", "method": "b"}], ids=["nothing to call", "two things"]
)
async def test_a_call_without_exactly_one_tool_or_method_is_reported(
    home: Path, params: dict[str, Any]
) -> None:
    async with open_host(home, entry("a")) as control:
        client = await connect_and_send(control, {"verb": "call", "name": "a", "params": params})
        assert (await client.next())["error"]["code"] == NOT_A_REQUEST
        client.writer.close()


def test_an_error_of_an_extension_is_transferred_with_its_code_and_data() -> None:
    error = CallFailed("X0701", "no", error_code=-3, error_message="why", data={"a": [1]})
    with pytest.raises(CallFailed) as caught:
        protocol.read_outcome(protocol.encode_failure(error))
    assert caught.value.as_dict() == error.as_dict()
    assert (caught.value.error_code, caught.value.data) == (-3, {"a": [1]})


def test_a_value_that_json_cannot_express_becomes_an_error_reply() -> None:
    message = protocol.read_line(protocol.encode_success(object(), 7))
    assert message.id == 7 and message.error is not None and message.error.code == "X1302"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_folder_without_locks_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), "EXTHOST_HOME": str(tmp_path)}
    with pytest.raises(errors.Refused) as caught:
        HostLock(str(tmp_path / "exthost.toml"), environ)
    assert caught.value.code == "X0375" and os.strerror(number) in caught.value.message


def test_the_error_names_a_host_whose_socket_is_missing(tmp_path: Path) -> None:
    config = str(tmp_path / "exthost.toml")
    other_environ = {"XDG_RUNTIME_DIR": str(tmp_path), "EXTHOST_HOME": str(tmp_path)}
    with HostLock(config, other_environ):  # a lock without a socket
        for environ in (os.environ, other_environ):
            with pytest.raises(errors.NotFound) as caught:
                ask(config, ControlRequest("status"), timeout=10, environ=environ)
            assert caught.value.code == "X1277"  # a host runs, and its socket is elsewhere
            assert f"process {os.getpid()}" in caught.value.message
            assert f"kill -TERM {os.getpid()}" in caught.value.help
        # Reading the holder does not lock the file, so a host can start at the same time.
        assert lock_holder(config) == os.getpid()
    assert lock_holder(config) is None
    # A FIFO of another user in this folder does not block the reader.
    fifo = lock_folder() / f"{config_key(config)}.lock"
    os.mkfifo(fifo)
    try:
        assert lock_holder(config) is None
    finally:
        fifo.unlink()
    # The file of a killed host has its pid, but is not locked.
    left_over = lock_folder() / f"{config_key(config)}.lock"
    left_over.write_text(f"{os.getpid()}\n")
    try:
        with pytest.raises(errors.NotFound) as caught:
            ask(config, ControlRequest("status"), timeout=10)
        assert caught.value.code == "X1275"  # no host runs
    finally:
        left_over.unlink()
