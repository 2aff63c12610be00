"""A `StdoutLoan` lets a thread read the stdout of an extension instead of the event loop.

A thread that waits for the reply to a blocking call gets it faster if it reads the pipe itself. The
loan keeps the bytes that the thread has read until it has handled them, since the thread may be
interrupted in between. The event loop can end the loan at any time, and takes these bytes.
"""

import os
from collections.abc import Iterator

import pytest

from exthost.process.stdout_loan import CAN_LEND, StdoutLoan

pytestmark = pytest.mark.skipif(not CAN_LEND, reason="this system has no eventfd")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    descriptors = os.pipe()
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def test_input_is_kept_until_it_is_handled(pipe: tuple[int, int]) -> None:
    loan = StdoutLoan(pipe[0])
    os.write(pipe[1], b"one\n")
    assert loan.wait(60) and loan.read() == b"one\n"
    loan.handled()
    assert not loan.wait(0) and loan.reads == 1
    loan.end()
    assert loan.take_data(0, force=False) == []


def test_no_thread_reads_after_bytes_that_were_not_handled(pipe: tuple[int, int]) -> None:
    loan = StdoutLoan(pipe[0])
    os.write(pipe[1], b"one\n")
    assert loan.wait(60) and loan.read() == b"one\n"  # and then the thread was interrupted
    os.write(pipe[1], b"two\n")
    assert loan.wait(0) and loan.read() is None
    loan.end()
    assert loan.take_data(0, force=False) == [b"one\n"]
    assert os.read(pipe[0], 100) == b"two\n"


def test_a_loan_that_has_ended_reads_nothing_and_does_not_wait(pipe: tuple[int, int]) -> None:
    loan = StdoutLoan(pipe[0])
    loan.end()
    os.write(pipe[1], b"one\n")
    assert loan.wait(3600) and loan.read() is None
    assert os.read(pipe[0], 100) == b"one\n"


def test_data_is_taken_from_a_busy_thread_only_by_force(pipe: tuple[int, int]) -> None:
    loan = StdoutLoan(pipe[0])
    os.write(pipe[1], b"one\n")
    with loan.busy:
        assert loan.wait(60) and loan.read() == b"one\n"
        loan.end()
        assert loan.take_data(0, force=False) is None
        assert loan.take_data(0, force=True) == [b"one\n"]
