"""A program that plays the extension's side of a test vector's script, in any dialect.

    python -m exthost.authoring.testing.scripted_child SCRIPT.json

A test vector is a test case of a dialect, as data; `vectors.processes` starts this program for each
vector with a script. The file has `{"module": …, "steps": [line, …]}`. The module has the dialect
as DIALECT, whose own framing and codec are used. A step is one of these lines (messages as in
`vector_notation`):

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

from exthost.authoring.testing.vector_notation import MessagePattern, parse_message_pattern, shorten
from exthost.dialects.base import Dialect
from exthost.dialects.codec import Role
from exthost.model.messages import Message, Request
from exthost.model.shutdown_steps import Say
from exthost.session.conversation import Conversation
from exthost.session.effects import Effect, Notified, ServeRequest
from exthost.wire.framing import Item

# How lines on stderr begin that say why the script failed.
FAILURE_PREFIX = "scripted child:"
# The line on stderr for `! silence`.
SILENCE_LINE = "scripted child is silent"
MAX_MESSAGE_BYTES = 64 * 2**20


class ScriptFailed(AssertionError):
    """One end did not follow the script."""


class ScriptedGuest:
    """The extension's end of one conversation that follows a script. (In a conversation the host
    and the guest, which is the extension, exchange messages.) Does no I/O."""

    def __init__(self, dialect: Dialect) -> None:
        self._conversation = Conversation(dialect, MAX_MESSAGE_BYTES, role=Role.GUEST)
        self._items: deque[Item] = deque()  # received and not decoded
        self._messages: deque[Message] = deque()  # decoded and not returned
        self._last_request_id: Any = None

    def feed(self, data: bytes) -> None:
        """Take bytes that the host has written."""
        self._items += self._conversation.framing.feed(data)

    @property
    def has_items(self) -> bool:
        """Whether the host has written more than was returned."""
        return bool(self._items or self._messages)

    def expect(self, expected: MessagePattern) -> None:
        """Prepare for this message, before `next_message`."""
        if expected.type_name == "Request":
            self._conversation.expect(expected.fields["method"])

    def next_message(self) -> Message | None:
        """Return the next message of the host; None if it needs more bytes. Raises ScriptFailed for
        anything that is not a message, and for a reply that no request awaits."""
        while not self._messages:
            if not self._items:
                return None
            for effect in self._conversation.receive([self._items.popleft()]):
                self._messages += _messages_of(effect)
        message = self._messages.popleft()
        if isinstance(message, Request):
            self._last_request_id = message.id
        return message

    def encode(self, pattern: MessagePattern) -> bytes:
        """Return the frame of this message. A reply without an id answers the last request."""
        return self._conversation.encode(pattern.build(self._last_request_id))


def _messages_of(effect: Effect) -> list[Message]:
    match effect:
        case list():
            return [answer._replace(id=call.id) for call, answer in effect]
        case ServeRequest(request):
            return [request]
        case Notified(notification):
            return [notification]
    raise ScriptFailed(f"received something that is not a message: {shorten(effect)}")


class ScriptedChild:
    """The extension's end of one conversation, on stdin and stdout."""

    def __init__(self, dialect: Dialect) -> None:
        self._guest = ScriptedGuest(dialect)
        # The method and the params of each, as the first two fields of a message.
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
                write(self._guest.encode(parse_message_pattern(rest)))
            elif sign == "!":
                perform_action(rest)
            else:
                fail_script(f"cannot read the step {line!r}")
        while (message := self._next_message()) is not None:
            if message[:2] not in self._shutdown_messages:
                fail_script(f"received more than the script has: {shorten(message)}")
            if isinstance(message, Request):
                write(self._guest.encode(MessagePattern("Reply", {"result": None})))

    def _read_expected(self, expected: MessagePattern) -> None:
        self._guest.expect(expected)
        message = self._next_message()
        if not expected.matches(message):
            fail_script(f"expected {shorten(expected)}, received {shorten(message)}")

    def _next_message(self) -> Message | None:
        """Return the next message of the host, or None when stdin has ended."""
        while (message := self._guest.next_message()) is None:
            data = os.read(0, 65536)
            if not data:
                return None
            self._guest.feed(data)
        return message


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
    child = ScriptedChild(importlib.import_module(script["module"]).DIALECT)
    try:
        child.play(script["steps"])
    except ScriptFailed as failed:
        fail_script(str(failed))


if __name__ == "__main__":
    main()
