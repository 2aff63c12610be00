"""A child that plays its part of a script, in any dialect, by that dialect's own guest codec.

    python -m exthost.testing.scripted_child SCRIPT.json      {"module": …, "steps": [line, …]}

    > message              the next message must be this one; else it complains and exits with 9
    < message              sends this; a reply without an id gets that of the last request read
    ! exit N               exits with this status
    ! stderr TEXT          writes a line to stderr
    ! write "JSON string"  writes these bytes to stdout
    ! silence              tells the runner on stderr to move the host's clock past a time limit

After the last step it reads until its stdin ends. Only messages of the shutdown steps may still
come; it replies to requests among them.
"""

import importlib
import json
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any, NoReturn

from exthost.dialects.base import Dialect
from exthost.dialects.codec import Positional, Role
from exthost.messages import Message, Noise, Reply, Request
from exthost.shutdown_steps import Say
from exthost.testing.vector_notation import Stated, messages_in, parse_message

COMPLAINT = "scripted child:"
SILENCE = "scripted child is silent"
MAX_MESSAGE = 64 * 2**20


class Child:
    """One conversation, from the child's end."""

    def __init__(self, dialect: Dialect) -> None:
        self._framing = dialect.framing(MAX_MESSAGE)
        self._codec = dialect.codec(Role.GUEST)
        self._heard: deque[Message] = deque()
        self._last_request_id: Any = None
        self._shutdown = [
            step.message[:2] for step in dialect.traits.shutdown_steps if isinstance(step, Say)
        ]

    def play(self, steps: list[str]) -> None:
        for line in steps:
            sign, _, rest = line.partition(" ")
            if sign == ">":
                self._expect(parse_message(rest))
            elif sign == "<":
                self._say(parse_message(rest))
            elif sign == "!":
                act(rest)
            else:
                complain(f"cannot read the step {line!r}")
        while (message := self._hear()) is not None:
            if message[:2] not in self._shutdown:
                complain(f"heard more than the script has: {message}")
            if isinstance(message, Request):
                write(self._framing.wrap(self._codec.encode(Reply(message.id, None))))

    def _expect(self, stated: Stated) -> None:
        if isinstance(self._codec, Positional) and stated.kind == "Request":
            self._codec.expect(stated.fields["method"])
        message = self._hear()
        if not stated.fits(message):
            complain(f"expected {stated}, heard {message}")
        if isinstance(message, Request):
            self._last_request_id = message.id

    def _say(self, stated: Stated) -> None:
        payload = self._codec.encode(stated.message(self._last_request_id))
        write(self._framing.wrap(payload))

    def _hear(self) -> Message | None:
        while not self._heard:
            data = os.read(0, 65536)
            if not data:
                return None
            for item in self._framing.feed(data):
                if not isinstance(item, bytes | bytearray):
                    complain(f"heard something that is no frame: {item}")
                for message in messages_in(self._codec.decode(item)):
                    if isinstance(message, Noise):
                        complain(f"heard something that is no message: {message}")
                    self._heard.append(message)
        return self._heard.popleft()


def act(words: str) -> None:
    verb, _, rest = words.partition(" ")
    if verb == "exit":
        os._exit(int(rest))
    elif verb == "stderr":
        os.write(2, rest.encode() + b"\n")
    elif verb == "silence":
        os.write(2, SILENCE.encode() + b"\n")
    elif verb == "write":
        write(json.loads(rest).encode())
    else:
        complain(f"cannot do {words!r}")


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def complain(text: str) -> NoReturn:
    os.write(2, f"{COMPLAINT} {text}\n".encode())
    os._exit(9)


def main() -> None:
    script = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Child(importlib.import_module(script["module"]).DIALECT).play(script["steps"])


if __name__ == "__main__":
    main()
