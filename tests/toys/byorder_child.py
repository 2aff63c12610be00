"""The child of the toy dialect `byorder`. Standard library only; run with -S -E.

It never sleeps: `hold` holds its answer back until a request of another kind comes, and then sends
both, in order. A host that goes on after it gave a call up would confuse the two.
"""

import json
import os
import struct
import sys
from typing import Any

KEPT: list[Any] = []
HEARD: list[list[Any]] = []
PLANNED: Any = None


def read(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def frame(payload: bytes) -> None:
    write(struct.pack(">I", len(payload)) + payload)


def answer(value: Any) -> None:
    frame(b"" if value is None else json.dumps(value).encode())


def serve(verb: str, params: Any) -> None:
    global PLANNED
    planned, PLANNED = PLANNED, None
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
        elif params != planned:
            frame(b"!built without its plan")
        else:
            answer({"built": params["parts"], "pid": os.getpid()})
    elif verb == "hold":
        KEPT.append(params)
    elif verb == "twice":
        answer(params)
        answer("once more")
    elif verb == "garble":
        frame(b"\xff\xfe{")
    elif verb == "overrun":
        write(b"\xff\xff\xff\xff")
    elif verb == "refuse":
        frame(b"!" + params.encode())
    elif verb == "die":
        write(struct.pack(">I", 100) + b"only the beginning")
        os._exit(params)
    elif verb == "heard":
        answer(HEARD[1:-1])


while True:
    (length,) = struct.unpack(">I", read(4))
    payload = read(length)
    verb, _, rest = payload.partition(b" ") if payload else (b"ping", b"", b"null")
    HEARD.append([verb.decode(), length])
    if verb != b"hold":
        for late in KEPT:
            answer(late)
        KEPT.clear()
    serve(verb.decode(), json.loads(rest))
