"""The hostile extension: a program that speaks any dialect and misbehaves on request.

    python -S -E -P hostile.py DIALECT [flag …]

    stubborn           ignores SIGTERM, and the end of its stdin
    words=JSON         a command, see `behaviours`
    at=STAGE           the stage at which it performs that command instead of the correct behaviour:
                       start, handshake (the first request), ready or eof
    die_after=N        exits at request N+1
    marks=FILE         appends a line with its pid to this file
    manifest=FILE      the dialect's manifest, if its handshake needs one
    path=FOLDER        a folder with modules that the dialect needs

Each request says what to do in reply. The program has one thread and reads one request at a time,
as most extensions do.
"""

import json
import os
import signal
import sys
from collections import deque
from pathlib import Path
from typing import Any

FLAGS = dict(word.partition("=")[::2] for word in sys.argv[2:])
if __name__ == "__main__":  # run by its path: nothing needs to be installed
    sys.path.insert(0, str(Path(__file__).parents[2]))
    if "path" in FLAGS:
        sys.path.append(FLAGS["path"])

from exthost.dialects import find  # noqa: E402
from exthost.dialects.codec import Positional, Role  # noqa: E402
from exthost.dialects.hostile_peer import Flags, HostilePeer  # noqa: E402
from exthost.messages import Failure, Id, Incoming, Reply, Request  # noqa: E402
from exthost.testing.behaviours import perform, wait_forever, write  # noqa: E402
from exthost.testing.peers import find_peer  # noqa: E402

# Larger than any host allows, so that too large messages can be sent.
_MAX_MESSAGE = 1 << 30


class Hostile:
    """The extension's side of one conversation."""

    def __init__(self, peer: HostilePeer, flags: Flags) -> None:
        dialect = find.find_dialect(peer.dialect)
        self._peer = peer
        self._flags = flags
        self._framing = dialect.framing(_MAX_MESSAGE)
        self._codec = dialect.codec(Role.GUEST)
        self._received: deque[Incoming] = deque()
        self._handshake_began = False
        self._command: Any = json.loads(flags.get("words", "{}"))

    # The `ReplyPort` of behaviours.

    def reply(self, id: Id | None, value: Any) -> None:
        write(self.reply_frame(id, value))

    def fail(self, id: Id | None, text: str) -> None:
        write(self._frame(Failure(id, text)))

    def reply_frame(self, id: Id | None, value: Any) -> bytes:
        return self._frame(Reply(id, self._peer.wrap_value(value)))

    def request_frame(self) -> bytes:
        assert self._peer.host_request is not None, "in this dialect the child sends no requests"
        return self._frame(self._peer.host_request)

    def _frame(self, message: Any) -> bytes:
        return self._framing.wrap(self._codec.encode(message))

    def serve(self) -> None:
        """Serve requests until stdin ends."""
        requests = 0
        self._stage("start", Request("", None, 0))
        while (message := self._next()) is not None:
            if not isinstance(message, Request):
                continue
            if self._handshake(message):
                continue
            if message.method != self._peer.method:
                write(self._frame(Failure(message.id, f"no method {message.method}", -32601)))
                continue
            if requests == int(self._flags.get("die_after", -1)):
                os._exit(9)
            requests += 1
            perform(self, message, self._peer.unwrap_command(message.params))
        self._stage("eof", Request("", None, 0))
        if "stubborn" in self._flags:
            wait_forever()

    def _handshake(self, request: Request) -> bool:
        reply = self._peer.answer_handshake(request, self._flags)
        if reply is None:
            return False
        first, self._handshake_began = not self._handshake_began, True
        if not (first and self._stage("handshake", request)):
            write(self._frame(reply))
        if request.method == self._peer.last_request:
            if isinstance(self._codec, Positional):
                self._codec.expect(self._peer.method)
            self._stage("ready", Request("", None, 0))
        return True

    def _stage(self, name: str, request: Request) -> bool:
        """Perform the command of the flags at this stage. Return False if they have none."""
        if self._flags.get("at") != name:
            return False
        perform(self, request, self._command)
        return True

    def _next(self) -> Incoming | None:
        while not self._received:
            data = os.read(0, 1 << 16)
            if not data:
                return None
            for item in self._framing.feed(data):
                if isinstance(item, bytes | bytearray):
                    message = self._codec.decode(item)
                    if isinstance(message, Request) and isinstance(self._codec, Positional):
                        self._codec.expect(self._peer.method)
                    self._received.append(message)
        return self._received.popleft()


def main() -> None:
    """Run as the command line says."""
    if "stubborn" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "marks" in FLAGS:
        fd = os.open(FLAGS["marks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        write(b"%d\n" % os.getpid(), fd)
        os.close(fd)
    Hostile(find_peer(sys.argv[1]), FLAGS).serve()


if __name__ == "__main__":
    main()
