"""How long processes have waited for a processor, as the kernel reports it.

`exthost check` subtracts this time from that of a start, so that a busy machine does not make an
extension seem slow.
"""

import os
import subprocess
import sys
import time

import pytest

from exthost.process.procfs import processor_wait

WAIT_SECONDS = 30.0

# A program that keeps one processor busy. Its argument is the number of the processor.
BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


def test_a_process_that_has_ended_has_not_waited() -> None:
    assert processor_wait(2**22 + 1) == 0.0  # above the largest pid


@pytest.mark.more
def test_two_busy_processes_on_one_processor_wait_for_it() -> None:
    processor = str(min(os.sched_getaffinity(0)))
    busy = [subprocess.Popen([sys.executable, "-S", "-c", BUSY, processor]) for _ in range(2)]
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not all(processor_wait(process.pid) > 0.1 for process in busy):
            assert time.monotonic() < deadline
            time.sleep(0.01)  # between two looks at the processes
        # The descendants of a process count as well.
        assert processor_wait(os.getpid()) >= processor_wait(busy[0].pid)
    finally:
        for process in busy:
            process.kill()
            process.wait()
