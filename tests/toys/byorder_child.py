"""The extension of the toy dialect `byorder`, a protocol for tests without ids in its messages.

It never sleeps: the answer to `hold` is sent only when another request comes, before the answer to
that request. A host that uses the process after it abandoned a call would confuse both answers.
It imports only the standard library, and is run with -S -E.
"""

import json
import os
import struct
import sys
from typing import Any

KEPT: list[Any] = []  # answers that are sent when the next request comes
HEARD: list[list[Any]] = []  # the method and the length of each request
PLANNED: Any = None  # the answer to the last request, if that was "plan"


def read_bytes(size: int) -> bytes:
    data = b""
    while len(data) < size:
        data_read = os.read(0, size - len(data))
        if not data_read:
            sys.exit(0)
        data += data_read
    return data


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def write_frame(payload: bytes) -> None:
    write(struct.pack(">I", len(payload)) + payload)


def answer(value: Any) -> None:
    write_frame(b"" if value is None else json.dumps(value).encode())


def serve(verb: str, params: Any) -> None:
    global PLANNED
    last_plan, PLANNED = PLANNED, None
    if verb == "hello":
        answer({"protocol": 1, "name": "toy"} if "old" not in sys.argv else {"protocol": 7})
    elif verb == "ping":
        answer(None)
    elif verb == "say":
        answer(params)
    elif verb == "plan":
        if params == "impossible":
            answer({"fault": "cannot be done"})
        elif params == "held":
            KEPT.append({"parts": ["held"]})
        else:
            PLANNED = {"parts": [f"{params}-{n}" for n in range(3)]}
            answer(PLANNED)
    elif verb == "build":
        if params["parts"][0] == "held-build-0":
            KEPT.append("late")
        elif params["parts"][0] == "fatal-0":
            os.write(2, b"the build broke me\n")
            os._exit(3)
        elif params != last_plan:
            write_frame(b"!built without its plan")
        else:
            answer({"built": params["parts"], "pid": os.getpid()})
    elif verb == "hold":
        KEPT.append(params)
    elif verb == "twice":
        answer(params)
        answer("once more")
    elif verb == "garble":
        write_frame(b"\xff\xfe{")
    elif verb == "overrun":
        write(b"\xff\xff\xff\xff")
    elif verb == "refuse":
        write_frame(b"!" + params.encode())
    elif verb == "die":
        write(struct.pack(">I", 100) + b"only the beginning")
        os._exit(params)
    elif verb == "heard":
        answer(HEARD[1:-1])


while True:
    (length,) = struct.unpack(">I", read_bytes(4))
    payload = read_bytes(length)
    verb, _, rest = payload.partition(b" ") if payload else (b"ping", b"", b"null")
    HEARD.append([verb.decode(), length])
    if verb != b"hold":
        for late in KEPT:
            answer(late)
        KEPT.clear()
    serve(verb.decode(), json.loads(rest))
