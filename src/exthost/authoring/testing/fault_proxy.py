"""A program that records a conversation and plays the extension's side back with one fault. Tests
start it in place of an extension, to see that a host survives every fault at every byte.

    python -S -E -P fault_proxy.py record FILE -- COMMAND …     between a host and an extension
    python -S -E -P fault_proxy.py play FILE FAULT OFFSET       in place of the extension

The fault concerns the byte of the extension's output at this offset:

    cut        stdout is closed before the byte, and the process keeps running
    truncate   the process exits before the byte
    delay      the process pauses for a moment before the byte
    repeat     the byte is written twice
    flip       one bit of the byte is inverted
    drop       the byte is left out

A recording contains the extension's output in chunks, each with the number of bytes that the
extension had received before it. In playback, a chunk is written when that many bytes have been
received. Their content is not compared, so the host must send the same requests as in the
recording. The program knows no dialect and uses only the standard library.
"""

import os
import signal
import sys
import time

# Long enough for the host to read the bytes before the pause by themselves.
DELAY_SECONDS = 0.005

FAULTS = ("cut", "truncate", "delay", "repeat", "flip", "drop")


def record(file: str, command: list[str]) -> int:
    """Run the command, and pass everything on between it and the host. Write a line to the file for
    each chunk of output: the number of bytes received before it, and the chunk in hexadecimal."""
    import select  # both only here: tests start thousands of playbacks, which do not need them
    import subprocess

    # Messages may contain private data, so only the owner may read the file.
    recording = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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


def play(file: str, fault: str, fault_offset: int) -> None:
    """Play the extension's side back, with this fault at this byte of the output."""
    received = written = 0
    for needed, hex_text in read_chunks(file):
        while received < needed:
            data = os.read(0, 65536)
            if not data:
                return
            received += len(data)
        chunk = bytes.fromhex(hex_text)
        offset = fault_offset - written
        written += len(chunk)
        if not 0 <= offset < len(chunk):
            _write(chunk, 1)
            continue
        _write(chunk[:offset], 1)
        _write_faulty(fault, chunk[offset])
        _write(chunk[offset + 1 :], 1)
    while os.read(0, 65536):  # until stdin ends
        pass


def read_chunks(file: str) -> list[tuple[int, str]]:
    """Return the chunks of a recording: the number of bytes received before each, and the chunk in
    hexadecimal."""
    fd = os.open(file, os.O_RDONLY)
    try:
        lines = os.read(fd, 1 << 24).decode("ascii").splitlines()
    finally:
        os.close(fd)
    return [(int(needed), hex_text) for needed, hex_text in map(str.split, lines)]


def _write_faulty(fault: str, byte: int) -> None:
    """Write this byte with the fault; `drop` writes nothing."""
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
