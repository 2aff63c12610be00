"""A program that plays the extension's side of a test vector's script, in any dialect.

    python -m exthost.authoring.testing.scripted_child SCRIPT.json

The file has `{"module": …, "steps": [line, …]}`. The module has the dialect as DIALECT, whose own
framing and codec are used. A step is one of these lines (messages as in `vector_notation`):

    > message              reads a message, which must be this one
    < message              sends this message; a reply without an id answers the last request
    ! exit N               exits with this status
    ! stderr TEXT          writes a line to stderr
    ! write "JSON string"  writes the string to stdout, without framing
    ! silence              asks the test, by a line on stderr, to move the host's clock past a
                           time limit

If the host does not follow the script, the program writes the reason to stderr and exits with 9.
After the last step it reads until its stdin ends. Only messages of the dialect's shutdown steps may
still come then; it replies to the requests among them.
"""

import importlib
import json
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any, NoReturn

from exthost.authoring.testing.vector_notation import (
    MessagePattern,
    parse_message_pattern,
    split_messages,
)
from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.model.messages import Message, Noise, Reply, Request
from exthost.model.shutdown_steps import Say

# How lines on stderr begin that say why the script failed.
FAILURE_PREFIX = "scripted child:"
# The line on stderr for `! silence`.
SILENCE_LINE = "scripted child is silent"
MAX_MESSAGE_BYTES = 64 * 2**20


class ScriptedChild:
    """The extension's side of one conversation."""

    def __init__(self, dialect: Dialect) -> None:
        self._framing = dialect.framing(MAX_MESSAGE_BYTES)
        self._codec = dialect.codec(Role.GUEST)  # the guest of a conversation is the extension
        self._received: deque[Message] = deque()
        self._last_request_id: Any = None
        self._shutdown_messages = [
            step.message[:2] for step in dialect.traits.shutdown_steps if isinstance(step, Say)
        ]

    def play(self, steps: list[str]) -> None:
        """Perform the steps, and read until stdin ends."""
        for line in steps:
            sign, _, rest = line.partition(" ")
            if sign == ">":
                self._read_expected(parse_message_pattern(rest))
            elif sign == "<":
                self._send(parse_message_pattern(rest))
            elif sign == "!":
                perform_action(rest)
            else:
                fail_script(f"cannot read the step {line!r}")
        while (message := self._next_message()) is not None:
            if message[:2] not in self._shutdown_messages:
                fail_script(f"received more than the script has: {message}")
            if isinstance(message, Request):
                write(self._framing.wrap(self._codec.encode(Reply(message.id, None))))

    def _read_expected(self, expected: MessagePattern) -> None:
        if isinstance(self._codec, Positional) and expected.type_name == "Request":
            # A frame of such a dialect does not name its method.
            self._codec.expect(expected.fields["method"])
        message = self._next_message()
        if not expected.matches(message):
            fail_script(f"expected {expected}, received {message}")
        if isinstance(message, Request):
            self._last_request_id = message.id

    def _send(self, pattern: MessagePattern) -> None:
        payload = self._codec.encode(pattern.build(self._last_request_id))
        write(self._framing.wrap(payload))

    def _next_message(self) -> Message | None:
        """Return the next message of the host, or None when stdin has ended."""
        while not self._received:
            data = os.read(0, 65536)
            if not data:
                return None
            for item in self._framing.feed(data):
                if not isinstance(item, bytes | bytearray):
                    fail_script(f"received something that is no frame: {item}")
                for message in split_messages(self._codec.decode(item)):
                    if isinstance(message, Noise):
                        fail_script(f"received something that is no message: {message}")
                    self._received.append(message)
        return self._received.popleft()


def perform_action(line: str) -> None:
    """Perform a `!` step, given without its `!`."""
    verb, _, rest = line.partition(" ")
    if verb == "exit":
        os._exit(int(rest))
    elif verb == "stderr":
        os.write(2, rest.encode() + b"\n")
    elif verb == "silence":
        os.write(2, SILENCE_LINE.encode() + b"\n")
    elif verb == "write":
        write(json.loads(rest).encode())
    else:
        fail_script(f"cannot do {line!r}")


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def fail_script(text: str) -> NoReturn:
    """Report on stderr why the script failed, and exit."""
    os.write(2, f"{FAILURE_PREFIX} {text}\n".encode())
    os._exit(9)


def main() -> None:
    script = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    ScriptedChild(importlib.import_module(script["module"]).DIALECT).play(script["steps"])


if __name__ == "__main__":
    main()
