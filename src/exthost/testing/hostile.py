"""The hostile extension: a program that speaks any dialect and misbehaves on request.

    python -S -E -P hostile.py DIALECT [flag …]

    stubborn           ignores SIGTERM, and the end of its stdin
    at=STAGE           start, handshake (its first question), ready or eof: there it does what
    words=JSON         these words say (see `misdeeds`), instead of what would be right
    die_after=N        exits when it is asked for the N+1st time
    marks=FILE         a line with its pid for each process that was started
    manifest=FILE      the dialect's manifest, where its handshake needs one
    path=FOLDER        where modules are that the dialect needs

What it does in answer to a request is said by the request. It is its own process's only thread and
reads one request at a time, as most extensions do.
"""

import json
import os
import signal
import sys
from collections import deque
from pathlib import Path
from typing import Any

FLAGS = dict(word.partition("=")[::2] for word in sys.argv[2:])
if __name__ == "__main__":  # by its path, so that nothing need be installed where it runs
    sys.path.insert(0, str(Path(__file__).parents[2]))
    if "path" in FLAGS:
        sys.path.append(FLAGS["path"])

from exthost.dialects import find  # noqa: E402
from exthost.dialects.codec import Positional  # noqa: E402
from exthost.dialects.hostile_peer import Flags, HostilePeer  # noqa: E402
from exthost.messages import Failure, Id, Incoming, Reply, Request  # noqa: E402
from exthost.model import Role  # noqa: E402
from exthost.testing.misdeeds import commit, for_ever, write  # noqa: E402
from exthost.testing.peers import find_peer  # noqa: E402

# Larger than any host allows: what it may not say it must be able to.
_CAP = 1 << 30


class Hostile:
    """One conversation, from the extension's end."""

    def __init__(self, peer: HostilePeer, flags: Flags) -> None:
        dialect = find.find_dialect(peer.dialect)
        self._peer = peer
        self._flags = flags
        self._framing = dialect.framing(_CAP)
        self._codec = dialect.codec(Role.GUEST)
        self._heard: deque[Incoming] = deque()
        self._asked_to_shake = False
        self._words: Any = json.loads(flags.get("words", "{}"))

    # What misdeeds need.

    def answer(self, id: Id | None, value: Any) -> None:
        write(self.frame_of_answer(id, value))

    def refuse(self, id: Id | None, text: str) -> None:
        write(self._frame(Failure(id, text)))

    def frame_of_answer(self, id: Id | None, value: Any) -> bytes:
        return self._frame(Reply(id, self._peer.wrap_value(value)))

    def frame_of_question(self) -> bytes:
        assert self._peer.host_request is not None, "this dialect has no questions of the child's"
        return self._frame(self._peer.host_request)

    def _frame(self, message: Any) -> bytes:
        return self._framing.wrap(self._codec.encode(message))

    # Its life.

    def serve(self) -> None:
        """Until its stdin ends."""
        asked = 0
        self._stage("start", Request("", None, 0))
        while (message := self._next()) is not None:
            if not isinstance(message, Request):
                continue
            if self._shakes(message):
                continue
            if message.method != self._peer.method:
                write(self._frame(Failure(message.id, f"no method {message.method}", -32601)))
                continue
            if asked == int(self._flags.get("die_after", -1)):
                os._exit(9)
            asked += 1
            commit(self, message, self._peer.unwrap_command(message.params))
        self._stage("eof", Request("", None, 0))
        if "stubborn" in self._flags:
            for_ever()

    def _shakes(self, request: Request) -> bool:
        reply = self._peer.answer_handshake(request, self._flags)
        if reply is None:
            return False
        first, self._asked_to_shake = not self._asked_to_shake, True
        if not (first and self._stage("handshake", request)):
            write(self._frame(reply))
        if request.method == self._peer.last_request:
            if isinstance(self._codec, Positional):
                self._codec.expect(self._peer.method)
            self._stage("ready", Request("", None, 0))
        return True

    def _stage(self, name: str, request: Request) -> bool:
        """What the flags say about this moment; True if they say anything."""
        if self._flags.get("at") != name:
            return False
        commit(self, request, self._words)
        return True

    def _next(self) -> Incoming | None:
        while not self._heard:
            data = os.read(0, 1 << 16)
            if not data:
                return None
            for item in self._framing.feed(data):
                if isinstance(item, bytes | bytearray):
                    heard = self._codec.decode(item)
                    if isinstance(heard, Request) and isinstance(self._codec, Positional):
                        self._codec.expect(self._peer.method)
                    self._heard.append(heard)
        return self._heard.popleft()


def main() -> None:
    """Live, as the command line says."""
    if "stubborn" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "marks" in FLAGS:
        fd = os.open(FLAGS["marks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        write(b"%d\n" % os.getpid(), fd)
        os.close(fd)
    Hostile(find_peer(sys.argv[1]), FLAGS).serve()


if __name__ == "__main__":
    main()
