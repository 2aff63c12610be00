"""Reads the beginning of a file that is not trusted, since a package may have put it there.

A package can make any of its files a pipe without a writer, a symlink to an endless device, or
a file of any size. So only regular files are read, which is checked on the opened file, and at most
a given number of bytes.
"""

import os
import stat

# The kernel reads no more of a first line.
FIRST_LINE_BYTES = 256


def open_regular_file(path: str) -> int:
    """Return a descriptor that reads a regular file. Raises OSError."""
    # Non-blocking: otherwise opening a pipe without a writer would wait for ever.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "it is not a regular file", path)
    return fd


def read_start(path: str, size: int) -> bytes:
    """Return the first bytes of a regular file, at most `size`. Raises OSError."""
    fd = open_regular_file(path)
    try:
        data = os.read(fd, size)
        while len(data) < size and (more := os.read(fd, size - len(data))):
            data += more
    finally:
        os.close(fd)
    return data


def first_words(program: str) -> list[str]:
    """Return the interpreter and the arguments in the first line of a script, after `#!`; empty if
    the file is not a script."""
    try:
        start = read_start(program, FIRST_LINE_BYTES)
    except OSError:
        return []
    if not start.startswith(b"#!"):
        return []
    return os.fsdecode(start[2:].partition(b"\n")[0].strip()).split()
