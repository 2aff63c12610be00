"""Records a conversation, and plays the extension's side of it back with a fault.

    python -S -E -P fault_proxy.py record FILE -- COMMAND …     between a host and an extension
    python -S -E -P fault_proxy.py play FILE FAULT AT           in place of the extension

    cut        the output ends before byte AT, and the process keeps running
    truncate   the output ends before byte AT, and the process exits
    delay      a short pause before byte AT
    repeat     byte AT is written twice
    flip       one bit of byte AT is inverted
    drop       byte AT is left out

A recording contains the extension's output in pieces, each with the number of bytes that had been
received before it. In playback a piece is written when that many bytes were received, whatever they
are. So the host must send the same requests as in the recording. Knows no dialect; uses only the
standard library.
"""

import os
import signal
import sys
import time

# Long enough for the host to read what was written before.
DELAY_SECONDS = 0.005

FAULTS = ("cut", "truncate", "delay", "repeat", "flip", "drop")


def record(file: str, command: list[str]) -> int:
    """Pass everything on. Write a line for each piece of output: the number of bytes received
    before it, and the piece in hex."""
    import select  # only here: there are thousands of playbacks, and they need neither
    import subprocess

    recording = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None
        received = 0
        out = child.stdout.fileno()
        targets = {0: child.stdin.fileno(), out: 1}
        while targets:
            for fd in select.select(list(targets), [], [])[0]:
                data = os.read(fd, 65536)
                if not data:
                    if fd == 0:
                        child.stdin.close()
                    del targets[fd]
                    if fd == out:
                        targets.clear()
                    continue
                if fd == 0:
                    received += len(data)
                else:
                    _write(f"{received} {data.hex()}\n".encode(), recording)
                _write(data, targets.get(fd, 1))
        return child.wait()


def play(file: str, fault: str, at: int) -> None:
    """Play the extension's side back, with a fault at byte `at`."""
    received = written = 0
    for needed, text in pieces(file):
        while received < needed:
            data = os.read(0, 65536)
            if not data:
                return
            received += len(data)
        piece = bytes.fromhex(text)
        offset = at - written
        written += len(piece)
        if not 0 <= offset < len(piece):
            _write(piece, 1)
            continue
        before, byte, after = piece[:offset], piece[offset], piece[offset + 1 :]
        _write(before, 1)
        _apply(fault, byte)
        _write(after, 1)
    while os.read(0, 65536):
        pass


def pieces(file: str) -> list[tuple[int, str]]:
    """Return the pieces of a recording: the number of bytes received before each, and the piece
    in hex."""
    fd = os.open(file, os.O_RDONLY)
    try:
        lines = os.read(fd, 1 << 24).decode("ascii").splitlines()
    finally:
        os.close(fd)
    return [(int(needed), text) for needed, text in map(str.split, lines)]


def _apply(fault: str, byte: int) -> None:
    """Apply the fault in place of this byte."""
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
