"""What echo.c does, for machines without a C compiler: slower, and the table says so.

    python echo.py          a morphir extension that echoes
    python echo.py --raw    sends every byte back

Runs as a script in a bare interpreter, so it imports nothing of ours.
"""

import json
import os
import sys

READ_BYTES = 65536
OFFER = b'[{"name":"echo","description":"Returns its params"}]'


def send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def answer(line: bytes) -> bytes:
    """The reply to one request in exthost's member order; params is the last member."""
    head, found, params = line.partition(b'"params":')
    if not found:
        sys.stderr.write(f"echo: not a request: {line[:80]!r}\n")
        return b""
    asked = json.loads(head + b'"params":0}')
    match asked["method"]:
        case "initialize":
            result = b"{}"
        case "capabilities":
            result = OFFER
        case "big":
            result = b'"' + b"x" * int(params.rstrip()[:-1]) + b'"'
        case _:
            result = params.rstrip()[:-1]
    return b'{"id":%d,"result":%b}\n' % (asked["id"], result)


def serve_lines() -> None:
    kept = bytearray()
    searched = 0
    while data := os.read(0, READ_BYTES):
        kept += data
        replies = []
        start = 0
        while (stop := kept.find(b"\n", searched)) >= 0:
            replies.append(answer(bytes(kept[start:stop])))
            start = searched = stop + 1
        del kept[:start]
        searched = len(kept)
        send(b"".join(replies))


def serve_bytes() -> None:
    while data := os.read(0, READ_BYTES):
        send(data)


if __name__ == "__main__":
    try:
        serve_bytes() if sys.argv[1:] == ["--raw"] else serve_lines()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
