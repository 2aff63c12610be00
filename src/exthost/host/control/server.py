"""The server of the control socket: creates the socket and accepts clients.

It holds the `HostLock` of the config, so that a config has one host only. Each client has a
`ServerConnection`, and the module `requests` performs the requests.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from exthost.errors import ExthostError, Refused, UsageError
from exthost.host.control.address import unusable_folder_error
from exthost.host.control.host_lock import HostLock
from exthost.host.control.peer_credentials import is_same_user, is_sandboxed
from exthost.host.control.requests import RequestPerformer
from exthost.host.control.served_host import ServedHost
from exthost.host.control.server_connection import ServerConnection
from exthost.host.control.status_report import StatusReport
from exthost.model.connection_limit import ConnectionLimit
from exthost.process.after_fork import disown_after_fork, replace_by_null

# The most clients at a time. Each client needs a file descriptor.
MAX_CLIENTS = 128

# How long to accept no clients after the process ran out of file descriptors. asyncio uses the same
# time.
_ACCEPT_RETRY_SECONDS = 1.0


class ControlServer:
    """The open control socket of one host."""

    def __init__(
        self,
        host: ServedHost,
        report: StatusReport,
        config: str,
        environ: Mapping[str, str] = os.environ,
        *,
        is_program: bool = False,
        lock: HostLock | None = None,
    ) -> None:
        """Take the lock of this config and create the socket. Call this before extensions start.

        `config` is the path of the config. `is_program` is True if the host is part of another
        program, which continues after the host has ended. `lock` is the lock of the config if the
        caller has taken it already; it is released by `close`. Raises UsageError if another running
        host has the lock, and Refused if there is no folder for the socket.
        """
        absolute = str(Path(config).absolute())
        self.requests = RequestPerformer(host, report, absolute, is_program=is_program)
        self._clients: set[ServerConnection] = set()
        # The three limits (of all clients, of those that have sent no request yet, and of one
        # origin) are the same, because all clients are of this user. Only a client that has sent no
        # request yet is disconnected to make room for another.
        self._limit: ConnectionLimit[ServerConnection] = ConnectionLimit(
            MAX_CLIENTS, MAX_CLIENTS, MAX_CLIENTS
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_disowned = False
        self._lock = HostLock(config, environ) if lock is None else lock
        self.path = self._lock.socket_path
        try:
            self._socket = _bind(self.path)
            disown_after_fork(self)
        except OSError as error:
            self._lock.release()
            raise unusable_folder_error(self.path.parent, error.strerror or str(error)) from None

    async def serve(self) -> None:
        """Start to accept clients on the running loop."""
        # The backlog is larger than the limit, so that a client over the limit can connect and gets
        # an error instead of waiting.
        self._socket.listen(2 * MAX_CLIENTS)
        self._loop = asyncio.get_running_loop()
        self._accept_clients()

    @property
    def has_attached_program(self) -> bool:
        """Whether a program has attached itself, and stays connected while it sends no request."""
        return any(client.stays for client in self._clients)

    async def close(self) -> None:
        """Close all connections, and remove the socket."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._socket)
        clients = tuple(self._clients)
        for client in clients:
            client.disconnect()
        await asyncio.gather(*(client.wait_for_tasks() for client in clients))
        self.requests.close()
        self._socket.close()
        if not self._is_disowned:
            self.path.unlink(missing_ok=True)
        self._lock.release()

    def disown(self) -> None:
        """Called in a forked copy of the host: give up the copy of the socket."""
        self._is_disowned = True
        replace_by_null((self._socket.fileno(),))

    def _accept_clients(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        """Accept a client. The event loop calls this when one has connected."""
        assert self._loop is not None
        try:
            connected, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no file descriptor is left: new clients wait in the backlog
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_ACCEPT_RETRY_SECONDS, self._accept_clients)
            return
        client = ServerConnection(connected, self.requests, self._clients, self._limit)
        objection = self._find_objection(client, connected)
        if objection is None:
            client.serve()
        else:
            client.refuse(objection)

    def _find_objection(
        self, client: ServerConnection, connected: socket.socket
    ) -> ExthostError | None:
        """Return the error for a client that is refused; None if it is accepted. If there are too
        many clients, disconnect one that has sent no request yet, to make room."""
        if not is_same_user(connected):
            return Refused(
                "X0376",
                "this host answers to its own user alone",
                help="run the command as the user that runs the host",
            )
        if is_sandboxed(connected):
            return Refused(
                "X0376",
                "this host answers to no sandboxed extension",
                help="an extension asks for the tools of others in its dialect, if that has a way",
            )
        silent = self._limit.admit(client, None)
        if silent is client:
            return UsageError(
                "X1377", f"{MAX_CLIENTS} clients are connected already", help="try again later"
            )
        if silent is not None:
            silent.disconnect()
        return None


def _bind(path: Path) -> socket.socket:
    """Return a socket that is bound to this path, in place of one that a crashed host has left."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # left over from a crashed host, because this process has the lock
        bound.bind(str(path))
        path.chmod(0o600)  # before any client can connect: the socket listens only after `serve`
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound
