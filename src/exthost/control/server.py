"""The server of the control socket: accepts clients, and ensures that a config has one host only.

A host holds a lock on a file beside the socket. The kernel releases the lock when the host dies. So
a socket that is left over from a crashed host can be replaced, and two hosts that start at the same
time cannot both open it.

The path of the socket depends on environment variables, which may differ between a shell and a
service. So the host holds a second lock, in a folder that depends on the user only.

Each client has a `ServerConnection`, and the module `requests` performs the requests.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from exthost.control.address import (
    config_key,
    lock_folder,
    make_private_folder,
    socket_paths,
    unusable_folder_error,
)
from exthost.control.peer_credentials import is_same_user, is_sandboxed
from exthost.control.requests import RequestPerformer
from exthost.control.served_host import ServedHost
from exthost.control.server_connection import ServerConnection
from exthost.control.status_report import StatusReport
from exthost.errors import Evidence, ExthostError, Refused, UsageError

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
    ) -> None:
        """Take the locks of this config and create the socket. Call this before extensions start.

        `config` is the path of the config. `is_program` is True if the host is part of another
        program, which continues after the host has ended. Raises UsageError if another running host
        has the lock, and Refused if there is no folder for the socket.
        """
        absolute = str(Path(config).absolute())
        self.requests = RequestPerformer(host, report, absolute, is_program=is_program)
        self._clients: set[ServerConnection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.path = _choose_path(config, environ)
        self._locks: dict[Path, int] = {}
        try:
            locks = (self.path.with_suffix(".lock"), *_user_lock(config))
            for lock in dict.fromkeys(locks):  # an ordered set: the two may be the same file
                self._locks[lock] = _take_lock(lock, absolute)
            self._socket = _bind(self.path)
        except BaseException as error:
            self._release_locks()
            if isinstance(error, OSError) and not isinstance(error, ExthostError):
                raise unusable_folder_error(
                    self.path.parent, error.strerror or str(error)
                ) from None
            raise

    async def serve(self) -> None:
        """Start to accept clients on the running loop."""
        # The backlog is larger than the limit, so that a client over the limit can connect and gets
        # an error instead of waiting.
        self._socket.listen(2 * MAX_CLIENTS)
        self._loop = asyncio.get_running_loop()
        self._accept_clients()

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
        self.path.unlink(missing_ok=True)
        self._release_locks()

    def _accept_clients(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        assert self._loop is not None
        try:
            connected, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no file descriptor is left: new clients wait in the backlog
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_ACCEPT_RETRY_SECONDS, self._accept_clients)
            return
        client = ServerConnection(connected, self.requests, self._clients)
        objection = self._find_objection(connected)
        if objection is None:
            client.serve()
        else:
            client.refuse(objection)

    def _release_locks(self) -> None:
        for lock, fd in self._locks.items():
            lock.unlink(missing_ok=True)
            os.close(fd)
        self._locks.clear()

    def _find_objection(self, connected: socket.socket) -> ExthostError | None:
        """Return the error for a client that is refused; None if it is accepted."""
        if not is_same_user(connected):
            return Refused(
                "X0376",
                "this host answers to its own user alone",
                help="ask as the user who runs it",
            )
        if is_sandboxed(connected):
            return Refused(
                "X0376",
                "this host answers to no sandboxed extension",
                help="an extension asks for the tools of others in its dialect, if that has a way",
            )
        if len(self._clients) > MAX_CLIENTS:
            return UsageError(
                "X1377", f"{MAX_CLIENTS} clients are connected already", help="try again later"
            )
        return None


# -- the locks and the socket -----------------------------------------------------------------


def _choose_path(config: str, environ: Mapping[str, str]) -> Path:
    """Return the first path for the socket whose folder this user owns or can create."""
    refused: Refused | None = None
    for path in socket_paths(config, environ):
        try:
            make_private_folder(path.parent)
        except Refused as error:
            refused = refused or error
        else:
            return path
    assert refused is not None  # the path in /tmp is always short enough
    raise refused


def _user_lock(config: str) -> Iterator[Path]:
    """Yield the path of the lock whose folder depends on the user only; nothing if the folder
    belongs to another user."""
    folder = lock_folder()
    with contextlib.suppress(Refused):
        make_private_folder(folder)
        yield folder / f"{config_key(config)}.lock"


def _take_lock(lock: Path, config: str) -> int:
    """Take the lock, and return its file descriptor. The lock is held until the descriptor is
    closed or this process ends. Raises UsageError if another process has it."""
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise _lock_taken_error(lock, config, holder) from None
        if _is_file_at(fd, lock):
            # Only for the error of a second host: the disk may be full.
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
        # The previous holder has removed the file between `open` and `flock`, so other processes
        # would lock another file. Try again.
        os.close(fd)


def _is_file_at(fd: int, path: Path) -> bool:
    """Return whether the descriptor refers to the file that is at this path now."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _lock_taken_error(lock: Path, config: str, holder: str) -> UsageError:
    who = f": process {holder}" if holder.isdigit() else ""
    return UsageError(
        "X1375",
        f"a host runs for {config} already{who}",
        help="exthost status shows it; end it with Ctrl-C or SIGTERM first",
        evidence=Evidence(path=str(lock)),
    )


def _bind(path: Path) -> socket.socket:
    """Return a socket that is bound to this path, in place of one that a crashed host has left."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # left over from a crashed host, because this process has the lock
        bound.bind(str(path))
        path.chmod(0o600)  # nobody can connect before this: the socket listens only after `serve`
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound
