"""Serves a host in a blocking loop, for an extension without asynchronous handlers.

Each iteration reads, calls the handlers and writes the replies. The replies to requests that
arrived in one read are written together, unless the handlers take long.
"""

import os
import sys
import time
from collections.abc import Callable

from exthost_sdk.serving.server import Server
from exthost_sdk.wire.framing import FrameSplitter

_READ_BYTES = 65536

# A reply waits at most this long for the replies to other requests of the same read.
_TOGETHER_SECONDS = 0.001


def serve_blocking(
    server: Server,
    fd: int,
    framing: FrameSplitter,
    receive: Callable[[bytes], bytes | None],
    first: bytes = b"",
) -> None:
    """Serve until the input ends, a shutdown message arrives, or the output is closed. `first` are
    bytes that were read already."""
    # Local variables are faster than attributes, and every call goes through this loop.
    read, feed, send, clock = os.read, framing.feed, server.writer.send, time.monotonic
    writer = server.writer
    try:
        while not server.is_stopping() and not writer.is_broken:
            data = first or read(fd, _READ_BYTES)
            first = b""
            if not data:
                break
            frames = feed(data)
            if len(frames) == 1:
                reply = receive(frames[0])
                if reply is not None:
                    send(reply)
                continue
            replies: list[bytes] = []
            began = clock()
            for frame in frames:
                reply = receive(frame)
                if reply is not None:
                    replies.append(reply)
                    if clock() - began > _TOGETHER_SECONDS:
                        send(b"".join(replies))
                        replies.clear()
                        began = clock()
                if server.is_stopping():
                    break
            if replies:
                send(b"".join(replies))
        if (rest := framing.rest()) and not server.is_stopping():
            reply = receive(rest)  # the last line of a file may lack its line break
            if reply is not None:
                send(reply)
    except ConnectionResetError:
        pass  # stdin is a socket, and the host has closed it without reading all output
    except ValueError as error:
        print(f"exthost.sdk: the input cannot be read: {error}", file=sys.stderr)


def finish_blocking(server: Server, grace_seconds: float, cancel_seconds: float) -> bool:
    """Wait `grace_seconds` for running calls to end, then cancel them and wait `cancel_seconds`.
    Return whether all have ended. After a shutdown message they are cancelled at once."""
    ended = server.wait_until_idle(0 if server.is_stopping() else grace_seconds)
    if not ended:
        server.cancel_all()
        ended = server.wait_until_idle(cancel_seconds)
    server.close()
    return ended
