"""Encrypts the connections between nodes and the host.

Whoever reads and writes a connection uses plain descriptors. So a connection that is encrypted is
coupled to one of two sockets that are connected to each other, and the other one is handed out.

A node knows the certificate of its host by its SHA-256, which it gets together with its nonce. No
authority and no name is involved, so a certificate that is signed by itself is as good as any.
"""

import asyncio
import hashlib
import socket
import ssl
import threading
from pathlib import Path
from typing import cast

from exthost.errors import ConfigError

__all__ = ["Couplings", "TlsClient", "fingerprint", "server_context"]

# How long either side may take for the handshake, and for the end of a connection.
_HANDSHAKE_SECONDS = 5.0
_SHUTDOWN_SECONDS = 1.0

# As for connections that are not encrypted: larger buffers hide that an extension does not read.
_BUFFER_BYTES = 256 * 1024


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a host. Raises ConfigError if the files cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # The empty password: a key that has one is an error, and nobody is asked for it.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise ConfigError(
            "X0172",
            f"cluster.certificate: {certificate} with {key} cannot be used: {error}",
            help="name a certificate and its key, both as PEM, the key without a password",
        ) from None
    return context


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of the first certificate of a file."""
    text = Path(certificate).read_text()
    end = "-----END CERTIFICATE-----"
    first = text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end) + len(end)]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()


class _Half(asyncio.Protocol):
    """One of two coupled connections: what it receives is written to the other."""

    def __init__(self, couplings: "Couplings") -> None:
        self._couplings = couplings
        self.other: _Half | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's has the methods only
        self._couplings.opened(self)

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
        self._couplings.ended(self)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()  # after what is still to be written


class Couplings:
    """The encrypted connections of one side. Used in one event loop."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._halves: set[_Half] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    def opened(self, half: _Half) -> None:
        """Count a connection."""
        self._halves.add(half)
        self._quiet.clear()

    def ended(self, half: _Half) -> None:
        """Stop counting a connection."""
        self._halves.discard(half)
        if not self._halves:
            self._quiet.set()

    async def couple(self, connection: socket.socket, *, peer: str | None = None) -> socket.socket:
        """Return a socket that carries what travels encrypted on `connection`, which is closed with
        it. With `peer`, the SHA-256 of a certificate, this side is the client, and the other must
        have that certificate. Raises OSError if there is no agreement."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        inner, outer = _Half(self), _Half(self)
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
            for half in (inner, outer):
                if half.transport is not None:
                    half.transport.abort()
            for end in (ours, connection, *([theirs] if inner.transport is None else [])):
                end.close()
            raise
        return ours

    def descriptors(self) -> list[int]:
        """Return the descriptors of all connections."""
        sockets = [
            half.transport.get_extra_info("socket")
            for half in self._halves
            if half.transport is not None
        ]
        return [one.fileno() for one in sockets if one is not None]

    async def close(self, seconds: float = 0.0) -> None:
        """Close every connection, once what was written has been sent, or after `seconds`."""
        try:
            await asyncio.wait_for(self._quiet.wait(), seconds)
        except TimeoutError:
            pass
        for half in list(self._halves):
            if half.transport is not None:
                half.transport.abort()
        await asyncio.sleep(0)


def _check_peer(half: _Half, peer: str) -> None:
    assert half.transport is not None
    certificate = half.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if certificate is None or hashlib.sha256(certificate).hexdigest() != peer:
        raise ConnectionError("what answers there has not the certificate of the host")


class TlsClient:
    """Encrypted connections of a program without an event loop: a thread has one for them."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._loop = asyncio.new_event_loop()
        self._couplings: Couplings | None = None
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="exthost-tls", daemon=True
        )
        self._thread.start()

    def couple(self, connection: socket.socket) -> socket.socket:
        """Return a socket that carries what travels encrypted on a connection. Raises OSError."""
        future = asyncio.run_coroutine_threadsafe(self._couple(connection), self._loop)
        return future.result()

    async def _couple(self, connection: socket.socket) -> socket.socket:
        if self._couplings is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the certificate is compared with the known one
            self._couplings = Couplings(context)
        return await self._couplings.couple(connection, peer=self._peer)

    def close(self, seconds: float) -> None:
        """Close every connection, once what was written has been sent, or after `seconds`."""
        if self._couplings is not None:
            closing = asyncio.run_coroutine_threadsafe(self._couplings.close(seconds), self._loop)
            closing.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
