"""Encrypts the connections between agents and the host (TLS 1.3). Each end proves who it is.

An agent is the program that runs the host's processes on another machine (a node).

`exthost cluster init` makes a folder with the certificates (`certificates.py`): that of an
authority, which signs those of the host and of the nodes. The host accepts only a certificate of a
node, and a node only that of the host. The host reads the folder again when a file in it has
changed, so that certificates can be renewed while the host runs.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exthost.errors import ConfigError
from exthost.process.state_root import state_root

# The names in the certificates. They name the two roles and not machines, because nodes may join
# the cluster and leave it at any time.
HOST_NAME = "host.exthost.internal"
NODE_NAME = "node.exthost.internal"

# Where an agent finds its certificate if the config names no folder: in its own state folder.
DEFAULT_FOLDER = "cluster"

_AUTHORITY = "ca.pem"

# The reason of OpenSSL's error for a key that does not belong to the certificate.
_PAIR_MISMATCH = "KEY_VALUES_MISMATCH"

# The size of a read of the handshake. Certificates have about 1 KiB.
_HANDSHAKE_READ_BYTES = 16 * 1024

# The most bytes of one TLS record, and so of one step of decryption.
_RECORD_BYTES = 16 * 1024


def default_folder() -> str:
    """Return the folder of the certificates on this machine, if the config names none."""
    return str(Path(state_root(os.environ), DEFAULT_FOLDER))


class HostCertificates:
    """The certificates of a host, in a folder. They are loaded again when the files change. While
    they are renewed, the key may be new and the certificate old: then the last pair is used."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._context: ssl.SSLContext | None = None
        # Of the certificate, the key and the authority, when they were loaded.
        self._loaded_mtimes: tuple[float, ...] = ()

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection. Raises ConfigError if the files cannot be
        used."""
        names = ("host.pem", "host.key", _AUTHORITY)
        try:
            mtimes = tuple(Path(self._folder, name).stat().st_mtime for name in names)
            if self._context is None or mtimes != self._loaded_mtimes:
                self._load_again(mtimes)
        except (OSError, ValueError) as error:
            raise ConfigError(
                "X0172",
                f"cluster.certificates: the files in {self._folder} cannot be used: {error}",
                help="make them with `exthost cluster init`",
            ) from None
        assert self._context is not None
        return self._context

    def _load_again(self, mtimes: tuple[float, ...]) -> None:
        """Load the files, which have these times. Raises OSError."""
        try:
            self._context = _load(ssl.PROTOCOL_TLS_SERVER, self._folder, "host")
            self._loaded_mtimes = mtimes
        except ssl.SSLError as error:
            # The last pair stays in use only if the authority is the same.
            is_half_renewed = error.reason == _PAIR_MISMATCH
            if not is_half_renewed or mtimes[-1:] != self._loaded_mtimes[-1:]:
                raise

    async def accept(self, connection: socket.socket) -> "TlsSession":
        """Return the session with a node after its handshake. Raises OSError if the handshake
        fails, and ConfigError."""
        session = TlsSession(self.context(), server_side=True)
        loop, received = asyncio.get_running_loop(), b""
        while not session.is_established:
            # Even if the handshake has failed, there is something to send: the alert that tells the
            # peer why.
            await loop.sock_sendall(connection, session.shake_hands(received))
            session.check_handshake()
            if not session.is_established:
                received = await loop.sock_recv(connection, _HANDSHAKE_READ_BYTES)
                _check_open(received)
        _check_role(session, NODE_NAME)
        return session


class TlsSession:
    """Encrypts and decrypts the bytes of one connection, without I/O. `is_established` is whether
    the handshake is complete."""

    __slots__ = ("_error", "_incoming", "_object", "_outgoing", "is_established")

    def __init__(self, context: ssl.SSLContext, **options: Any) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, **options)
        self._error: ssl.SSLError | None = None
        self.is_established = False

    def shake_hands(self, received: bytes) -> bytes:
        """Continue the handshake with the received bytes. Return the bytes to send."""
        self._incoming.write(received)
        try:
            self._object.do_handshake()
            self.is_established = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._error = error
        return self._outgoing.read()

    def check_handshake(self) -> None:
        """Raise the error with which the handshake has failed, if it has."""
        if self._error is not None:
            raise self._error

    def certificate_of_peer(self) -> dict[str, Any]:
        """Return the fields of the certificate that the peer has presented."""
        return dict(self._object.getpeercert() or {})

    def encrypt(self, buffers: Sequence[bytes | memoryview]) -> bytes:
        """Return the buffers as records of TLS."""
        self._object.write(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        return self._outgoing.read()

    def receive(self, data: bytes) -> None:
        """Add bytes that were received, for `read`."""
        self._incoming.write(data)

    def read(self, size: int) -> bytes:
        """Return at most `size` decrypted bytes. Raises BlockingIOError if the next TLS record is
        incomplete."""
        try:
            return self._object.read(size)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None

    def decrypt(self, data: bytes) -> bytes:
        """Return the decrypted contents of all TLS records that these received bytes complete; b""
        if they complete none. Raises OSError."""
        self._incoming.write(data)
        parts: list[bytes] = []
        # Stops when no bytes are left, instead of at the SSLWantReadError that follows, because the
        # exception takes longer than the decryption of a small record.
        while self._incoming.pending:
            try:
                part = self._object.read(_RECORD_BYTES)
            except ssl.SSLWantReadError:
                break
            if not part:
                if parts:
                    break  # the next call reports the end
                raise ConnectionError("the connection was closed")
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def connect_as_node(connection: socket.socket, folder: str) -> TlsSession:
    """Return the session with the host after the handshake. The connection must be in blocking
    mode. `folder` has the certificates; "default" stands for `default_folder()`. Raises OSError."""
    path = default_folder() if folder == "default" else folder
    try:
        context = _load(ssl.PROTOCOL_TLS_CLIENT, path, "node")
    except OSError as error:
        raise OSError(
            f"the certificate of the node in {path} cannot be used ({error}): copy ca.pem, "
            "node.pem and node.key there, which `exthost cluster init` has made"
        ) from None
    session = TlsSession(context, server_hostname=HOST_NAME)
    received = b""
    while not session.is_established:
        connection.sendall(session.shake_hands(received))
        session.check_handshake()
        if not session.is_established:
            received = connection.recv(_HANDSHAKE_READ_BYTES)
            _check_open(received)
    return session


def _load(protocol: "ssl._SSLMethod", folder: str, role: str) -> ssl.SSLContext:
    """Return a context with the certificate of this role ("host" or "node"). Raises OSError."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
    context.load_cert_chain(f"{folder}/{role}.pem", f"{folder}/{role}.key", password="")
    context.load_verify_locations(f"{folder}/{_AUTHORITY}")
    return context


def _check_role(session: TlsSession, name: str) -> None:
    if ("DNS", name) not in session.certificate_of_peer().get("subjectAltName", ()):
        raise ssl.SSLError("the peer has the certificate of another role")


def _check_open(received: bytes) -> None:
    if not received:
        raise ConnectionError("the peer has closed the connection during the handshake")
