"""The listening socket of the host, to which agents (programs on other machines) connect.

A new connection must first send a nonce (a random text that the host has issued), within a few
seconds. Each nonce is valid for one connection. Any other connection is closed without a reply. If
too many are open that have sent no nonce, the silent ones and the oldest are closed first
(`connection_limit`). If the cluster settings name certificates, every connection is encrypted, and
only a node with a certificate can present a nonce.
"""

import asyncio
import functools
import logging
import resource
import secrets
import socket

from exthost.cluster.link import NodeConnection, tune
from exthost.cluster.messages import NONCE_BYTES
from exthost.cluster.tls import HostCertificates, default_folder
from exthost.config.cluster import ClusterSettings, is_ipv6, is_loopback
from exthost.errors import ConfigError
from exthost.model.connection_limit import ConnectionLimit, peer_of
from exthost.process.after_fork import disown_after_fork, replace_by_null

_log = logging.getLogger("exthost.cluster")

# How long a connection may take to present its nonce.
_NONCE_SECONDS = 5.0

# The size of a read of an encrypted nonce. What follows it is decrypted later.
_TLS_READ_BYTES = 1024

# How many connections may be open that have not sent a valid nonce yet.
_MAX_UNAUTHENTICATED = 256
# If the process may open only a few file descriptors, at most one in 8 is for such a connection.
_DESCRIPTOR_PART = 8
# One peer (an IP address) may have at most one in 2 of these connections.
_PEER_PART = 2


