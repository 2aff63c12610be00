"""Encrypts the connections between nodes and the host.

The code that uses a connection reads and writes a plain file descriptor. Therefore an encrypted
connection is wrapped: of a pair of connected sockets, one end is given to that code, and everything
is forwarded, with encryption, between the other end and the network.

A node recognizes its host by the SHA-256 of the host's certificate, which it gets together with its
nonce. No certificate authority and no host name is checked, so a self-signed certificate is enough.
"""

import asyncio
import hashlib
import socket
import ssl
import threading
from pathlib import Path
from typing import cast

from exthost.errors import ConfigError

# How long either side may take for the handshake, and for the end of a connection.
_HANDSHAKE_SECONDS = 5.0
_SHUTDOWN_SECONDS = 1.0

# As in `node_listener`: with larger buffers it would take longer to notice that an extension does
# not read.
_BUFFER_BYTES = 256 * 1024


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a host. Raises ConfigError if the files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise ConfigError(
            "X0172",
            f"cluster.certificate: {certificate} with {key} cannot be used: {error}",
            help="name a certificate and its key, both as PEM, the key without a password",
        ) from None
    return context


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of the first certificate in a PEM file."""
    text = Path(certificate).read_text()
    end = "-----END CERTIFICATE-----"
    first = text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end) + len(end)]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()


class _Forwarder(asyncio.Protocol):
    """One of two connections that forward to each other: data that one receives is written to the
    other, with back-pressure."""

    def __init__(self, connections: "TlsConnections") -> None:
        self._connections = connections
        self.other: _Forwarder | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transports have its methods without being a subclass
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.remove(self)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()  # after its buffer has been written


class TlsConnections:
    """All encrypted connections of the host, or of a node process. Used in one event loop."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._forwarders: set[_Forwarder] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    def add(self, forwarder: _Forwarder) -> None:
        """Add a connection that was opened."""
        self._forwarders.add(forwarder)
        self._all_closed.clear()

    def remove(self, forwarder: _Forwarder) -> None:
        """Remove a connection that was closed."""
        self._forwarders.discard(forwarder)
        if not self._forwarders:
            self._all_closed.set()

    async def wrap(self, connection: socket.socket, *, peer: str | None = None) -> socket.socket:
        """Return a socket whose data is sent encrypted over `connection`. Closing the socket closes
        the connection. If `peer` is given, this side is the TLS client, and the other side must
        have the certificate with this SHA-256. Raises OSError if the handshake fails."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        inner, outer = _Forwarder(self), _Forwarder(self)
        try:
            for end in (ours, theirs, connection):
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            await loop.connect_accepted_socket(lambda: inner, theirs)
            inner.other, outer.other = outer, inner
            if peer is None:
                await loop.connect_accepted_socket(
                    lambda: outer,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
            else:
                await loop.create_connection(
                    lambda: outer,
                    sock=connection,
                    ssl=self._context,
                    server_hostname="",
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )
                _check_peer(outer, peer)
        except BaseException:
            for forwarder in (inner, outer):
                if forwarder.transport is not None:
                    forwarder.transport.abort()
            for end in (ours, connection, *([theirs] if inner.transport is None else [])):
                end.close()
            raise
        return ours

    def descriptors(self) -> list[int]:
        """Return the file descriptors of all connections."""
        sockets = [
            forwarder.transport.get_extra_info("socket")
            for forwarder in self._forwarders
            if forwarder.transport is not None
        ]
        return [sock.fileno() for sock in sockets if sock is not None]

    async def close(self, seconds: float = 0.0) -> None:
        """Wait at most `seconds` until all connections are closed, then abort the others."""
        try:
            async with asyncio.timeout(seconds):
                await self._all_closed.wait()
        except TimeoutError:
            pass
        for forwarder in list(self._forwarders):
            if forwarder.transport is not None:
                forwarder.transport.abort()
        await asyncio.sleep(0)


def _check_peer(forwarder: _Forwarder, peer: str) -> None:
    assert forwarder.transport is not None
    certificate = forwarder.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if certificate is None or hashlib.sha256(certificate).hexdigest() != peer:
        raise ConnectionError("the server there does not have the certificate of the host")


class TlsClient:
    """Encrypted connections for a program without an event loop: a thread runs an event loop for
    them. `peer` is the SHA-256 of the host's certificate."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._loop = asyncio.new_event_loop()
        self._connections: TlsConnections | None = None
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="exthost-tls", daemon=True
        )
        self._thread.start()

    def wrap(self, connection: socket.socket) -> socket.socket:
        """Return a socket whose data is sent encrypted over `connection`. Raises OSError."""
        future = asyncio.run_coroutine_threadsafe(self._wrap(connection), self._loop)
        return future.result()

    async def _wrap(self, connection: socket.socket) -> socket.socket:
        if self._connections is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the certificate is compared with the known one
            self._connections = TlsConnections(context)
        return await self._connections.wrap(connection, peer=self._peer)

    def close(self, seconds: float) -> None:
        """Wait at most `seconds` until all connections are closed, then abort the others."""
        if self._connections is not None:
            closing = asyncio.run_coroutine_threadsafe(self._connections.close(seconds), self._loop)
            closing.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
