"""The host's end of the socket: accepts clients, and ensures that a config has one host only.

A lock file beside the socket shows whether a host is alive: the kernel releases the lock when the
host dies. So a socket that a dead host left is replaced, and two hosts that start at the same
moment cannot both have it. The path of the socket depends on variables, which differ between a
shell and a service. So there is a second lock, in a folder that depends on the user only.

Each client has a `ServerConnection`; what the verbs do is in `requests.py`.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from exthost.control.address import config_key, lock_folder, make_private_folder, socket_paths
from exthost.control.peer_credentials import is_same_user
from exthost.control.requests import Requests
from exthost.control.served_host import ServedHost
from exthost.control.server_connection import ServerConnection
from exthost.control.status_report import StatusReport
from exthost.errors import Evidence, ExthostError, Refused, UsageError

# Each costs a descriptor; programs and shell loops that call in parallel need some.
MAX_CLIENTS = 128

# As asyncio waits when a process has no descriptor left.
_ACCEPT_AGAIN_SECONDS = 1.0


class ControlServer:
    """One open socket."""

    def __init__(
        self,
        host: ServedHost,
        report: StatusReport,
        config: str,
        environ: Mapping[str, str] = os.environ,
        *,
        is_program: bool = False,
    ) -> None:
        """Become the host of this config, before anything is started.

        `is_program`: a program has this host, and it does not end with the host.
        Raises UsageError if a live host has it, Refused if there is no folder for the socket.
        """
        whole = str(Path(config).absolute())
        self.requests = Requests(host, report, whole, is_program=is_program)
        self._clients: set[ServerConnection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.path = _place(config, environ)
        self._locks: dict[Path, int] = {}
        try:
            for lock in dict.fromkeys((self.path.with_suffix(".lock"), *_shared_lock(config))):
                self._locks[lock] = _take(lock, whole)
            self._socket = _bound(self.path)
        except BaseException:
            self._let_go()
            raise

    async def serve(self) -> None:
        """Start to accept clients on the running loop."""
        # With room for clients that are refused: they get the reason.
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
            client.give_up()
        await asyncio.gather(*(client.finish() for client in clients))
        self.requests.close()
        self._socket.close()
        self.path.unlink(missing_ok=True)
        self._let_go()

    def _accept_clients(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        assert self._loop is not None
        try:
            connected, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no descriptor is left: a client waits until there is one again
            self._loop.remove_reader(self._socket)
            self._loop.call_later(_ACCEPT_AGAIN_SECONDS, self._accept_clients)
            return
        client = ServerConnection(connected, self.requests, self._clients)
        objection = self._objection(connected)
        if objection is None:
            client.serve()
        else:
            client.refuse(objection)

    def _let_go(self) -> None:
        for lock, fd in self._locks.items():
            lock.unlink(missing_ok=True)
            os.close(fd)
        self._locks.clear()

    def _objection(self, connected: socket.socket) -> ExthostError | None:
        """Return the error for a client that is refused; None if it is accepted."""
        if not is_same_user(connected):
            return Refused(
                "X0376",
                "this host answers to its own user alone",
                help="ask as the user who runs it",
            )
        if len(self._clients) > MAX_CLIENTS:
            return UsageError(
                "X1377", f"{MAX_CLIENTS} clients are connected already", help="try again later"
            )
        return None


# -- taking the place ------------------------------------------------------------------------


def _place(config: str, environ: Mapping[str, str]) -> Path:
    """Return the first path for the socket whose folder this user owns or can create."""
    refused: Refused | None = None
    for path in socket_paths(config, environ):
        try:
            make_private_folder(path.parent)
        except Refused as error:
            refused = refused or error
        else:
            return path
    assert refused is not None  # /tmp is never too long
    raise refused


def _shared_lock(config: str) -> Iterator[Path]:
    """Return the lock that every host of this user takes; None if another user has its folder."""
    folder = lock_folder()
    with contextlib.suppress(Refused):
        make_private_folder(folder)
        yield folder / f"{config_key(config)}.lock"


def _take(lock: Path, config: str) -> int:
    """Take the lock, for the life of this process or until the descriptor is closed."""
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise _taken(lock, config, holder) from None
        if _is_at(fd, lock):
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
        os.close(fd)  # its holder removed it in this very moment: what we hold is nobody's lock


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _taken(lock: Path, config: str, holder: str) -> UsageError:
    who = f": process {holder}" if holder.isdigit() else ""
    return UsageError(
        "X1375",
        f"a host runs for {config} already{who}",
        help="exthost status shows it; end it with Ctrl-C or SIGTERM first",
        evidence=Evidence(path=str(lock)),
    )


def _bound(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # of a host that died: we hold the lock
        bound.bind(str(path))
        path.chmod(0o600)  # nobody can connect yet: it does not listen before `serve`
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound
