"""Encrypts the connections between agents and the host (TLS 1.3). Each end proves who it is.

`exthost cluster init` makes a folder with the certificates (`certificates.py`): that of an
authority, which signs those of the host and of the nodes. The host accepts only a certificate of a
node, and a node only that of the host. The folder is read for each new connection if a file has
changed, so that certificates can be renewed while the host runs.
"""

import asyncio
import os
import socket
import ssl
from pathlib import Path

from exthost.errors import ConfigError
from exthost.process.state_root import state_root

# The names in the certificates. They stand for the two roles, and not for machines.
HOST_NAME = "host.exthost.internal"
NODE_NAME = "node.exthost.internal"

# Where an agent finds its certificate if the config names no folder: in its own state folder.
DEFAULT_FOLDER = "cluster"

_AUTHORITY = "ca.pem"


def default_folder() -> str:
    """Return the folder of the certificates on this machine, if the config names none."""
    return str(Path(state_root(os.environ), DEFAULT_FOLDER))


class HostCertificates:
    """The certificates of a host, in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._context: ssl.SSLContext | None = None
        self._state: tuple[float, ...] = ()

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection. Raises ConfigError if the files cannot be
        used."""
        names = ("host.pem", "host.key", _AUTHORITY)
        try:
            state = tuple(Path(self._folder, name).stat().st_mtime for name in names)
            if self._context is None or state != self._state:
                self._context = _load(ssl.PROTOCOL_TLS_SERVER, self._folder, "host")
                self._state = state
        except (OSError, ValueError) as error:
            raise ConfigError(
                "X0172",
                f"cluster.certificates: the files in {self._folder} cannot be used: {error}",
                help="make them with `exthost cluster init`",
            ) from None
        return self._context

    async def accept(self, connection: socket.socket) -> socket.socket:
        """Return the encrypted connection to a node. Raises OSError if the handshake fails, and
        ConfigError."""
        encrypted = self.context().wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        try:
            await _shake_hands(encrypted)
            _check_role(encrypted, NODE_NAME)
        except BaseException:
            encrypted.close()
            raise
        return encrypted


def connect_as_node(connection: socket.socket, folder: str) -> socket.socket:
    """Return the encrypted connection to the host. `folder` has the certificates; "default" is that
    in the state folder. Raises OSError."""
    path = default_folder() if folder == "default" else folder
    try:
        context = _load(ssl.PROTOCOL_TLS_CLIENT, path, "node")
    except OSError as error:
        raise OSError(
            f"the certificate of the node in {path} cannot be used ({error}): copy ca.pem, "
            "node.pem and node.key there, which `exthost cluster init` has made"
        ) from None
    return context.wrap_socket(connection, server_hostname=HOST_NAME)


def _load(protocol: "ssl._SSLMethod", folder: str, role: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
    context.load_cert_chain(f"{folder}/{role}.pem", f"{folder}/{role}.key", password="")
    context.load_verify_locations(f"{folder}/{_AUTHORITY}")
    return context


def _check_role(connection: ssl.SSLSocket, name: str) -> None:
    certificate = connection.getpeercert() or {}
    if ("DNS", name) not in certificate.get("subjectAltName", ()):
        raise ssl.SSLError("the peer has the certificate of another role")


async def _shake_hands(connection: ssl.SSLSocket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection.do_handshake()
        except ssl.SSLWantReadError:
            watch, unwatch = loop.add_reader, loop.remove_reader
        except ssl.SSLWantWriteError:
            watch, unwatch = loop.add_writer, loop.remove_writer
        else:
            return
        ready = asyncio.Event()
        watch(connection.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            unwatch(connection.fileno())
