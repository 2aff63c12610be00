"""Trials of `permissions.network` as a list: an extension that is allowed one host reaches that
host, and nothing else by any of these attacks.

A trial is a test of a promise of SECURITY.md. `@trial` registers it, and it runs once as root and
once as an ordinary user. The extension has a network of its own, with only a listener at port 3128.
The first process of the sandbox (init) passes its connections through a socket pair, the channel,
to a proxy of exthost outside. The attacks run in the extension: `run(extension, code, **facts)`
gives the code the functions of CLIENT and the dict `facts`, and returns what the code stores in
`result`.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from exthost.events import Bus, NetworkProxyEnded, NetworkRefused
from exthost.extension.extension import Extension
from tests.sandbox.confined import explore, shared_folder, started_explorer
from tests.sandbox.network import SOCKETS
from tests.sandbox.trials import trial

WAIT_SECONDS = 20.0

# The beginning of every piece of code. `ask` sends data to the proxy and returns the whole reply,
# `begin` its first bytes, and `connect` the status of a CONNECT request. `outcome` returns the
# result of a function as text, or its error.
CLIENT = """
import errno, os, socket
def ask(data, port=3128):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        reply = b""
        try:
            client.shutdown(socket.SHUT_WR)
            while more := client.recv(65536):
                reply += more
        except OSError:
            pass
        return reply.decode("latin-1")
def begin(data, length):
    with socket.create_connection(("127.0.0.1", 3128), timeout=20) as client:
        client.sendall(data)
        reply = b""
        while len(reply) < length and (more := client.recv(length - len(reply))):
            reply += more
        return reply
def connect(target):
    return begin(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode(), 12)[9:].decode()
def outcome(work):
    try:
        return str(work())
    except Exception as error:
        return f"{type(error).__name__} {getattr(error, 'errno', '')}"
"""


class Canary:
    """A server of the host that an extension must not reach."""

    def __init__(self, family: int, address: Any, kind: int = socket.SOCK_STREAM) -> None:
        self.socket = socket.socket(family, kind)
        self.socket.bind(address)
        if kind == socket.SOCK_STREAM:
            self.socket.listen(64)
        self.socket.setblocking(False)

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    def check_silence(self) -> None:
        """Raise AssertionError if something has arrived."""
        with contextlib.suppress(BlockingIOError):
            if self.socket.type == socket.SOCK_STREAM:
                raise AssertionError(f"a connection arrived: {self.socket.accept()}")
            raise AssertionError(f"a datagram arrived: {self.socket.recv(99)!r}")


@contextlib.contextmanager
def canary(
    family: int = socket.AF_INET, address: Any = ("127.0.0.1", 0), kind: int = socket.SOCK_STREAM
) -> Iterator[Canary]:
    server = Canary(family, address, kind)
    with server.socket:
        yield server
        server.check_silence()


@contextlib.contextmanager
def allowed_server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        server.settimeout(WAIT_SECONDS)
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


@contextlib.asynccontextmanager
async def allowed_one(
    events: Bus | None = None, **permissions: Any
) -> AsyncIterator[tuple[Extension, socket.socket]]:
    """Yield an explorer (an extension that runs the code which it is sent) that may reach one
    server, and that server."""
    with allowed_server() as server:
        grants = {"network": [f"localhost:{port_of(server)}"], **permissions}
        async with started_explorer(permissions=grants, events=events) as ext:
            yield ext, server


async def run(extension: Extension, code: str, **facts: Any) -> Any:
    return await explore(extension, CLIENT + code, **facts)


@trial
async def an_allowed_host_is_reached_by_connect_socks_and_plain_http() -> None:
    async with allowed_one() as (ext, server):
        port = port_of(server)
        code = """
