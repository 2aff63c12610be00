"""When a benchmark is terminated by SIGTERM, it ends the process that measures the present row.

The benchmark (`python -m bench`) runs each row in a worker, a separate Python process. Here the
worker is a shell script that never ends; it writes its pid into a named pipe.
"""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# The limit of a wait for an event that always comes.
PATIENCE_S = 120

# Runs the benchmark with the program in its argument as the interpreter of the worker.
PROGRAM = """
import sys
from bench.__main__ import main
sys.executable = sys.argv[1]
sys.exit(main(["--json", "--python-child", "first-host-modules"]))
"""
WORKER = """#!/bin/sh
echo $$ > {fifo}
exec sleep 1000
"""


@pytest.mark.more
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the system has no pidfd")
def test_the_worker_of_a_terminated_bench_ends(tmp_path: Path) -> None:
    fifo, worker = tmp_path / "started", tmp_path / "worker"
    os.mkfifo(fifo)
    worker.write_text(WORKER.format(fifo=fifo))
    worker.chmod(0o755)
    # Open for both, so that neither side waits for the other.
    started = os.open(fifo, os.O_RDWR)
    command = [sys.executable, "-c", PROGRAM, str(worker)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as bench:
        try:
            assert select.select([started], [], [], PATIENCE_S)[0]
            process = os.pidfd_open(int(os.read(started, 100)))
            bench.send_signal(signal.SIGTERM)
            assert bench.wait(PATIENCE_S) == 128 + signal.SIGTERM
            has_ended = select.select([process], [], [], PATIENCE_S)[0]
            if not has_ended:
                signal.pidfd_send_signal(process, signal.SIGKILL)
            os.close(process)
            assert has_ended
        finally:
            bench.kill()
            os.close(started)
