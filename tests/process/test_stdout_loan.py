"""A `StdoutLoan` lets a thread read the stdout of an extension instead of the event loop.

The event loop lends the pipe to threads that wait for replies, and does not watch it meanwhile. The
loan keeps the bytes that a thread has read until the thread has handled them, since it may be
interrupted in between. The event loop can end the loan at any time, and takes these bytes.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from exthost.process.stdout_loan import CAN_LEND, StdoutLoan

pytestmark = pytest.mark.skipif(not CAN_LEND, reason="this system has no eventfd")


class PipeEnds(NamedTuple):
    """The descriptors of a pipe."""

    read_end: int
    write_end: int


@pytest.fixture
def pipe() -> Iterator[PipeEnds]:
    ends = PipeEnds(*os.pipe())
    yield ends
    for descriptor in ends:
        os.close(descriptor)


def test_input_is_kept_until_it_is_handled(pipe: PipeEnds) -> None:
    loan = StdoutLoan(pipe.read_end)
    os.write(pipe.write_end, b"one\n")
    assert loan.wait(60) and loan.read() == b"one\n"
    loan.handled()
    assert not loan.wait(0) and loan.reads == 1
    loan.end()
    assert loan.take_data(0, force=False) == []


def test_no_thread_reads_after_bytes_that_were_not_handled(pipe: PipeEnds) -> None:
    loan = StdoutLoan(pipe.read_end)
    os.write(pipe.write_end, b"one\n")
    assert loan.wait(60) and loan.read() == b"one\n"  # and then the thread was interrupted
    os.write(pipe.write_end, b"two\n")
    assert loan.wait(0) and loan.read() is None
    loan.end()
    assert loan.take_data(0, force=False) == [b"one\n"]
    assert os.read(pipe.read_end, 100) == b"two\n"


def test_a_loan_that_has_ended_reads_nothing_and_does_not_wait(pipe: PipeEnds) -> None:
    loan = StdoutLoan(pipe.read_end)
    loan.end()
    os.write(pipe.write_end, b"one\n")
    assert loan.wait(3600) and loan.read() is None
    assert os.read(pipe.read_end, 100) == b"one\n"


def test_data_is_taken_from_a_busy_thread_only_by_force(pipe: PipeEnds) -> None:
    loan = StdoutLoan(pipe.read_end)
    os.write(pipe.write_end, b"one\n")
    with loan.busy:
        assert loan.wait(60) and loan.read() == b"one\n"
        loan.end()
        assert loan.take_data(0, force=False) is None
        assert loan.take_data(0, force=True) == [b"one\n"]
