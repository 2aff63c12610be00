"""The host's end of the socket: who may connect, how much and how long, and what each verb does.

One host per config: a lock beside the socket, which the kernel lets go of when its holder dies,
tells a live host from a socket that a dead one left. So a stale socket is simply replaced, and
two hosts that start in the same moment cannot take it from one another.

A client cannot harm: another user's is sent away, each has a bounded line, a bounded time to ask
and to read, and there are at most so many at once. What a client began goes on if it leaves.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exthost._version import __version__
from exthost.control import protocol
from exthost.control.address import private_folder, sockets
from exthost.control.peer import is_same_user
from exthost.control.protocol import REQUEST_BYTES, Request
from exthost.control.report import Report
from exthost.errors import Evidence, ExthostError, Refused, UsageError
from exthost.extension.extension import Extension
from exthost.host.host import Host
from exthost.wire.framing import READ_BYTES, Item, Skipped
from exthost.wire.lines import Lines

# More at once are nobody's need; each costs a descriptor.
MAX_CLIENTS = 16

# To ask the next thing, and to take an answer. What is asked for may take longer than either.
ASK_SECONDS = 10.0
READ_SECONDS = 10.0

# States from which a start has nothing to begin anew.
_ON_ITS_WAY = frozenset({"discovered", "admitted", "starting", "ready"})


class Control:
    """One open socket. `ending` is set when the host drains: it then only tells how it is."""

    def __init__(
        self, host: Host, report: Report, config: str, environ: Mapping[str, str] = os.environ
    ) -> None:
        """Takes the place of this config's host, before anything is started.

        Raises UsageError if a live host has it, Refused if there is no folder for the socket.
        """
        self._host = host
        self._report = report
        self._config = str(Path(config).absolute())
        self._since = time.monotonic()
        self._clients: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.ending = False
        self.path = _place(config, environ)
        self._lock = _take(self.path.with_suffix(".lock"), self._config)
        try:
            self._socket = _bound(self.path)
        except BaseException:
            self._let_go()
            raise

    async def serve(self) -> None:
        """Answer from now on, beside whatever else the loop does."""
        self._server = await asyncio.start_unix_server(self._meet, sock=self._socket)

    async def close(self) -> None:
        """Send everybody away, and leave no socket."""
        if self._server is not None:
            self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self._socket.close()
        self.path.unlink(missing_ok=True)
        self._let_go()

    def _let_go(self) -> None:
        self.path.with_suffix(".lock").unlink(missing_ok=True)
        os.close(self._lock)

    # -- one client --------------------------------------------------------------------------

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        # An answer counts as taken when the kernel has all of it.
        writer.transport.set_write_buffer_limits(0)
        try:
            objection = self._objection(writer)
            if objection is not None:
                await _send(writer, protocol.failure(objection))
            else:
                await self._converse(reader, writer)
        except (TimeoutError, OSError):
            pass  # it hangs or has left: its own loss
        finally:
            self._clients.discard(task)
            writer.transport.abort()

    def _objection(self, writer: asyncio.StreamWriter) -> ExthostError | None:
        if not is_same_user(writer.get_extra_info("socket")):
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

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        framing = Lines(REQUEST_BYTES)
        while True:
            async with asyncio.timeout(ASK_SECONDS):
                data = await reader.read(READ_BYTES)
            if not data:
                return
            for item in framing.feed(data):
                await _send(writer, await self._reply(item))
                if isinstance(item, Skipped):
                    return

    async def _reply(self, item: Item) -> bytes:
        try:
            return protocol.success(await self._do(protocol.read_request(item)))
        except ExthostError as error:
            return protocol.failure(error)

    # -- verbs -------------------------------------------------------------------------------

    async def _do(self, request: Request) -> Any:
        if request.verb == "status":
            return self._status(request.name)
        if self.ending:
            raise UsageError("X1378", "the host is ending", help="run it again: exthost run")
        extension = self._host[request.name]
        await _steer(extension, request.verb)
        return self._report.row(extension)

    def _status(self, name: str) -> dict[str, Any]:
        rows = [self._report.row(self._host[name])] if name else self._report.rows()
        about = {
            "pid": os.getpid(),
            "version": __version__,
            "config": self._config,
            "uptime": round(time.monotonic() - self._since, 3),
            "ending": self.ending,
        }
        return {"host": about, "extensions": rows}


async def _steer(extension: Extension, verb: str) -> None:
    if verb == "stop":
        await extension.drain()
    elif verb == "start" and extension.state in _ON_ITS_WAY:
        await extension.start()
    else:
        await extension.restart()


async def _send(writer: asyncio.StreamWriter, answer: bytes) -> None:
    writer.write(answer)
    async with asyncio.timeout(READ_SECONDS):
        await writer.drain()


# -- taking the place ------------------------------------------------------------------------


def _place(config: str, environ: Mapping[str, str]) -> Path:
    """The first place for the socket whose folder is, or can be made, ours."""
    refused: Refused | None = None
    for path in sockets(config, environ):
        try:
            private_folder(path.parent)
        except Refused as error:
            refused = refused or error
        else:
            return path
    assert refused is not None  # /tmp is never too long
    raise refused


def _take(lock: Path, config: str) -> int:
    """Hold the lock for as long as this process lives, or until it is let go."""
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
