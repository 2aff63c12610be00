"""Tests of the writer that never blocks the event loop: its thread writes the text to a pipe."""

import os
import select
import time

import pytest

from exthost.faces.cli.nonblocking_writer import MAX_QUEUED_TEXTS, NonblockingWriter

LONG_SECONDS = 60


def test_an_empty_text_does_not_end_the_writer() -> None:
    read_end, write_end = os.pipe()
    writer = NonblockingWriter(write_end)
    try:
        writer.write("")
        # Until the thread has taken the empty text, so that it does not take both texts at once.
        deadline = time.monotonic() + LONG_SECONDS
        while writer._queue:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        writer.write("a")
        writer.close()
        readable, _, _ = select.select([read_end], [], [], 0)
        assert readable and os.read(read_end, 10) == b"a"
    finally:
        os.close(write_end)
        os.close(read_end)


@pytest.mark.parametrize(
    ("dropped", "notice"), [(1, "1 line was not read"), (2, "2 lines were not read")]
)
def test_the_dropped_lines_are_counted(dropped: int, notice: str) -> None:
    read_end, write_end = os.pipe()
    writer = NonblockingWriter(write_end)
    try:
        with writer._condition:  # the thread cannot take anything meanwhile
            for number in range(MAX_QUEUED_TEXTS + dropped):
                writer.write(f"{number}\n")
        writer.close()
        first, second = os.read(read_end, 65536).decode().splitlines()[:2]
        assert notice in first and second == str(dropped)
    finally:
        os.close(write_end)
        os.close(read_end)
