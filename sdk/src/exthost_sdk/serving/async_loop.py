"""Serves a host on an event loop, for an extension with asynchronous handlers.

The event loop runs on the thread that calls `Extension.run`. Usually that is the main thread, so
signals and child processes work as asyncio documents them. A synchronous handler without
`thread=True` blocks the event loop while it runs.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from exthost_sdk.serving.call import CallEndpoint
from exthost_sdk.serving.daemon_executor import DaemonExecutor
from exthost_sdk.serving.server import Server
from exthost_sdk.wire.descriptors import Wire
from exthost_sdk.wire.framing import FrameSplitter
from exthost_sdk.wire.loop_writer import LoopWriter
from exthost_sdk.wire.writer import Sent

_READ_BYTES = 65536

# Back-pressure: with more unwritten output than this, no more input is read.
_MAX_UNWRITTEN_BYTES = 8 * 1024 * 1024


class FrameEndpoint(CallEndpoint, Protocol):
    """What the loop needs from an endpoint; see `Endpoint`."""

    @property
    def framing(self) -> type[FrameSplitter]: ...

    def receive(self, frame: bytes) -> bytes | None: ...


def run_async(
    make_endpoint: Callable[[Server], FrameEndpoint],
    wire: Wire,
    *,
    max_threads: int,
    grace_seconds: float,
    cancel_seconds: float,
    on_stuck: Callable[[], None],
    first: bytes = b"",
) -> None:
    """Serve a host until it ends the connection. `on_stuck` is called if calls do not end even when
    they are cancelled. `first` are bytes that were read already."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(DaemonExecutor(cancel_seconds))
        server = Server(LoopWriter(wire.writer, loop), loop=loop, max_threads=max_threads)
        endpoint = make_endpoint(server)
        server.endpoint = endpoint
        await serve_async(server, wire.reader, endpoint.framing(), endpoint.receive, first)
        if not await finish_async(server, grace_seconds, cancel_seconds):
            on_stuck()

    with asyncio.Runner() as runner:
        runner.run(main())


async def serve_async(
    server: Server,
    fd: int,
    framing: FrameSplitter,
    receive: Callable[[bytes], bytes | None],
    first: bytes = b"",
) -> None:
    """Serve until the input ends, a shutdown message arrives, or the output is closed. `first` are
    bytes that were read already."""
    finished = asyncio.get_running_loop().create_future()
    reader = _Reader(server, fd, framing, receive, finished)
    try:
        if first:
            reader.handle_data(first)
        if not finished.done():
            reader.start()
        await finished
    except ValueError as error:
        print(f"exthost.sdk: the input cannot be read: {error}", file=sys.stderr)
    finally:
        reader.stop()


class _Reader:
    """Reads a file descriptor when it is readable. An event loop cannot watch a regular file, so
    that is read in a thread. `finished` is set when there is nothing more to read."""

    def __init__(
        self,
        server: Server,
        fd: int,
        framing: FrameSplitter,
        receive: Callable[[bytes], bytes | None],
        finished: "asyncio.Future[None]",
    ) -> None:
        self._server = server
        self._fd = fd
        self._framing = framing
        self._receive = receive
        self._finished = finished
        self._loop = finished.get_loop()
        self._is_watched = False

    def start(self) -> None:
        try:
            self._loop.add_reader(self._fd, self._on_readable)
            self._is_watched = True
        except PermissionError:  # a regular file
            threading.Thread(target=self._read_file, name="exthost-reader", daemon=True).start()

    def stop(self) -> None:
        if self._is_watched:
            self._loop.remove_reader(self._fd)
            self._is_watched = False

    def _read_file(self) -> None:
        """Read a regular file to its end, on a separate thread."""
        data = b" "  # not b"", which is the end of input
        while data and not self._finished.done():
            data = os.read(self._fd, _READ_BYTES)
            self._loop.call_soon_threadsafe(self.handle_data, data)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except ConnectionResetError:  # a host has closed its socket without reading all output
            data = b""
        self.handle_data(data)

    def handle_data(self, data: bytes) -> None:
        """Handle bytes that were read; b"" is the end of input."""
        if self._finished.done():
            return
        server = self._server
        try:
            frames = self._framing.feed(data) if data else []
            if not data and (rest := self._framing.rest()):  # the end, with bytes left over
                frames = [rest]  # the last line of a file may lack its line break
            for frame in frames:
                reply = self._receive(frame)
                if reply is not None:
                    server.writer.send(reply)
                if server.is_stopping():
                    break
        except BaseException as error:
            self._finished.set_exception(error)
            return
        if not data or server.is_stopping() or server.writer.is_broken:
            self._finished.set_result(None)
            return
        writer = server.writer
        if isinstance(writer, LoopWriter) and writer.unwritten > _MAX_UNWRITTEN_BYTES:
            self._pause(writer)

    def _pause(self, writer: LoopWriter) -> None:
        """Stop reading until the host has read enough."""
        if not self._is_watched:
            return
        self.stop()

        async def resume() -> None:
            await Sent(writer)
            if not self._finished.done():
                self.start()

        # The event loop keeps only a weak reference to a task.
        self._resume_task = self._loop.create_task(resume())


async def finish_async(server: Server, grace_seconds: float, cancel_seconds: float) -> bool:
    """Wait `grace_seconds` for running calls to end, then cancel them and wait `cancel_seconds`.
    Return whether all have ended. After a shutdown message they are cancelled at once."""
    ended = await server.wait_until_idle_async(0 if server.is_stopping() else grace_seconds)
    if not ended:
        server.cancel_all()
        ended = await server.wait_until_idle_async(cancel_seconds)
    server.close()
    if isinstance(server.writer, LoopWriter):
        try:
            async with asyncio.timeout(cancel_seconds):
                await server.writer.close()
        except TimeoutError:
            server.writer.abandon()
    return ended