class NodeListener:
    """Listens at the address of the settings. `expect` issues a nonce and returns a future; the
    connection that presents the nonce becomes the result of the future."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._host = settings.host
        self._port = settings.port
        self._certificates: HostCertificates | None = None
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._unauthenticated: set[asyncio.Task[None]] = set()
        self._limit: ConnectionLimit[asyncio.Task[None]] = _make_limit()
        self.strangers_closed = 0  # connections that were closed because there were too many
        self._expected: dict[bytes, asyncio.Future[NodeConnection]] = {}
        self.refusals = 0  # connections that were closed because they did not authenticate
        self.last_refusal = ""  # why the last of them was closed
        self.accept_error: OSError | None = None  # why the last connection was not accepted
        self.address = ""  # the address for agents, as HOST:PORT, when the listener is open
        disown_after_fork(self)

    async def open(self) -> None:
        """Start to listen. Raises ConfigError if the address cannot be used."""
        if self._socket is not None:
            return
        self._open_tls()
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
            listener.listen(256)
            listener.setblocking(False)
        except (OSError, ValueError, TypeError) as error:  # ValueError: not a name of a machine
            listener.close()
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                "X0171",
                f"cluster.listen: {self._host}:{self._port} cannot be used: {reason}",
                help="name an address of this machine that the nodes can reach, with a free port",
            ) from None
        self._socket = listener
        host, port = listener.getsockname()[:2]
        advertised = self._settings.advertise or host
        if is_ipv6(advertised):
            advertised = f"[{advertised}]"
        # A Service or NAT may have another port than `listen`; without one, it is the same.
        self.address = advertised if _has_port(advertised) else f"{advertised}:{port}"
        self._accepting = asyncio.create_task(self._accept(listener))

    def _open_tls(self) -> None:
        """Load the certificates if connections are encrypted. Otherwise warn if other machines can
        connect."""
        settings = self._settings
        if settings.is_encrypted:
            self._certificates = HostCertificates(settings.certificates or default_folder())
            self._certificates.context()
        elif not is_loopback(settings.host):
            _log.warning(
                "cluster.listen %s can be reached from other machines, and its traffic is "
                "not encrypted: anyone on the network path reads the variables and calls of "
                "extensions; remove cluster.insecure, and run `exthost cluster init`",
                settings.host,
            )

    def expect(self) -> tuple[str, "asyncio.Future[NodeConnection]"]:
        """Return a new nonce, and the future of the connection that presents it. Cancel the future
        if the connection is no longer needed."""
        nonce = secrets.token_hex(NONCE_BYTES // 2)
        future: asyncio.Future[NodeConnection] = asyncio.get_running_loop().create_future()
        self._expected[nonce.encode()] = future
        future.add_done_callback(lambda _: self._expected.pop(nonce.encode(), None))
        return nonce, future

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections until the task is cancelled, and start a task for each that reads its
        nonce."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError as error:  # out of descriptors; the callers of `expect` have a timeout
                self.accept_error = error
                await asyncio.sleep(0.1)
                continue
            self.accept_error = None
            task = asyncio.create_task(self._authenticate(connection))
            self._unauthenticated.add(task)
            task.add_done_callback(functools.partial(self._forget, connection))
            closed = self._limit.admit(task, peer_of(address))
            if closed is not None:
                self.strangers_closed += 1
                closed.cancel()
            # Let other tasks run: while connections are waiting, `sock_accept` returns at once.
            await asyncio.sleep(0)

    def _forget(self, connection: socket.socket, task: "asyncio.Task[None]") -> None:
        self._unauthenticated.discard(task)
        self._limit.remove(task)
        if task.cancelled():
            # A task that is cancelled before its first step runs none of its code, so it cannot
            # close the connection itself.
            connection.close()

    async def _authenticate(self, connection: socket.socket) -> None:
        """Read the nonce of a connection. Pass the connection on to the caller of `expect`, or
        close it."""
        connection.setblocking(False)
        tune(connection)
        nonce, tls = b"", None
        try:
            async with asyncio.timeout(_NONCE_SECONDS):
                if self._certificates is not None:
                    await _wait_readable(connection)
                    self._mark_active()
                    tls = await self._certificates.accept(connection)
                while len(nonce) <= NONCE_BYTES:  # the nonce and a line feed
                    data = await _receive(
                        NodeConnection(connection, tls), NONCE_BYTES + 1 - len(nonce)
                    )
                    if not data:
                        break
                    nonce += data
                    self._mark_active()
        except (OSError, TimeoutError, ConfigError) as error:
            self.refusals += 1
            self.last_refusal = str(error) or "it sent nothing"
            nonce = b""
        except BaseException:
            connection.close()
            raise
        future = self._expected.pop(nonce.removesuffix(b"\n"), None)
        if future is None or future.done():
            connection.close()
            return
        future.set_result(NodeConnection(connection, tls))

    def _mark_active(self) -> None:
        """Mark the connection of this task as active, because it has sent something."""
        task = asyncio.current_task()
        assert task is not None
        self._limit.mark_active(task)

    async def close(self) -> None:
        """Stop listening, and give up on connections that were expected."""
        tasks = [
            *self._unauthenticated,
            *([self._accepting] if self._accepting is not None else []),
        ]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for future in list(self._expected.values()):
            future.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = self._accepting = None

    def disown(self) -> None:
        """Give up the socket in a forked copy of the host: it belongs to the original."""
        if self._socket is not None:
            replace_by_null([self._socket.fileno()])


def check_certificates(settings: ClusterSettings) -> None:
    """Check that the host has the certificates that its settings require. Raises ConfigError."""
    if settings.is_encrypted:
        HostCertificates(settings.certificates or default_folder()).context()


def _make_limit() -> "ConnectionLimit[asyncio.Task[None]]":
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    maximum = _MAX_UNAUTHENTICATED
    if soft_limit >= 0:  # not RLIM_INFINITY
        maximum = max(8, min(maximum, soft_limit // _DESCRIPTOR_PART))
    return ConnectionLimit(maximum, maximum, maximum // _PEER_PART)


def _has_port(address: str) -> bool:
    """Return whether an address has a port: HOST:PORT or [IPV6]:PORT."""
    return address.rpartition(":")[2].isdecimal() and not address.endswith("]")


async def _receive(connection: NodeConnection, size: int) -> bytes:
    """Return at most `size` bytes; b"" if the peer has closed the connection. Raises OSError."""
    source, tls = connection
    while True:
        try:
            return source.recv(size) if tls is None else tls.read(size)
        except BlockingIOError:
            await _wait_readable(source)
            if tls is not None:
                data = source.recv(_TLS_READ_BYTES)
                if not data:
                    return b""
                tls.receive(data)


async def _wait_readable(connection: socket.socket) -> None:
    """Wait until the peer has sent something, or has left."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection)