port = facts["port"]
result = [
    connect(f"localhost:{port}"), connect(f"LOCALHOST.:{port}"), connect(f"127.0.0.1:{port}"),
    connect(f"[::ffff:127.0.0.1]:{port}"),
    # SOCKS 5, by name. After the two bytes of the greeting, 5 and 0 mean success.
    list(begin(b"\\5\\1\\0\\5\\1\\0\\3\\x09localhost" + port.to_bytes(2, "big"), 4)[2:]),
]
with socket.create_connection(("127.0.0.1", 3128), timeout=20) as client:
    client.sendall(f"GET http://localhost:{port}/ HTTP/1.1\\r\\n\\r\\n".encode())
"""
        reached = await run(ext, code, port=port)
        assert reached == ["200", "200", "200", "200", [5, 0]], reached
        for _ in range(4 + 1 + 1):  # CONNECT, SOCKS and GET
            server.accept()[0].close()
        assert ext.enforced["network"] == "netns+seccomp+proxy"
        assert ext.enforced["hosts"] == [f"localhost:{port}"]


@trial
async def a_direct_connection_does_not_leave_the_sandbox() -> None:
    with (
        canary() as tcp,
        canary(kind=socket.SOCK_DGRAM) as udp,
        canary(socket.AF_INET6, ("::1", 0)) as tcp6,
    ):
        async with allowed_one() as (ext, server):
            code = """
def open_tcp(host, port):
    return socket.create_connection((host, port), timeout=9)
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"x", ("127.0.0.1", facts["udp"]))
result = {
    "tcp": outcome(lambda: open_tcp("127.0.0.1", facts["tcp"])),
    "tcp6": outcome(lambda: open_tcp("::1", facts["tcp6"])),
    "allowed": outcome(lambda: open_tcp("127.0.0.1", facts["allowed"])),
    "public": outcome(lambda: open_tcp("1.1.1.1", 443)),
    "name": outcome(lambda: socket.getaddrinfo("example.com", 443)),
}
udp()  # nobody answers, but the canary checks that nothing arrives
"""
            facts = {"tcp": tcp.port, "tcp6": tcp6.port, "udp": udp.port}
            outcomes = await run(ext, code, allowed=port_of(server), **facts)
            # Also "gaierror". Without the Internet, "public" and "name" would fail in any case.
            assert all("rror" in text for text in outcomes.values()), outcomes


@trial
async def no_other_host_or_port_is_reached_by_connect() -> None:
    with canary() as other:
        async with allowed_one() as (ext, server):
            code = """
port, other = facts["port"], facts["other"]
hosts = ["example.com", "127.0.0.2", "localhost.example.com", "1.1.1.1", "[::2]", "169.254.169.254"]
result = {f"{host}:{port}": connect(f"{host}:{port}") for host in hosts}
result["other port"] = connect(f"localhost:{other}")
result["other address"] = connect(f"127.0.0.1:{other}")
"""
            outcomes = await run(ext, code, port=port_of(server), other=other.port)
            assert set(outcomes.values()) == {"403"}, outcomes


@trial
async def no_spelling_of_this_machine_reaches_another_port() -> None:
    with canary() as other:
        async with allowed_one() as (ext, _):
            code = """
forms = ["127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "[::1]",
         "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "0", "0.0.0.0", "[::]",
         "localhost.", "LOCALHOST", "localhost%00", "127。0。0。1", "xn--localhost",
         "[fe80::1%25lo]"]
result = {form: connect(f"{form}:{facts['other']}") for form in forms}
"""
            outcomes = await run(ext, code, other=other.port)
            assert set(outcomes.values()) <= {"403", "400"}, outcomes


@trial
async def no_other_host_port_or_command_is_allowed_by_socks() -> None:
    with canary() as other:
        async with allowed_one() as (ext, server):
            code = """
other, port = facts["other"].to_bytes(2, "big"), facts["port"].to_bytes(2, "big")
local = b"\\x7f\\0\\0\\1"
requests = {
    "address": b"\\5\\1\\0\\1" + local + other,
    "name": b"\\5\\1\\0\\3\\x09localhost" + other,
    "ipv6": b"\\5\\1\\0\\4" + bytes(15) + b"\\1" + other,
    "mapped": b"\\5\\1\\0\\4" + bytes(10) + b"\\xff\\xff" + local + other,
    "host": b"\\5\\1\\0\\1\\x7f\\0\\0\\2" + port,
    "host name": b"\\5\\1\\0\\3\\x0bexample.com" + port,
    "bind": b"\\5\\2\\0\\1" + local + port,
    "udp": b"\\5\\3\\0\\1" + local + port,
}
result = {name: ask(b"\\5\\1\\0" + data).encode("latin-1")[3] for name, data in requests.items()}
result["socks4"] = ask(b"\\4\\1" + other + local + b"\\0")
"""
            outcomes = await run(ext, code, other=other.port, port=port_of(server))
            # The second byte of a reply of SOCKS 4 would be 0x5a for a success.
            assert outcomes.pop("socks4")[1:2] != "\x5a"
            # SOCKS: 2 is "not allowed", 7 "command not supported".
            assert (outcomes.pop("bind"), outcomes.pop("udp")) == (7, 7)
            assert set(outcomes.values()) == {2}, outcomes


@trial
async def a_plain_request_goes_to_the_host_of_its_url_and_a_second_one_is_dropped() -> None:
    with canary() as other:
        async with allowed_one() as (ext, server):
            code = """
port, other = facts["port"], facts["other"]
second = f"GET http://localhost:{other}/ HTTP/1.1\\r\\n\\r\\n"
client = socket.create_connection(("127.0.0.1", 3128), timeout=20)
head = f"GET http://localhost:{port}/ HTTP/1.1\\r\\nHost: localhost:{other}\\r\\n\\r\\n"
client.sendall((head + second).encode())
client.shutdown(socket.SHUT_WR)
result = {
    "url": ask(f"GET http://localhost:{other}/ HTTP/1.1\\r\\n\\r\\n".encode())[9:12],
    "user": ask(f"GET http://a:{port}@localhost:{other}/ HTTP/1.1\\r\\n\\r\\n".encode())[9:12],
    "path": ask(f"GET / HTTP/1.1\\r\\nHost: localhost:{other}\\r\\n\\r\\n".encode())[9:12],
}
"""
            outcomes = await run(ext, code, port=port_of(server), other=other.port)
            assert set(outcomes.values()) <= {"403", "400"}, outcomes
            connection = server.accept()[0]
            with connection:
                connection.settimeout(WAIT_SECONDS)
                received = b"".join(iter(lambda: connection.recv(65536), b""))
            assert received.startswith(b"GET / HTTP/1.1\r\n"), received
            assert str(other.port).encode() not in received, received


@trial
async def a_head_that_can_be_read_in_two_ways_is_refused() -> None:
    with canary() as other:
        async with allowed_one() as (ext, server):
            code = """
port, other = facts["port"], facts["other"]
hidden = f"CONNECT localhost:{other} HTTP/1.1\\r\\n\\r\\n"
heads = [
    f"CONNECT localhost:{port} HTTP/1.1\\r\\nContent-Length: {len(hidden)}\\r\\n\\r\\n{hidden}",
    f"CONNECT localhost:{port} HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n{hidden}",
    f"CONNECT localhost:{port} HTTP/1.1\\nHost: a\\n\\n{hidden}",
    f"CONNECT localhost:{port}@localhost:{other} HTTP/1.1\\r\\n\\r\\n",
    f"CONNECT localhost:{port}\\tlocalhost:{other} HTTP/1.1\\r\\n\\r\\n",
    f"CONNECT localhost:{other}#localhost:{port} HTTP/1.1\\r\\n\\r\\n",
    f"GET http://localhost:{port}\\\\@localhost:{other}/ HTTP/1.1\\r\\n\\r\\n",
    f"GET http://localhost:{port}/ HTTP/1.1\\r\\nA: b\\r\\n C: d\\r\\n\\r\\n",
]
result = [ask(head.encode())[9:12] for head in heads]
"""
            outcomes = await run(ext, code, port=port_of(server), other=other.port)
            assert set(outcomes) == {"400"}, outcomes


@trial
async def a_name_that_leads_to_this_machine_is_refused_although_it_is_in_the_list() -> None:
    # Only the name localhost, or an address, grants this machine.
    name = socket.gethostname().lower()
    with canary(address=("0.0.0.0", 0)) as other:
        grants = {"network": [f"{name}:{other.port}"]}
        async with started_explorer(permissions=grants) as ext:
            status = await run(
                ext, "result = connect(facts['target'])", target=f"{name}:{other.port}"
            )
            assert status in ("403", "502"), status  # 502: this machine does not know its own name


@trial
async def unix_sockets_of_the_host_are_not_reached() -> None:
    with shared_folder() as place:
        abstract = f"\0{uuid.uuid4().hex}"
        path, datagrams = str(place / "stream"), str(place / "datagrams")
        with (
            canary(socket.AF_UNIX, path),
            canary(socket.AF_UNIX, datagrams, socket.SOCK_DGRAM),
            canary(socket.AF_UNIX, abstract),
        ):
            for name in ("stream", "datagrams"):
                Path(place, name).chmod(0o777)
            async with allowed_one(filesystem=[f"{place}:rw"]) as (ext, _):
                code = """
