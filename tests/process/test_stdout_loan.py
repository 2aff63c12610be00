"""A loan of stdout keeps what a thread has read until it is handled, and ends at once."""

import os
from collections.abc import Iterator

import pytest

from exthost.process.stdout_loan import CAN_LEND, StdoutLoan

pytestmark = pytest.mark.skipif(not CAN_LEND, reason="this system has no eventfd")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_input_is_kept_until_it_is_handled(pipe: tuple[int, int]) -> None:
    loan = StdoutLoan(pipe[0])
    os.write(pipe[1], b"one\n")
    assert loan.wait(60) and loan.read() == b"one\n"
    loan.handled()
    assert not loan.wait(0) and loan.reads == 1
    loan.end()
    assert loan.take_data(0, force=False) == []


def test_no_thread_reads_past_the_bytes_that_an_interrupted_one_left(pipe: tuple[int, int]) -> None:
    loan = StdoutLoan(pipe[0])
    os.write(pipe[1], b"one\n")
    assert loan.wait(60) and loan.read() == b"one\n"  # and then its thread was interrupted
    os.write(pipe[1], b"two\n")
    assert loan.wait(0) and loan.read() is None
    loan.end()
    assert loan.take_data(0, force=False) == [b"one\n"]
    assert os.read(pipe[0], 100) == b"two\n"


def test_after_its_end_nothing_is_read_and_no_wait_remains(pipe: tuple[int, int]) -> None:
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
