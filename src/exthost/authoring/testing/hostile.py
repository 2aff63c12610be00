"""The hostile extension: a program that speaks any dialect and misbehaves on request. Tests of a
host start it as an extension.

    python -S -E -P hostile.py DIALECT [flag …]

    stubborn           ignores SIGTERM, and does not exit when its stdin ends
    stage=STAGE        performs the command of the flag `command` once, at this stage:
                         start       before it reads anything
                         handshake   instead of the reply to the first request
                         ready       after the reply to the last request of the handshake
                         eof         when its stdin has ended
    command=JSON       the command for that stage, such as {"do": "die", "code": 3}; `behaviours`
                       has a function for each value of `do`
    die_after=N        exits with status 9 at request N+1; requests of the handshake do not count
    pid_log=FILE       appends its process id, as a line, to this file at each start
    manifest=FILE      the extension's manifest, for a dialect whose handshake needs it
    path=FOLDERS       folders to import modules from that the dialect needs, as in PATH

After the handshake, each request carries a command as JSON: what to do in reply. How a request
carries a command is different in each dialect, so each dialect has an adapter, a `HostilePeer`
(see `exthost.dialects.hostile_peer`), which also answers the handshake.

The program has one thread and reads one request at a time, as most extensions do.
"""

import json
import os
import signal
import sys
from collections import deque
from pathlib import Path
from typing import Any

# Flag → its value, "" for a flag without one.
FLAGS = dict(argument.partition("=")[::2] for argument in sys.argv[2:])
if __name__ == "__main__":  # run by its path, so exthost need not be installed for this Python
    sys.path.insert(0, str(Path(__file__).parents[3]))
    if "path" in FLAGS:
        sys.path.extend(FLAGS["path"].split(os.pathsep))

from exthost.authoring.testing.behaviours import perform, wait_forever, write  # noqa: E402
from exthost.authoring.testing.peers import find_peer  # noqa: E402
from exthost.dialects import find  # noqa: E402
from exthost.dialects.codec import Positional, Role  # noqa: E402
from exthost.dialects.hostile_peer import Flags, HostilePeer  # noqa: E402
from exthost.model.messages import Failure, Id, Incoming, Reply, Request  # noqa: E402

# Larger than any host allows, so that the extension can send messages that are too large.
_MAX_MESSAGE_BYTES = 1 << 30

# The commands of the stages start, ready and eof answer no request. Their replies carry the id 0.
_NO_REQUEST = Request("", None, 0)


class HostileExtension:
    """The extension's side of one conversation.

    `adapter` translates commands to the dialect's messages, and `flags` are the command-line flags.
    Behaviours use this object as their `ReplyPort`.
    """

    def __init__(self, adapter: HostilePeer, flags: Flags) -> None:
        dialect = find.find_dialect(adapter.dialect)
        self._adapter = adapter
        self._flags = flags
        self._framing = dialect.framing(_MAX_MESSAGE_BYTES)
        self._codec = dialect.codec(Role.GUEST)  # the guest of a conversation is the extension
        self._received: deque[Incoming] = deque()
        self._handshake_began = False
        # While a command runs instead of a reply of the handshake: that reply.
        self._replaced_reply: Reply | Failure | None = None
        self._stage_command: Any = json.loads(flags.get("command", "{}"))

    # -- the methods of `ReplyPort` -------------------------------------------------------------

    def reply(self, id: Id | None, value: Any) -> None:
        write(self._frame(self._reply_with(id, value)))

    def fail(self, id: Id | None, text: str) -> None:
        write(self._frame(Failure(id, text)))

    def correct_frame(self, id: Id | None, value: Any) -> bytes:
        return self._frame(self._replaced_reply or self._reply_with(id, value))

    def request_frame(self) -> bytes:
        assert self._adapter.host_request is not None, (
            "in this dialect an extension sends no requests"
        )
        return self._frame(self._adapter.host_request)

    def _reply_with(self, id: Id | None, value: Any) -> Reply:
        return Reply(id, self._adapter.wrap_value(value))

    def _frame(self, message: Any) -> bytes:
        return self._framing.wrap(self._codec.encode(message))

    # -- the conversation -----------------------------------------------------------------------

    def serve(self) -> None:
        """Answer requests until stdin ends."""
        requests = 0
        self._perform_if_stage("start", _NO_REQUEST)
        while (message := self._next_message()) is not None:
            if not isinstance(message, Request):
                continue
            if self._answer_handshake(message):
                continue
            if message.method != self._adapter.method:
                write(self._frame(Failure(message.id, f"no method {message.method}", -32601)))
                continue
            if requests == int(self._flags.get("die_after", -1)):
                os._exit(9)
            requests += 1
            perform(self, message, self._adapter.unwrap_command(message.params))
        self._perform_if_stage("eof", _NO_REQUEST)
        if "stubborn" in self._flags:
            wait_forever()

    def _answer_handshake(self, request: Request) -> bool:
        """Answer a request of the handshake. Return False for any other request."""
        reply = self._adapter.answer_handshake(request, self._flags)
        if reply is None:
            return False
        is_first = not self._handshake_began
        self._handshake_began = True
        self._replaced_reply = reply
        if not (is_first and self._perform_if_stage("handshake", request)):
            write(self._frame(reply))
        self._replaced_reply = None
        if request.method == self._adapter.last_request:
            self._perform_if_stage("ready", _NO_REQUEST)
        return True

    def _perform_if_stage(self, stage: str, request: Request) -> bool:
        """Perform the command of the flags, if it is for this stage. Return whether it is."""
        if self._flags.get("stage") != stage:
            return False
        perform(self, request, self._stage_command)
        return True

    def _next_message(self) -> Incoming | None:
        """Return the next message of the host, or None when stdin has ended."""
        while not self._received:
            data = os.read(0, 1 << 16)
            if not data:
                return None
            for item in self._framing.feed(data):
                if isinstance(item, bytes | bytearray):
                    message = self._codec.decode(item)
                    if isinstance(message, Request) and isinstance(self._codec, Positional):
                        # A frame of such a dialect does not name its method. The codec knows the
                        # first request of the handshake; all later frames are commands.
                        self._codec.expect(self._adapter.method)
                    self._received.append(message)
        return self._received.popleft()


def main() -> None:
    """Run the hostile extension with the dialect and the flags of the command line."""
    if "stubborn" in FLAGS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "pid_log" in FLAGS:
        fd = os.open(FLAGS["pid_log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        write(b"%d\n" % os.getpid(), fd)
        os.close(fd)
    HostileExtension(find_peer(sys.argv[1]), FLAGS).serve()


if __name__ == "__main__":
    main()