pair = socket.socketpair()
result = {
    "stream": outcome(lambda: socket.socket(socket.AF_UNIX).connect(facts["path"])),
    "datagram": outcome(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "abstract": outcome(lambda: socket.socket(socket.AF_UNIX).connect(facts["abstract"])),
    "pair of datagrams": outcome(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "raw pair": outcome(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)),
    "pair to path": outcome(lambda: pair[0].connect(facts["path"])),
    "pair to datagrams": outcome(lambda: pair[0].sendto(b"x", facts["datagrams"])),
}
"""
                outcomes = await run(ext, code, path=path, datagrams=datagrams, abstract=abstract)
                assert all("Error" in text for text in outcomes.values()), outcomes


@trial
async def sockets_that_lead_past_a_network_namespace_cannot_be_made() -> None:
    async with allowed_one() as (ext, _):
        # SOCKETS makes a socket of each family; an outcome is "made" or the error.
        outcomes = await explore(ext, SOCKETS)
        made = {name for name, text in outcomes.items() if text == "made"}
        assert made == {"tcp", "udp", "tcp6", "netlink route"}, outcomes


@trial
async def no_other_namespace_is_made_or_entered() -> None:
    async with allowed_one() as (ext, _):
        code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
def call(function, *arguments):
    ctypes.set_errno(0)
    value = function(*arguments)
    return errno.errorcode.get(ctypes.get_errno(), value) if value < 0 else value
namespace = outcome(lambda: os.open("/proc/1/ns/net", os.O_RDONLY))
result = {
    "unshare net": call(libc.unshare, CLONE_NEWNET),
    "unshare user": call(libc.unshare, CLONE_NEWUSER),
    "setns": call(libc.setns, 0, CLONE_NEWNET),
    "open": namespace,
    "interfaces": [name for _, name in socket.if_nameindex()],
    # The first line is a header, which an empty table may lack.
    "routes": open("/proc/self/net/route").read().splitlines()[1:],
}
"""
        report = await run(ext, code)
        assert report.pop("interfaces") == ["lo"] and not report.pop("routes"), report
        assert "Error" in report.pop("open") and set(report.values()) <= {"EPERM", "ENOSYS"}, report


@trial
async def the_proxy_and_its_channel_are_out_of_reach() -> None:
    async with allowed_one() as (ext, _):
        code = """
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
pids = [name for name in os.listdir("/proc") if name.isdigit()]
texts = [open(f"/proc/{pid}/cmdline").read() for pid in pids]
result = {
    # Without the descriptor that listdir itself used.
    "fds": fds[:3] + [fd for fd in fds[3:] if os.path.exists(f"/proc/self/fd/{fd}")],
    "proxy": any("proxy_server" in text for text in texts),
    "sockets of init": outcome(lambda: [
        fd for fd in os.listdir("/proc/1/fd") if "socket" in os.readlink(f"/proc/1/fd/{fd}")
    ]),
    "bind": outcome(lambda: socket.create_server(("127.0.0.1", 3128), reuse_port=True)),
}
"""
        report = await run(ext, code)
        assert report["fds"] == [0, 1, 2] and not report["proxy"], report
        assert report["sockets of init"] == "[]" or "Error" in report["sockets of init"], report
        assert "Error" in report["bind"], report


@trial
async def a_child_process_of_the_extension_reaches_no_other_port() -> None:
    with canary() as other:
        async with allowed_one() as (ext, _):
            code = """
import subprocess, sys
probe = CODE + '''
direct = outcome(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2]))))
print(connect(sys.argv[1]), direct)
'''
daemon = [sys.executable, "-S", "-c", "import sys\\n" + probe, facts["target"], str(facts["other"])]
result = subprocess.run(daemon, env={}, start_new_session=True, capture_output=True, text=True,
                        timeout=20).stdout
"""
            code = code.replace("CODE", repr(CLIENT))
            target = f"localhost:{other.port}"
            report = await run(ext, code, target=target, other=other.port)
            assert report.startswith("403 ConnectionRefusedError"), report


@trial
async def a_refusal_is_an_event_a_count_and_a_line_of_the_log() -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("exthost.extension")
    logger.addHandler(handler)
    try:
        bus, refusals, arrived = Bus(), list[NetworkRefused](), asyncio.Event()
        bus.subscribe(NetworkRefused, refusals.append)
        bus.subscribe(NetworkRefused, lambda _: arrived.set())
        async with allowed_one(bus) as (ext, server):
            target = f"localhost:{port_of(server)}"
            code = "result = [connect(target) for target in facts['targets']]"
            targets = [target, "example.com:443"]
            assert await run(ext, code, targets=targets) == ["200", "403"]
            await asyncio.wait_for(arrived.wait(), WAIT_SECONDS)
            # The entry is what a user would add to the list.
            [refusal] = refusals
            assert (refusal.target, refusal.entry) == ("example.com:443", "example.com:443")
            assert ext.stats.refused == {"example.com:443": 1}
            assert ext.stats.reached == {target: 1}
    finally:
        logger.removeHandler(handler)
    assert any('add "example.com:443" to permissions.network' in line for line in lines), lines


@trial
async def a_proxy_that_is_killed_is_replaced_and_reported() -> None:
    bus, ends, ended = Bus(), list[NetworkProxyEnded](), asyncio.Event()
    bus.subscribe(NetworkProxyEnded, ends.append)
    bus.subscribe(NetworkProxyEnded, lambda _: ended.set())
    async with allowed_one(bus) as (ext, server):
        code = "result = connect(facts['target'])"
        target = f"localhost:{port_of(server)}"
        assert await run(ext, code, target=target) == "200"
        (proxy,) = [pid for pid in children_of(os.getpid()) if "proxy_server" in command_of(pid)]
        os.kill(proxy, signal.SIGKILL)
        await asyncio.wait_for(ended.wait(), WAIT_SECONDS)
        assert ends[0].is_restarted
        assert await run(ext, code, target=target) == "200"
        assert await run(ext, code, target="example.com:443") == "403"


def children_of(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").iterdir()
    texts = [(task / "children").read_text() for task in tasks]
    return [int(pid) for text in texts for pid in text.split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


@trial
async def another_extension_reaches_only_its_own_list() -> None:
    with allowed_server() as first, allowed_server() as second:
        ports = port_of(first), port_of(second)
        grants = [{"network": [f"localhost:{port}"]} for port in ports]
        async with (
            started_explorer(permissions=grants[0]) as one,
            started_explorer(permissions=grants[1]) as two,
        ):
            code = "result = [connect(f'localhost:{port}') for port in facts['ports']]"
            assert await run(one, code, ports=ports) == ["200", "403"]
            assert await run(two, code, ports=ports) == ["403", "200"]


@trial
async def an_injected_secret_is_sent_by_the_proxy_and_is_not_in_the_sandbox() -> None:
    secret = f"secret-{uuid.uuid4().hex}"
    os.environ["EXTHOST_TEST_INJECTED"] = secret
    try:
        with allowed_server() as server:
            target = f"localhost:{port_of(server)}"
            settings: dict[str, Any] = {
                "permissions": {"network": [target]},
                "env": {"TOKEN": {"from": "EXTHOST_TEST_INJECTED"}},
                "inject": {"host": target, "header": "Authorization: Bearer {TOKEN}"},
            }
            async with started_explorer(**settings) as ext:
                code = """
import pathlib
with socket.create_connection(("127.0.0.1", 3128), timeout=20) as client:
    client.sendall(f"GET http://{facts['target']}/ HTTP/1.1\\r\\n\\r\\n".encode())
paths = [path / "environ" for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]
paths += [path.parent / "cmdline" for path in paths]
result = ["".join(os.environ.values())]
for path in paths:
    try:
        result.append(path.read_text(errors="replace"))
    except OSError:
        pass
"""
                texts = await run(ext, code, target=target)
                connection = server.accept()[0]
                with connection:
                    connection.settimeout(WAIT_SECONDS)
                    head = await asyncio.to_thread(connection.recv, 65536)
        assert f"authorization: Bearer {secret}\r\n".encode() in head, head
        assert len(texts) > 1 and not any(secret in text for text in texts)
    finally:
        del os.environ["EXTHOST_TEST_INJECTED"]


@trial
async def a_redirect_carries_no_injected_secret_to_another_server() -> None:
    secret = f"secret-{uuid.uuid4().hex}"
    os.environ["EXTHOST_TEST_INJECTED"] = secret
    try:
        with allowed_server() as server, allowed_server() as other:
            target, elsewhere = (f"localhost:{port_of(item)}" for item in (server, other))
            settings: dict[str, Any] = {
                "permissions": {"network": [target, elsewhere]},
                "env": {"TOKEN": {"from": "EXTHOST_TEST_INJECTED"}},
                # Names of hosts are compared without regard to case.
                "inject": {"host": target.upper(), "header": "Authorization: Bearer {TOKEN}"},
            }
            # urllib uses the proxy of the environment variables, and follows a redirect. The proxy
            # must not add the header to the second request.
            code = """
import urllib.request
with urllib.request.urlopen(f"http://{facts['target']}/", timeout=20) as response:
    result = response.read().decode()
"""
            async with started_explorer(**settings) as ext:
                asking = asyncio.create_task(run(ext, code, target=target))
                redirect = f"302 Found\r\nLocation: http://{elsewhere}/there"
                first = await asyncio.to_thread(answer, server, redirect)
                second = await asyncio.to_thread(answer, other, "200 OK")
                assert await asyncio.wait_for(asking, WAIT_SECONDS) == "body"
        assert secret.encode() in first, first
        assert second.startswith(b"GET /there ") and secret.encode() not in second, second
    finally:
        del os.environ["EXTHOST_TEST_INJECTED"]


def answer(server: socket.socket, status: str) -> bytes:
    """Answer the next request with this status. Return the head of the request."""
    connection = server.accept()[0]
    with connection:
        connection.settimeout(WAIT_SECONDS)
        head = b""
        while b"\r\n\r\n" not in head and (data := connection.recv(65536)):
            head += data
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nbody".encode())
        return head
