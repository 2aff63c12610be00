"""A pipe with faults: records a conversation, and plays the extension's part of it back, spoilt.

    python -S -E -P shim.py record FILE -- COMMAND …     between a host and an extension
    python -S -E -P shim.py play FILE FAULT AT           in place of the extension

    cut        the output ends before byte AT, and the process lives on
    truncate   the same, and it exits
    delay      before byte AT it waits for a moment, then goes on
    repeat     byte AT comes twice
    flip       byte AT comes with one bit turned over
    drop       byte AT does not come at all

A recording is what went either way, in order. Played back, each of the extension's pieces is
written when as many bytes have come in as had when it was recorded; what they are does not matter,
so the same host must be asked the same things. Knows no dialect; standard library only.
"""

import os
import signal
import sys
import time

# Long enough for the host to have read what came before.
DELAY_SECONDS = 0.005

FAULTS = ("cut", "truncate", "delay", "repeat", "flip", "drop")


def record(file: str, command: list[str]) -> int:
    """Pass everything on, and write down how many bytes had come in and what was answered, a line
    each, in hex."""
    import select  # a playback, of which there are thousands, does without both
    import subprocess

    kept = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        came = 0
        out = child.stdout.fileno()
        ways = {0: child.stdin.fileno(), out: 1}
        while ways:
            for fd in select.select(list(ways), [], [])[0]:
                data = os.read(fd, 65536)
                if not data:
                    if fd == 0:
                        child.stdin.close()
                    del ways[fd]
                    if fd == out:
                        ways.clear()
                    continue
                if fd == 0:
                    came += len(data)
                else:
                    _write(f"{came} {data.hex()}\n".encode(), kept)
                _write(data, ways.get(fd, 1))
        return child.wait()


def play(file: str, fault: str, at: int) -> None:
    """The extension's part, with a fault."""
    came = written = 0
    for needed, text in pieces(file):
        while came < needed:
            data = os.read(0, 65536)
            if not data:
                return
            came += len(data)
        piece = bytes.fromhex(text)
        offset = at - written
        written += len(piece)
        if not 0 <= offset < len(piece):
            _write(piece, 1)
            continue
        before, byte, after = piece[:offset], piece[offset], piece[offset + 1 :]
        _write(before, 1)
        _spoil(fault, byte)
        _write(after, 1)
    while os.read(0, 65536):
        pass


def pieces(file: str) -> list[tuple[int, str]]:
    """A recording: how many bytes had come in, and what was answered, in hex."""
    fd = os.open(file, os.O_RDONLY)
    try:
        lines = os.read(fd, 1 << 24).decode("ascii").splitlines()
    finally:
        os.close(fd)
    return [(int(needed), text) for needed, text in map(str.split, lines)]


def _spoil(fault: str, byte: int) -> None:
    """What happens in place of this byte."""
    if fault == "truncate":
        os._exit(0)
    if fault == "cut":
        os.close(1)
        while True:
            signal.pause()
    if fault == "delay":
        time.sleep(DELAY_SECONDS)
        _write(bytes([byte]), 1)
    elif fault == "repeat":
        _write(bytes([byte, byte]), 1)
    elif fault == "flip":
        _write(bytes([byte ^ 4]), 1)


def _write(data: bytes, fd: int) -> None:
    while data:
        data = data[os.write(fd, data) :]


if __name__ == "__main__":
    if sys.argv[1] == "record":
        sys.exit(record(sys.argv[2], sys.argv[4:]))
    play(sys.argv[2], sys.argv[3], int(sys.argv[4]))
